//! Holds CONTRACT.md true: its tables are the compiler's rows, its numbers the compiler's limits, and every key in them is
//! really read. [contract-spec-sync]

use std::path::Path;

use iop_config::{Issue, Kind, MAX_DEPTH, MAX_FILE_BYTES, MAX_ISSUES, MAX_NODES, known_keys};
use serde_json::{Value, json};

use crate::full::{compile, full, issue_path, pointer};
use crate::lines;

const KINDS: [(Kind, &str); 2] = [(Kind::Edge, "## The edge's file"), (Kind::Node, "## A node's file")];

fn contract() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("CONTRACT.md");
    std::fs::read_to_string(path).expect("the contract lies beside the crate")
}

/// The rows of all tables below `heading`: path, what it takes, what holds without it, when a change applies.
fn rows(contract: &str, heading: &str) -> Vec<[String; 4]> {
    let chapter = contract.split_once(heading).expect("the chapter is there").1;
    let chapter = chapter.split("\n## ").next().unwrap_or_default();
    let mut section = "";
    let mut rows = Vec::new();
    for line in chapter.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            section = title.strip_prefix('`').and_then(|title| title.strip_suffix('`')).unwrap_or("");
        } else if let Some(row) = line.strip_prefix("| `") {
            let (name, rest) = row.split_once("` | ").expect("the first cell is the key");
            let cells: Vec<_> = rest.split(" | ").collect();
            let [takes, absent, applies, meaning] = cells.as_slice() else {
                panic!("five cells were due: {line}")
            };
            assert!(meaning.len() > 5, "each key says what it means: {line}");
            let path = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
            rows.push([path, (*takes).to_owned(), (*absent).to_owned(), (*applies).to_owned()]);
        }
    }
    rows
}

#[test]
fn the_contract_lists_exactly_the_keys_that_the_compiler_knows() {
    let contract = contract();
    for (kind, heading) in KINDS {
        let known: Vec<_> = known_keys(kind)
            .into_iter()
            .map(|key| [key.path, key.takes, key.absent, key.applies.to_string()])
            .collect();
        assert!(known.len() > 10, "the compiler knows keys of {kind}");
        assert_eq!(rows(&contract, heading), known, "in {kind}");
    }
}

#[test]
fn the_contract_states_the_limits_of_a_file() {
    let contract = contract();
    let form = format!(
        "at most {MAX_FILE_BYTES} bytes, {MAX_DEPTH} levels of nesting and {MAX_NODES} keys and values"
    );
    assert!(contract.contains(&form), "{form}");
    let issues = format!("the first {MAX_ISSUES} of them in full");
    assert!(contract.contains(&issues), "{issues}");
}

#[test]
fn every_known_key_is_read_and_checked() {
    let mut checked = 0;
    for (kind, _) in KINDS {
        let full = full(kind);
        assert_eq!(lines(compile(kind, &full)), Vec::<String>::new(), "the full file is good");
        for key in known_keys(kind) {
            let pointer =
                pointer(&full, &key.path).unwrap_or_else(|| panic!("{} is in the full file", key.path));
            let mut file = full.clone();
            *file.pointer_mut(&pointer).expect("the pointer leads to a value") = json!([[]]);
            let issues = compile(kind, &file).expect_err("a list of lists is never right");
            let path = issue_path(&pointer);
            let is_about = |issue: &Issue| issue.path == path || issue.path == format!("{path}[0]");
            assert!(
                issues.iter().any(|issue| is_about(issue) && issue.found == "a list"),
                "at {path}: {issues}"
            );
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} keys were checked");
}

#[test]
fn every_default_in_the_contract_is_what_the_compiler_takes() {
    let mut checked = 0;
    for (kind, _) in KINDS {
        for key in known_keys(kind) {
            let Some(default) = key.absent.strip_prefix('`').and_then(|text| text.strip_suffix('`')) else {
                continue;
            };
            let pointer = pointer(&full(kind), &key.path).expect("the key is in the full file");
            let mut written = full(kind);
            *written.pointer_mut(&pointer).expect("the pointer leads to a value") =
                serde_json::from_str(default).unwrap_or_else(|_| json!(default));
            let mut absent = full(kind);
            let (section, name) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
            let section = absent.pointer_mut(section).and_then(Value::as_object_mut);
            section.expect("a key stands in a mapping").remove(name).expect("the key is there");
            assert_eq!(
                outcome(kind, &written),
                outcome(kind, &absent),
                "{} is {default} by default",
                key.path
            );
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} defaults were checked");
}

/// What a file leads to, without the places, which differ where a key is not written.
fn outcome(kind: Kind, file: &Value) -> Result<String, Vec<[String; 3]>> {
    let without_place = |issue: &Issue| [issue.path.clone(), issue.found.clone(), issue.expected.clone()];
    compile(kind, file).map_err(|issues| issues.iter().map(without_place).collect())
}
