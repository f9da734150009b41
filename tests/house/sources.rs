//! The source files as the walls see them: every tracked file, and Rust without its comments and texts.

use std::path::Path;
use std::process::Command;

/// One tracked Rust file.
pub(crate) struct Source {
    /// From the top of the repository.
    pub(crate) path: String,
    /// As it stands there.
    pub(crate) text: String,
    /// Without comments and without what stands between quotes; line ends are kept.
    pub(crate) code: String,
}

impl Source {
    /// Whether it is part of what users run, not of a test. Unit tests inside a product file count as that file.
    pub(crate) fn is_product(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let in_source = self.path.starts_with("src/") || self.path.contains("/src/");
        in_source && !self.path.contains("/tests/") && name != "tests.rs"
    }
}

/// Every tracked file, from the top of the repository.
pub(crate) fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("file names are text");
    names.split_terminator('\0').map(str::to_owned).collect()
}

/// Every tracked Rust file that is there.
pub(crate) fn rust() -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let paths = tracked().into_iter().filter(|path| path.ends_with(".rs") && top.join(path).exists());
    let read = |path: String| {
        let text = std::fs::read_to_string(top.join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Source { code: code(&text), text, path }
    };
    let sources: Vec<Source> = paths.map(read).collect();
    assert!(sources.len() > 100, "the repository has many Rust files, these are {}", sources.len());
    sources
}

/// `text` without comments, strings and characters.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before_is_name = code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            quoted(rest, '"')
        } else if let Some(length) = raw_string(rest).filter(|_| !before_is_name) {
            length
        } else if first == '\'' {
            character(rest)
        } else {
            0
        };
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..skipped].chars().filter(|&character| character == '\n'));
            code.push(' ');
            rest = &rest[skipped..];
        }
    }
    code
}

/// Length of the block comment at the start, with the ones inside it.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of the literal at the start, up to the closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            character if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the raw string at the start: `r"`, `br#"` and so on.
fn raw_string(text: &str) -> Option<usize> {
    let after_r =
        text.strip_prefix("br").or_else(|| text.strip_prefix("cr")).or_else(|| text.strip_prefix('r'))?;
    let hashes = after_r.bytes().take_while(|&byte| byte == b'#').count();
    let body = after_r[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(start + body.find(&end).map_or(body.len(), |at| at + end.len()))
}

/// Length of the character at the start; 0 where the quote begins a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.chars().skip(1);
    match (characters.next(), characters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => 0,
    }
}

/// Whether `code` has `word` with no letter, digit or underscore before it, nor behind it if `whole`.
pub(crate) fn has_word(code: &str, word: &str, whole: bool) -> bool {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    let mut places = code.match_indices(word).map(|(at, _)| (&code[..at], &code[at + word.len()..]));
    places.any(|(before, behind)| {
        let goes_on = before.ends_with(is_name) || (whole && behind.starts_with(is_name));
        !goes_on
    })
}

#[test]
fn comments_and_texts_are_no_code() {
    let text =
        "a // b\nc /* d /* e */\n f */ g \"h \\\" i\" j r#\"k \" l\"# m 'n' '\\'' o<'p> br\"q\" for\" r\"";
    let stripped = code(text);
    let words: Vec<&str> = stripped.split_whitespace().collect();
    assert_eq!(words, ["a", "c", "g", "j", "m", "o<'p>", "for"]);
    assert_eq!(stripped.lines().count(), text.lines().count());
}

#[test]
fn words_are_found_whole_or_as_a_beginning() {
    assert!(has_word("use std::sync::AtomicU64;", "Atomic", false));
    assert!(!has_word("use std::sync::AtomicU64;", "Atomic", true));
    assert!(!has_word("NonAtomic", "Atomic", false));
    assert!(has_word("x.await?", "await", true) && !has_word("awaited", "await", true));
}
