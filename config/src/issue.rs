//! What is wrong in a configuration file, and the list of all of it. There are no warnings: a file is right, or it is
//! refused with every issue at once. Values of secrets never get into an issue.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// Issues kept of one file; the rest are only counted. A file generated wrongly repeats one mistake thousands of
/// times, and the report of it must not outgrow the file.
pub const MAX_ISSUES: usize = 1000;

/// Characters shown of a value that was found.
const MAX_SHOWN_CHARS: usize = 60;

/// A place in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The character within the line, from 1.
    pub column: u32,
}

impl Position {
    /// The first character of a file: where an issue of the whole file is shown.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One thing that is wrong: where, what was found, what was expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// Where in the file.
    #[serde(flatten)]
    pub position: Position,
    /// The setting, like `nodes[0].providers[1].capacity`; empty for the file as a whole.
    pub path: String,
    /// What stands there.
    pub found: String,
    /// What should stand there.
    pub expected: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.position)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "found {}, expected {}", self.found, self.expected)
    }
}

/// Every issue of one file, in the order of the file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Issues {
    #[serde(serialize_with = "as_shown")]
    file: PathBuf,
    issues: Vec<Issue>,
    omitted: usize,
}

impl Issues {
    pub(crate) fn single(file: &Path, issue: Issue) -> Self {
        Self { file: file.to_path_buf(), issues: vec![issue], omitted: 0 }
    }

    /// The file that was read, as it was named to us.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The issues by position, at most [`MAX_ISSUES`].
    pub fn iter(&self) -> std::slice::Iter<'_, Issue> {
        self.issues.iter()
    }

    /// How many issues the file has, the ones that are not listed included.
    pub fn total(&self) -> usize {
        self.issues.len() + self.omitted
    }
}

/// A path that is no text must not keep a report from being sent.
fn as_shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl<'a> IntoIterator for &'a Issues {
    type Item = &'a Issue;
    type IntoIter = std::slice::Iter<'a, Issue>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One line an issue: `file:line:column: path: found X, expected Y`.
impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{issue}", self.file.display())?;
        }
        if self.omitted > 0 {
            write!(f, "\n{}: and {} more", self.file.display(), self.omitted)?;
        }
        Ok(())
    }
}

/// The value is not there: an issue says why, or (`Environment::Unchecked` only) nobody asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoValue;

/// Takes issues in while a file is compiled. Shared by reference, so that reading a setting needs no `&mut`.
#[derive(Debug, Default)]
pub(crate) struct Log {
    issues: RefCell<Vec<Issue>>,
    omitted: Cell<usize>,
}

impl Log {
    pub(crate) fn report(
        &self,
        position: Position,
        path: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> NoValue {
        let mut issues = self.issues.borrow_mut();
        if issues.len() < MAX_ISSUES {
            let (found, expected) = (found.into(), expected.into());
            issues.push(Issue { position, path: path.to_owned(), found, expected });
        } else {
            self.omitted.set(self.omitted.get() + 1);
        }
        NoValue
    }

    /// What was reported, by position; None when nothing was.
    pub(crate) fn into_issues(self, file: &Path) -> Option<Issues> {
        let mut issues = self.issues.into_inner();
        issues.sort_by_key(|issue| issue.position);
        let omitted = self.omitted.get();
        (!issues.is_empty()).then(|| Issues { file: file.to_path_buf(), issues, omitted })
    }
}

/// `text` as it may stand inside one line of a report: shortened, control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == MAX_SHOWN_CHARS {
            out.push('…');
            break;
        }
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}
