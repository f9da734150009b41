//! What is said about a key that is unknown where it stands.

use crate::{edge, lines, node};

const EDGE_START: &str = "certs: { dir: pki }\nquic: {}\n";
const NODE_START: &str = "edge: { addresses: [\"h:1\"] }\ncerts: { bundle: b }\n";
const PROVIDER: &str = "nodes: [ { id: a, providers: [ { id: p, adapter: echo, capacity: 1, KEY: 1 } ] } ]";
const MODEL: &str = "nodes: [ { id: a, providers: [ { id: p, adapter: echo, capacity: 1 } ] } ]\nmodels: [ { id: m, candidates: [ { node: a, provider: p } ], KEY: 1 } ]";
const CANDIDATE: &str = "nodes: [ { id: a, providers: [ { id: p, adapter: echo, capacity: 1 } ] } ]\nmodels: [ { id: m, candidates: [ { node: a, provider: p, KEY: 1 } ] } ]";
const NODE: &str = "nodes: [ { id: a, KEY: 1 } ]";

/// The expectation of the only issue of a file that has `key` in it.
fn expected_for(start: &str, rest: &str, key: &str) -> String {
    let text = format!("{start}{}", rest.replace("KEY", key));
    let reported = if start == EDGE_START { lines(edge(&text)) } else { lines(node(&text)) };
    let [line] = reported.as_slice() else { panic!("one issue was due for {key}: {reported:#?}") };
    let (head, expected) = line.split_once("found an unknown key, expected ").expect("the key is unknown");
    assert!(head.contains(key), "the path ends in the key: {line}");
    expected.to_owned()
}

/// [queue-ownership]
#[test]
fn a_queue_setting_anywhere_else_names_the_provider_pool() {
    let keys = ["max_queue", "queue_timeout_ms", "queue_timeout_sec", "queue_size", "max_queued"];
    for place in [PROVIDER, MODEL, CANDIDATE, NODE, "http: { KEY: 1 }", "KEY: 1"] {
        for key in keys {
            let expected = expected_for(EDGE_START, place, key);
            let right =
                "it under `provider_pool`: `provider_pool.max_queue` or `provider_pool.queue_timeout_ms`";
            assert_eq!(expected, right, "for {key} in {place}");
        }
    }
    let expected = expected_for(NODE_START, "KEY: 1", "max_queue");
    let right = "it in the edge's file under `provider_pool`: `provider_pool.max_queue` or `provider_pool.queue_timeout_ms`";
    assert_eq!(expected, right);
}

#[test]
fn a_misspelt_key_names_the_one_that_was_meant() {
    let cases = [
        (PROVIDER, "capcity", "capacity"),
        (PROVIDER, "long_context_capacities", "long_context_capacity"),
        (PROVIDER, "connect_timeout_sec", "connect_timeout_ms"),
        (PROVIDER, "contextWindowTokens", "context_window_tokens"),
        (MODEL, "candidate", "candidates"),
        (CANDIDATE, "upstream-model", "upstream_model"),
        ("provider_pool: { KEY: 1 }", "queue_timeout_sec", "queue_timeout_ms"),
        ("provider_pool: { KEY: 1 }", "max_queued", "max_queue"),
        ("http: { KEY: 1 }", "max_buffer_bytes", "max_buffered_bytes"),
        ("KEY: 1", "node", "nodes"),
        ("admin: { KEY: 1 }", "key", "key_env"),
        (PROVIDER, "api_key", "api_key_env"),
    ];
    for (place, key, meant) in cases {
        let expected = expected_for(EDGE_START, place, key);
        assert_eq!(expected, format!("a known key (did you mean `{meant}`?)"), "for {key} in {place}");
    }
}

#[test]
fn a_key_of_another_section_or_file_names_that_place() {
    let cases = [
        (EDGE_START, MODEL, "capacity", "it under `nodes[].providers[]`"),
        (EDGE_START, "KEY: 1", "max_body_bytes", "it under `http`"),
        (EDGE_START, "KEY: 1", "providers", "it under `nodes[]`"),
        (EDGE_START, PROVIDER, "upstream_model", "it under `models[].candidates[]`"),
        (EDGE_START, "http: { KEY: 1 }", "nodes", "it at the top level"),
        (EDGE_START, "http: { KEY: 1 }", "idle_timeout_ms", "it under `quic` or under `nodes[].providers[]`"),
        (EDGE_START, "KEY: 1", "keep_alive_ms", "it in a node's file, at the top level"),
        (EDGE_START, "KEY: 1", "bundle", "it in a node's file, under `certs`"),
        (NODE_START, "KEY: 1", "nodes", "it in the edge's file, at the top level"),
        (
            NODE_START,
            "reconnect: { KEY: 1 }",
            "capacity",
            "it in the edge's file, under `nodes[].providers[]`",
        ),
    ];
    for (start, place, key, expected) in cases {
        assert_eq!(expected_for(start, place, key), expected, "for {key} in {place}");
    }
}

#[test]
fn a_key_like_no_other_lists_the_keys_of_its_section() {
    let long = "x".repeat(1000);
    for key in ["colour", "q", long.as_str()] {
        let text = format!("{EDGE_START}admin: {{ \"{key}\": 1 }}");
        let reported = lines(edge(&text));
        assert_eq!(reported.len(), 1, "{reported:#?}");
        assert!(
            reported[0].ends_with("found an unknown key, expected one of `listen`, `key_env`"),
            "{reported:#?}"
        );
        assert!(reported[0].len() < 200, "a long key is shortened: {reported:#?}");
    }
}
