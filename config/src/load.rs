//! From a file on disk to a compiled configuration. The only place that touches the disk or the process environment;
//! everything behind it is a function of text.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::edge::EdgeConfig;
use crate::issue::{Issue, Issues, Log, NoValue, Position};
use crate::kind::{self, Kind};
use crate::node::NodeConfig;
use crate::tree::{self, MAX_FILE_BYTES, Node};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read. Trying again helps only once the file is there and readable.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file was read and is wrong; someone must edit it.
    #[error(transparent)]
    Invalid(#[from] Issues),
}

/// Where the values of environment variables come from.
#[derive(Clone, Copy)]
pub enum Environment<'a> {
    /// From this function; a variable that is not set is an issue.
    Lookup(&'a dyn Fn(&str) -> Option<String>),
    /// From nowhere: the file is for another machine, and only that variables are named rightly is checked.
    Unchecked,
}

/// Checks the file at `path` as whichever kind it is, and says which.
///
/// # Errors
/// When the file cannot be read, or with every issue of it.
pub fn check(path: &Path, environment: Environment<'_>) -> Result<Kind, LoadError> {
    Ok(check_text(&read(path)?, path, environment)?)
}

/// As [`check`], of a text. `origin` names it in issues.
///
/// # Errors
/// With every issue of the text.
pub fn check_text(text: &str, origin: &Path, environment: Environment<'_>) -> Result<Kind, Issues> {
    compile(text, origin, |root, log| {
        let kind = kind::detect(root, log)?;
        let compiled = match kind {
            Kind::Edge => EdgeConfig::compile(root, origin, environment, log).map(|_| kind),
            Kind::Node => NodeConfig::compile(root, origin, log).map(|_| kind),
        };
        // Keys that were not looked up leave no configuration and no issue either.
        compiled.or(Ok(kind))
    })
}

/// Reads `text` into a tree and compiles that. Err if anything at all was reported, even beside a value.
pub(crate) fn compile<T>(
    text: &str,
    origin: &Path,
    compile: impl FnOnce(&Node<'_>, &Log) -> Result<T, NoValue>,
) -> Result<T, Issues> {
    let log = Log::default();
    let compiled = tree::read(text, &log).and_then(|root| compile(&root, &log));
    match (compiled, log.into_issues(origin)) {
        (Ok(value), None) => Ok(value),
        (_, Some(issues)) => Err(issues),
        (Err(NoValue), None) => unreachable!("every missing value was reported"),
    }
}

/// The text of a configuration file.
pub(crate) fn read(path: &Path) -> Result<String, LoadError> {
    let error = |source| LoadError::Read { path: path.to_path_buf(), source };
    let limit = MAX_FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    File::open(path).map_err(error)?.take(limit).read_to_end(&mut bytes).map_err(error)?;
    if bytes.len() > MAX_FILE_BYTES {
        let found = format!("more than {MAX_FILE_BYTES} bytes");
        return Err(whole_file(path, Position::START, found, format!("at most {MAX_FILE_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        whole_file(path, end_of(valid), "bytes that are not UTF-8".to_owned(), "text in UTF-8".to_owned())
    })
}

fn whole_file(path: &Path, position: Position, found: String, expected: String) -> LoadError {
    Issues::single(path, Issue { position, path: String::new(), found, expected }).into()
}

/// The position behind `text`, which is UTF-8.
fn end_of(text: &[u8]) -> Position {
    let line_start = text.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    let lines = text.iter().filter(|b| **b == b'\n').count();
    let characters = text[line_start..].iter().filter(|b| **b & 0xc0 != 0x80).count();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    Position { line: number(lines), column: number(characters) }
}

/// A path of the file at `origin`: relative ones start at that file's folder, wherever the process was started.
pub(crate) fn beside(origin: &Path, path: PathBuf) -> PathBuf {
    match origin.parent() {
        Some(folder) if path.is_relative() => folder.join(path),
        _ => path,
    }
}
