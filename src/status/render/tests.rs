//! Pages for snapshots as edges give them, and as no edge of today gives them.

use super::{message, page};
use crate::status::snapshot::Snapshot;
use serde_json::{Value, json};

/// When the snapshots were taken, in seconds since 1970.
const NOW: u64 = 1_796_147_759;

fn shown(snapshot: Value) -> String {
    let snapshot: Snapshot = serde_json::from_value(snapshot).expect("a snapshot");
    let page = page(&snapshot, "127.0.0.1:9090", NOW);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "80 columns:\n{page}");
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "no control characters: {page:?}");
    page
}

/// The smallest snapshot.
fn empty() -> Value {
    json!({"queue": {}, "leases": {}, "nodes": []})
}

/// A snapshot whose only provider is a healthy one with these fields changed.
fn with_provider(changes: &Value) -> Value {
    let mut provider = json!({
        "id": "llama", "adapter": "openai", "enabled": true, "status": "available", "health": "online", "reason": null,
        "capacity": 4, "effective_capacity": 4, "in_flight": 0, "long_context_capacity": 0, "long_in_flight": 0,
        "queued": 0, "long_queued": 0, "aside_ms": null, "failures": 0, "priority": 0,
    });
    for (key, value) in changes.as_object().expect("fields") {
        provider[key] = value.clone();
    }
    with_node(&json!({ "providers": [provider] }))
}

/// A snapshot whose only node is a connected one with these fields changed.
fn with_node(changes: &Value) -> Value {
    let mut node = json!({
        "id": "gpu-a", "connected": true, "status": "available", "health": "online", "generation": 1,
        "address": "192.0.2.7:51544", "since": NOW - 11_540, "rtt_ms": 12.34, "software": "iop 0.1.0", "providers": [],
    });
    for (key, value) in changes.as_object().expect("fields") {
        node[key] = value.clone();
    }
    let mut snapshot = empty();
    snapshot["nodes"] = json!([node]);
    snapshot
}

/// The lines of the page from the one that holds `from` on, without their indent.
fn after(page: &str, from: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| !line.contains(from)).skip(1);
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_page_tells_the_edge_each_node_with_its_providers_and_what_nobody_serves() {
    let offline = json!({"id": "ollama", "status": "unavailable", "health": "offline", "capacity": 2});
    let mut snapshot = with_provider(&json!({
        "in_flight": 2, "long_context_capacity": 1, "long_in_flight": 1, "queued": 3, "long_queued": 1,
    }));
    snapshot["queue"] = json!({"length": 3, "max": 256, "timeout_ms": 30_000, "oldest_wait_ms": 1234});
    snapshot["leases"] =
        json!({"active": 2, "acquired_total": 120, "released_total": 117, "fenced_total": 1});
    let nodes = snapshot["nodes"].as_array_mut().expect("a list");
    nodes.push(json!({
        "id": "gpu-b", "connected": false, "status": "unavailable", "health": "offline", "generation": null,
        "address": null, "since": null, "rtt_ms": null, "software": null, "providers": [offline],
    }));
    let candidate = |node: &str, provider: &str| json!({"node": node, "provider": provider});
    snapshot["models"] = json!([
        {"id": "ornith:35b", "available": true, "candidates": [candidate("gpu-a", "llama")]},
        {"id": "small", "available": false, "candidates": [candidate("gpu-b", "ollama"), candidate("gpu-c", "x")]},
    ]);
    snapshot["config"] = json!({
        "revision": 3, "source": "/etc/iop/edge.yaml",
        "last_error": "/etc/iop/edge.yaml:2:1: found `a`, expected `b`\n/etc/iop/edge.yaml: and 7 more",
    });
    let expected = "\
edge     127.0.0.1:9090, 2026-12-01 17:55:59 UTC
queue    3 of 256 waiting, the oldest for 1.2 s (at most 30 s)
leases   2 active; since the start 120 acquired, 117 released, 1 fenced
models   1 of 2 available
nodes    1 of 2 connected
config   revision 3, /etc/iop/edge.yaml
         the file as it is now is NOT IN FORCE:
         2:1: found `a`, expected `b`
         and 7 more

NODE, PROVIDER  STATE      RUNNING    LONG  QUEUED
gpu-a           connected 3 h 12 min, 192.0.2.7:51544, rtt 12.3 ms, iop 0.1.0
  llama         available   2 of 4  1 of 1  3 (1 long)
gpu-b           offline
  ollama        offline          -       -  0

MODELS NOT AVAILABLE
  small         gpu-b/ollama is offline, gpu-c/x is unknown
";
    assert_eq!(shown(snapshot), expected);
}

