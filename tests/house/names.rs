//! `tests/NAMES.md` held against the tree: every name of the requirements has tests that are there and say that they show it.
//! Whether they do is for the reader.

use crate::sources::{Source, has_word, rust};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../NAMES.md");

/// The names that the requirements have.
const NAMES: [&str; 17] = [
    "capacity-smoke",
    "certs",
    "contract-spec-sync",
    "cross-group-wakeup",
    "cross-model-tests",
    "disconnect-exclusion",
    "disconnect-queue-resolution",
    "lease-lifecycle",
    "long-state",
    "node-connectivity-supervision",
    "offline-snapshot",
    "provider-state",
    "queue-ownership",
    "reconnect-candidate-recovery",
    "refresh-consistency",
    "snapshot-source",
    "tunnel-guard",
];

/// A row of the page: the file, the test in it, and what that shows.
type Row = [String; 3];

/// The rows below each name of a page.
fn chapters(page: &str) -> BTreeMap<&str, Vec<Row>> {
    let chapters = page.split("\n## [").skip(1);
    let chapter = |text| -> (&str, Vec<Row>) {
        let (name, text): (&str, &str) = str::split_once(text, "]\n").expect("a name stands in brackets");
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        (name, rows.map(row).collect())
    };
    chapters.map(chapter).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').splitn(3, '|').map(str::trim).collect();
    let cells: [&str; 3] = cells.try_into().unwrap_or_else(|cells| panic!("three cells in a row: {cells:?}"));
    cells.map(|cell| cell.trim_matches('`').to_owned())
}

/// What is wrong with a row of this name.
fn fault(name: &str, [file, test, shows]: &Row, sources: &[Source]) -> Option<String> {
    let Some(source) = sources.iter().find(|source| source.path == *file) else {
        return Some(format!("[{name}] {file} is not there"));
    };
    if !has_word(&source.code, &format!("fn {test}("), false) {
        return Some(format!("[{name}] {file} has no `fn {test}`"));
    }
    if !comments(source).any(|comment| comment.contains(&format!("[{name}]"))) {
        return Some(format!("[{name}] is in no comment of {file}"));
    }
    shows.is_empty().then(|| format!("[{name}] {test}: what does it show?"))
}

/// What stands behind `//` in the lines of a file.
fn comments(source: &Source) -> impl Iterator<Item = &str> {
    source.text.lines().filter_map(|line| line.trim_start().strip_prefix("//"))
}

/// What stands between brackets in a comment and looks like a name: words of small letters, joined by hyphens.
fn bracketed(comment: &str) -> impl Iterator<Item = &str> {
    let inner = comment.split('[').skip(1).filter_map(|rest| Some(rest.split_once(']')?.0));
    inner.filter(|inner| inner.contains('-') && inner.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
}

// [cross-model-tests]
#[test]
fn every_name_of_the_requirements_has_tests_that_are_there() {
    let (chapters, sources) = (chapters(PAGE), rust());
    let named: BTreeSet<&str> = chapters.keys().copied().collect();
    assert_eq!(named, NAMES.into(), "the names of the page");
    let empty: Vec<_> = chapters.iter().filter(|(_, rows)| rows.is_empty()).map(|(name, _)| name).collect();
    assert!(empty.is_empty(), "names without a test: {empty:?}");
    let rows = || chapters.iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, row)));
    let faults: Vec<String> = rows().filter_map(|(name, row)| fault(name, row, &sources)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let distinct: BTreeSet<_> = rows().map(|(name, [file, test, _])| (name, file, test)).collect();
    assert_eq!(distinct.len(), rows().count(), "a test stands once below a name");
}

// [cross-model-tests]
#[test]
fn every_name_that_a_comment_carries_is_one_of_the_requirements() {
    let sources = rust();
    let found = sources.iter().flat_map(|source| {
        comments(source).flat_map(|comment| bracketed(comment).map(|name| (name, source.path.as_str())))
    });
    let found: Vec<(&str, &str)> = found.collect();
    assert!(found.len() > 100, "tests carry names, these do: {found:?}");
    let unknown: Vec<_> = found.iter().filter(|(name, _)| !NAMES.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn rows_that_are_not_true_are_told() {
    let page = "\n## [a-b]\n\nText.\n\n| file | test | shows |\n| --- | --- | --- |\n| `x.rs` | `t` | all |\n\n## [c-d]\n";
    let read = chapters(page);
    let names: Vec<_> = read.keys().copied().collect();
    assert_eq!((names, read["a-b"].len(), read["c-d"].len()), (vec!["a-b", "c-d"], 1, 0));
    let source = |text: &str, code: &str| {
        [Source { path: "x.rs".to_owned(), text: text.to_owned(), code: code.to_owned() }]
    };
    let told = |text, code| fault("a-b", &read["a-b"][0], &source(text, code));
    assert_eq!(told("// [a-b]", "fn t() {"), None);
    assert!(told("[a-b]", "fn t() {").is_some_and(|fault| fault.contains("no comment")));
    assert!(told("// [a-b]", "fn tt() { t() }").is_some_and(|fault| fault.contains("no `fn t`")));
    assert!(fault("a-b", &read["a-b"][0], &[]).is_some_and(|fault| fault.contains("not there")));
    assert_eq!(bracketed(" Shows [a-b] and [`c-d`], [e].").collect::<Vec<_>>(), ["a-b"]);
}
