//! What a file may cost: its size, its depth, and what is said about a file that is wrong everywhere.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use iop_config::{EdgeConfig, LoadError, MAX_DEPTH, MAX_FILE_BYTES, MAX_ISSUES, MAX_NODES, Position};

use crate::{edge, lines};

/// Far above what the worst of these texts takes (well under a second in a debug build), far below a hang.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn hostile_texts_of_the_largest_size_are_refused_in_time() {
    let fill = |unit: &str| unit.repeat(MAX_FILE_BYTES / unit.len());
    let texts = [
        fill("["),
        fill("{"),
        fill("{a: "),
        fill("- "),
        fill("? "),
        fill("[a, "),
        format!("[{}", fill("a,").split_at(MAX_FILE_BYTES - 2).0),
        fill("a\n"),
        fill("a: b\n"),
        fill("- a\n"),
        fill("\n"),
        fill(" "),
        fill("#"),
        fill("# a\n"),
        fill("\""),
        fill("'"),
        fill("|\n"),
        fill("&a "),
        fill("*a "),
        fill("!a "),
        fill("%a\n"),
        fill("---\n"),
        fill("\t"),
        fill("a"),
        fill("é"),
        fill("a:\n b:\n"),
        format!("a: |\n{}", fill(" x\n").split_at(MAX_FILE_BYTES - 8).0),
        (0..400_000)
            .map(|n| format!("k{n}: 1\n"))
            .collect::<String>()
            .split_at(MAX_FILE_BYTES - 8)
            .0
            .to_owned(),
    ];
    for text in &texts {
        assert!(text.len() <= MAX_FILE_BYTES, "the text itself is not too large");
        let start = Instant::now();
        let issues = edge(text).expect_err("none of these is a configuration");
        let shown = issues.to_string();
        let begin: String = text.chars().take(8).collect();
        assert!(start.elapsed() < DEADLINE, "{begin:?} took {:?}", start.elapsed());
        assert!(shown.len() < 512 * MAX_ISSUES, "the report of {begin:?} has {} bytes", shown.len());
    }
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let reported = lines(edge(&" ".repeat(MAX_FILE_BYTES + 1)));
    assert_eq!(reported, ["1:1: found a file of 4194305 bytes, expected at most 4194304 bytes"]);

    let path = scratch("large.yaml", &vec![b' '; MAX_FILE_BYTES + 1]);
    let error = EdgeConfig::load(&path).expect_err("the file is too large");
    assert!(
        error.to_string().ends_with("1:1: found more than 4194304 bytes, expected at most 4194304 bytes"),
        "{error}"
    );
}

#[test]
fn nesting_and_number_of_values_are_bounded() {
    let nested =
        |levels: usize| format!("certs: {{ dir: pki }}\nx: {}{}\n", "[".repeat(levels), "]".repeat(levels));
    assert!(lines(edge(&nested(MAX_DEPTH)))[0].contains("unknown key"), "this deep is read");
    let deep = lines(edge(&nested(MAX_DEPTH + 1)));
    assert_eq!(deep.len(), 1, "{deep:#?}");
    assert!(deep[0].ends_with("found deep nesting, expected at most 32 levels of it"), "{deep:#?}");

    let long = |items: usize| format!("certs: {{ dir: pki }}\nx: [{}]\n", "1,".repeat(items));
    assert!(lines(edge(&long(MAX_NODES / 2)))[0].contains("unknown key"), "this many are read");
    let many = lines(edge(&long(MAX_NODES)));
    assert_eq!(many.len(), 1, "{many:#?}");
    assert!(
        many[0].ends_with("found too many keys and values, expected at most 262144 of them"),
        "{many:#?}"
    );
}

#[test]
fn of_very_many_issues_the_first_are_listed_and_the_rest_counted() {
    let keys: String = (0..MAX_ISSUES + 5).map(|n| format!("unknown{n}: 1\n")).collect();
    let issues = edge(&format!("certs: {{ dir: pki }}\n{keys}")).expect_err("no key is known");
    assert_eq!(issues.iter().count(), MAX_ISSUES);
    assert_eq!(issues.total(), MAX_ISSUES + 5);
    assert!(issues.to_string().ends_with("\n/etc/iop/edge.yaml: and 5 more"));
}

#[test]
fn lists_have_their_own_bounds() {
    let provider = |n: usize| format!("{{ id: p{n}, adapter: echo, capacity: 1 }}");
    let providers: Vec<_> = (0..257).map(provider).collect();
    let text =
        format!("certs: {{ dir: pki }}\nnodes: [ {{ id: a, providers: [ {} ] }} ]\n", providers.join(", "));
    let reported = lines(edge(&text));
    assert_eq!(reported, ["2:30: nodes[0].providers: found 257 providers, expected at most 256 of them"]);

    let headers: Vec<_> = (0..33).map(|n| format!("x-{n}: 1")).collect();
    let text = format!(
        "certs: {{ dir: pki }}\nnodes: [ {{ id: a, providers: [ {{ id: p, adapter: openai, endpoint: \"http://h\", capacity: 1, headers: {{ {} }} }} ] }} ]\n",
        headers.join(", ")
    );
    let reported = lines(edge(&text));
    assert_eq!(
        reported,
        ["2:102: nodes[0].providers[0].headers: found 33 headers, expected at most 32 of them"]
    );
}

#[test]
fn a_thousand_nodes_fit_into_one_file() {
    let mut text = "certs: { dir: pki }\nnodes:\n".to_owned();
    for node in 0..1000 {
        text.push_str(&format!("  - id: node-{node}\n    providers:\n"));
        for provider in 0..4 {
            text.push_str(&format!(
                "      - {{ id: p{provider}, adapter: openai, endpoint: \"http://127.0.0.1:8081\", capacity: 4, long_context_capacity: 1, \
                 context_window_tokens: 131072, total_context_tokens: 131072, priority: 10, enabled: true }}\n"
            ));
        }
    }
    let config = edge(&text).expect("a large deployment is still a good file");
    assert_eq!(config.nodes.len(), 1000);
}

#[test]
fn bytes_that_are_not_text_are_reported_with_their_place() {
    let path = scratch("latin1.yaml", b"certs: { dir: pki }\nmodels: [ { id: gr\xc3\xb6\xdfe } ]\n");
    let LoadError::Invalid(issues) = EdgeConfig::load(&path).expect_err("the file is no UTF-8") else {
        panic!("the file could be read")
    };
    let [issue] = issues.iter().as_slice() else { panic!("one issue was due: {issues}") };
    assert_eq!(issue.position, Position { line: 2, column: 20 });
    assert_eq!(issue.to_string(), "2:20: found bytes that are not UTF-8, expected text in UTF-8");
    assert_eq!(issues.file(), path);
}

/// A file of this test program alone, in the folder that Cargo keeps for it.
fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("iop-config-{}-{name}", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("the folder can be written to");
    file.write_all(bytes).expect("the file can be written");
    path
}