#[test]
fn an_edge_without_nodes_has_no_table() {
    let expected = "\
edge     127.0.0.1:9090, 2026-12-01 17:55:59 UTC
queue    0 of 0 waiting
leases   0 active; since the start 0 acquired, 0 released, 0 fenced
models   0 of 0 available
nodes    0 of 0 connected
config   revision 0
";
    assert_eq!(shown(empty()), expected);
}

#[test]
fn what_is_wrong_with_a_provider_stands_below_it() {
    let refused = json!({"status": "unavailable", "health": "refused", "effective_capacity": 0});
    let merged = |more: Value| {
        let mut fields = refused.clone();
        fields.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        fields
    };
    let unreachable = |aside_ms: u64, failures: u64| json!({"health": "unreachable", "aside_ms": aside_ms, "failures": failures});
    let disabled = |in_flight: u64| json!({"status": "disabled", "effective_capacity": 0, "in_flight": in_flight, "long_context_capacity": 1});
    let ends = "nothing new starts until enough of what runs has ended";
    for (fields, lines) in [
        (json!({}), &["llama         available   0 of 4     -  0"][..]),
        (json!({"long_context_capacity": 2}), &["llama         available   0 of 4  0 of 2  0"]),
        (disabled(0), &["llama         disabled        -     -  0"]),
        (disabled(1), &["llama         disabled   1 of 0     -  0", ends]),
        (
            json!({"effective_capacity": 2, "in_flight": 3, "capacity": 2}),
            &["llama         available   3 of 2     -  0", ends],
        ),
        (
            json!({"capacity": 8}),
            &[
                "llama         available   0 of 4     -  0",
                "its capacity of 8 counts once the node has confirmed it",
            ],
        ),
        (
            unreachable(0, 1),
            &[
                "llama         unreachable   0 of 4     -  0",
                "its server refused connections once: the next request tries it",
            ],
        ),
        (
            unreachable(12_300, 5),
            &[
                "llama         unreachable   0 of 4     -  0",
                "its server refused connections 5 times in a row: set aside for",
                "12 s more",
            ],
        ),
        (
            merged(json!({"reason": "the node is drained"})),
            &["llama         refused        -     -  0", "the node is drained"],
        ),
        (merged(json!({"reason": null})), &["llama         refused        -     -  0"]),
    ] {
        let found = after(&shown(with_provider(&fields)), "gpu-a");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let (found, expected): (Vec<_>, Vec<_>) =
            (found.iter().map(|line| words(line)).collect(), lines.iter().map(|line| words(line)).collect());
        assert_eq!(found, expected, "{fields}");
    }
}

#[test]
fn what_a_node_leaves_unsaid_is_left_out() {
    for (fields, line) in [
        (json!({}), "connected 3 h 12 min, 192.0.2.7:51544, rtt 12.3 ms, iop 0.1.0"),
        (json!({"since": NOW}), "connected 0 s, 192.0.2.7:51544, rtt 12.3 ms, iop 0.1.0"),
        // The clocks differ.
        (json!({"since": NOW + 5}), "connected, 192.0.2.7:51544, rtt 12.3 ms, iop 0.1.0"),
        (json!({"address": null, "since": null, "rtt_ms": null, "software": null}), "connected"),
        (
            json!({"address": "[2001:db8::1]:1", "rtt_ms": 0.4, "software": ""}),
            "connected 3 h 12 min, [2001:db8::1]:1, rtt 0.40 ms",
        ),
        (json!({"connected": false, "status": "unavailable", "health": "offline"}), "offline"),
        (json!({"connected": false, "status": "", "health": ""}), ""),
    ] {
        let page = shown(with_node(&fields));
        let found = page.lines().find_map(|line| line.strip_prefix("gpu-a")).expect("the node's line");
        assert_eq!(found.trim(), line, "{fields}");
    }
}

