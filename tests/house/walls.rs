//! What source files may hold, and where.

use crate::sources::{Source, has_word, rust, tracked};
use std::collections::BTreeSet;

/// Longest file of the product and of the harness, in lines.
const MAX_LINES: usize = 400;

/// The world, as it looks in Rust: whether the word must be whole, or other letters may follow.
const WORLD: [(&str, bool); 17] = [
    ("tokio", false),
    ("async", true),
    ("await", true),
    ("std::net", true),
    ("std::fs", true),
    ("std::io", true),
    ("Instant", true),
    ("SystemTime", true),
    ("Mutex", true),
    ("RwLock", true),
    ("Atomic", false),
    ("HashMap", true),
    ("HashSet", true),
    ("tracing", false),
    ("println", true),
    ("eprintln", true),
    ("rand", true),
];

/// The paths of the files that break a wall.
fn breakers(sources: &[Source], breaks: impl Fn(&Source) -> bool) -> Vec<&str> {
    sources.iter().filter(|source| breaks(source)).map(|source| source.path.as_str()).collect()
}

#[test]
fn admission_supervisor_and_gate_decide_without_io_clock_async_lock_log_or_hash_order() {
    let sources = rust();
    for (room, files) in [("edge/src/admission", 8), ("node/src/supervisor", 5), ("node/src/gate.rs", 1)] {
        let in_room = |path: &str| {
            path == room || path.strip_prefix(room).is_some_and(|rest| rest.starts_with(['.', '/']))
        };
        let own: Vec<&Source> = sources.iter().filter(|source| in_room(&source.path)).collect();
        assert!(own.len() >= files, "{room} is where it was: {} files", own.len());
        for source in own {
            let found: Vec<&str> = WORLD
                .iter()
                .filter(|(word, whole)| has_word(&source.code, word, *whole))
                .map(|(word, _)| *word)
                .collect();
            assert!(found.is_empty(), "{} knows of the world: {found:?}", source.path);
        }
    }
}

#[test]
fn bincode_is_named_in_one_file_and_quinn_in_one_room() {
    let sources = rust();
    let names_bincode = breakers(&sources, |source| has_word(&source.code, "bincode", true));
    assert_eq!(names_bincode, ["transport/src/wire/codec.rs"]);

    let names_quinn = breakers(&sources, |source| {
        source.is_product()
            && (has_word(&source.code, "quinn", true) || has_word(&source.code, "quinn_proto", true))
    });
    assert!(!names_quinn.is_empty(), "transport is where quinn is");
    let outside: Vec<_> = names_quinn.iter().filter(|path| !path.starts_with("transport/src/")).collect();
    assert!(outside.is_empty(), "{outside:?}");
}

#[test]
fn no_lint_is_switched_off_without_a_reason_and_nothing_is_left_to_do() {
    let sources = rust();
    for pattern in ["#[allow(", "#![allow(", "todo!(", "unimplemented!(", "dbg!("] {
        let found = breakers(&sources, |source| source.code.contains(pattern));
        assert!(found.is_empty(), "{pattern} in {found:?}");
    }
    for pattern in [".unwrap()", ".unwrap_err()"] {
        let found = breakers(&sources, |source| source.is_product() && source.code.contains(pattern));
        assert!(found.is_empty(), "{pattern} in {found:?}");
    }
    let is_plan = |line: &str| {
        let comment = line.split_once("//").map(|(_, comment)| comment).unwrap_or_default();
        ["TODO", "FIXME"].iter().any(|word| has_word(comment, word, true))
    };
    let found = breakers(&sources, |source| source.text.lines().any(is_plan));
    assert!(found.is_empty(), "plans belong into issues: {found:?}");
}

#[test]
fn every_rust_file_begins_by_saying_what_it_is() {
    let sources = rust();
    let silent = breakers(&sources, |source| !source.text.starts_with("//! "));
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn no_file_of_the_product_or_the_harness_is_longer_than_400_lines() {
    let sources = rust();
    let is_judged = |source: &&Source| source.is_product() || source.path.starts_with("tests/harness/");
    let judged: Vec<&Source> = sources.iter().filter(is_judged).collect();
    for (room, least) in [("src/", 5), ("edge/src/", 40), ("tests/harness/", 30)] {
        let found = judged.iter().filter(|source| source.path.starts_with(room)).count();
        assert!(found >= least, "{room} has many files, judged are {found}");
    }
    let long: Vec<String> = judged
        .iter()
        .map(|source| (source.text.lines().count(), &source.path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn no_room_is_called_by_what_is_in_every_room() {
    let names = ["utils", "util", "common", "helpers", "helper", "misc"];
    let is_vague = |path: &&String| path.split(['/', '.']).any(|part| names.contains(&part));
    let vague: Vec<String> = tracked().iter().filter(is_vague).cloned().collect();
    assert!(vague.is_empty(), "{vague:?}");
}

#[test]
fn the_top_level_holds_what_was_agreed_and_nothing_else() {
    let top = |path: &String| path.split('/').next().map(str::to_owned);
    let seen: BTreeSet<String> =
        tracked().iter().filter_map(top).filter(|name| !name.starts_with('.')).collect();
    let agreed = [
        "ARCHITECTURE.md",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "certs",
        "config",
        "edge",
        "node",
        "src",
        "tests",
        "transport",
    ];
    assert_eq!(seen, agreed.map(str::to_owned).into());
}

#[test]
fn every_select_is_polled_in_the_order_it_is_written_so_that_a_seed_does_the_same_again() {
    let sources = rust();
    let selects = |source: &Source| source.code.matches("select! {").count();
    // The binary itself is not part of the simulation.
    let simulated = |source: &&Source| source.is_product() && !source.path.starts_with("src/");
    let product: Vec<&Source> = sources.iter().filter(simulated).collect();
    assert!(product.iter().map(|source| selects(source)).sum::<usize>() >= 10, "the product selects");
    let at_random = |source: &&&Source| {
        let mut bodies = source.code.split("select! {").skip(1);
        bodies.any(|body| !body.trim_start().starts_with("biased;"))
    };
    let found: Vec<&str> = product.iter().filter(at_random).map(|source| source.path.as_str()).collect();
    assert!(found.is_empty(), "tokio's select! draws whom it asks first, unless it is biased: {found:?}");
}