#[test]
fn texts_of_nodes_cannot_touch_the_terminal_and_long_ones_are_cut() {
    let evil = "\u{1b}]0;x\u{7}\u{9b}2J\r\n\u{202e}";
    let page = shown(with_node(&json!({"software": evil, "address": evil, "id": evil})));
    assert!(page.contains("?]0;x??2J???, rtt 12.3 ms, ?]0;x??2J???"), "{page}");
    let page = shown(with_node(&json!({"software": "s".repeat(1024)})));
    assert!(page.contains(&format!("{}…", "s".repeat(47))), "{page}");
    let refused =
        json!({"health": "refused", "reason": format!("{evil} {}", "r".repeat(1024)), "status": evil});
    let page = shown(with_provider(&refused));
    let reason: usize = page.matches('r').count();
    assert!((300..500).contains(&reason) && page.contains('…'), "{page}");
    let mut snapshot = empty();
    snapshot["config"] = json!({"source": "f", "last_error": "f:x\n".repeat(20)});
    assert!(shown(snapshot).ends_with("         x\n         and 12 more\n"));
}

#[test]
fn fields_and_words_that_are_not_known_do_no_harm() {
    let mut snapshot = with_provider(&json!({"health": "lukewarm", "status": "new-word", "tomorrow": [1]}));
    snapshot["nodes"][0]["future"] = json!({"a": 1});
    snapshot["more"] = json!(null);
    let page = shown(snapshot);
    assert!(page.contains("\n  llama         lukewarm   0 of 4     -  0\n"), "{page}");
    let page = shown(with_provider(&json!({"health": "online", "status": "a-word-that-is-far-too-long"})));
    assert!(page.contains("  a-word-that-is-…  "), "{page}");
    // Of an edge that says less.
    let page = shown(json!({"queue": {}, "leases": {}, "nodes": [{"id": "a", "providers": [{"id": "b"}]}]}));
    assert!(page.contains("\na\n  b"), "{page}");
}

#[test]
fn a_list_of_revoked_certificates_is_shown_where_there_is_one_or_it_is_not_in_force() {
    for (revocations, lines) in [
        (json!({"nodes": 0, "serials": 0, "last_error": null}), &[][..]),
        (json!({"nodes": 2, "serials": 1, "last_error": null}), &["revoked  2 nodes, 1 single certificate"]),
        (
            json!({"nodes": 0, "serials": 0, "last_error": "line 1 is bad"}),
            &[
                "revoked  0 nodes, 0 single certificates",
                "the list as it is now is NOT IN FORCE:",
                "line 1 is bad",
            ],
        ),
    ] {
        let mut snapshot = empty();
        snapshot["revocations"] = revocations;
        assert_eq!(after(&shown(snapshot), "config"), lines);
    }
}

#[test]
fn the_edges_certificate_is_shown_where_its_file_is_not_in_force_or_it_is_not_renewed() {
    let first = "cert     good until 2027-01-15T08:00:00Z, serial number 0a";
    for (last_error, renewal_error, lines) in [
        (json!(null), json!(null), &[][..]),
        (
            json!("edge.pem: is damaged"),
            json!(null),
            &[first, "the certificate as it is now is NOT IN FORCE:", "edge.pem: is damaged"],
        ),
        (
            json!(null),
            json!("issuing.key: is not here"),
            &[first, "it is NOT RENEWED:", "issuing.key: is not here"],
        ),
    ] {
        let mut snapshot = empty();
        snapshot["certificate"] = json!({"serial": "0a", "not_after": 1_800_000_000, "last_error": last_error,
            "renewal_error": renewal_error});
        assert_eq!(after(&shown(snapshot), "config"), lines);
    }
}

#[test]
fn what_is_no_snapshot_is_not_shown_as_one() {
    for value in [json!({}), json!([]), json!({"error": "x"}), json!({"queue": {}, "leases": {}})] {
        assert!(serde_json::from_value::<Snapshot>(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn long_ids_push_their_text_away_or_have_a_line_of_their_own() {
    let long = "m".repeat(63);
    let mut snapshot = with_provider(&json!({ "id": long }));
    let candidates = json!([{"node": "gpu-a", "provider": long}]);
    snapshot["models"] = json!([{"id": "m".repeat(256), "available": false, "candidates": candidates}]);
    let page = shown(snapshot);
    assert!(page.contains(&format!("\n  {long}\n                        available   0 of 4")), "{page}");
}

#[test]
fn a_message_is_wrapped() {
    assert_eq!(message("short"), "short\n");
    assert_eq!(message(&"word ".repeat(20)).lines().count(), 2);
}
