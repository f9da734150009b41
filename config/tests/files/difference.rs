//! What changes between two configurations, and what of it applies live.

use std::collections::BTreeSet;

use iop_config::{Applies, EdgeConfig, Kind, difference, known_keys};
use serde_json::{Value, json};

use crate::edge;
use crate::full::{full, full_edge, pointer};

/// The full edge file with changes at JSON pointers, compiled.
fn changed(changes: &[(&str, Value)]) -> EdgeConfig {
    let mut file = full(Kind::Edge);
    for (pointer, value) in changes {
        *file.pointer_mut(pointer).expect("the pointer leads to a value") = value.clone();
    }
    edge(&file.to_string()).unwrap_or_else(|issues| panic!("{changes:?}: {issues}"))
}

fn texts(changes: &[iop_config::Change]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_change_of_any_setting_is_shown_and_goes_where_its_key_says() {
    let provider = "provider gpu-a/llama";
    let cases = [
        ("quic.listen", json!("[::]:1"), "quic: listen [::]:7443 -> [::]:1"),
        ("quic.idle_timeout_ms", json!(5000), "quic: idle_timeout_ms 20000 -> 5000"),
        ("quic.segmentation_offload", json!(true), "quic: segmentation_offload false -> true"),
        ("http.listen", json!("127.0.0.1:1"), "http: listen 127.0.0.1:8080 -> 127.0.0.1:1"),
        ("http.max_connections", json!(1), "http: max_connections 100 -> 1"),
        ("http.max_body_bytes", json!(1), "http: max_body_bytes 1000 -> 1"),
        ("http.max_buffered_bytes", json!(1000), "http: max_buffered_bytes 2000 -> 1000"),
        ("http.write_stall_timeout_ms", json!(1), "http: write_stall_timeout_ms 3000 -> 1"),
        ("http.sse_keep_alive_ms", json!(10000), "http: sse_keep_alive_ms 15000 -> 10000"),
        ("http.tls.cert", json!("b.pem"), "http.tls: cert /etc/iop/tls.pem -> /etc/iop/b.pem"),
        ("http.tls.key", json!("/b.key"), "http.tls: key /keys/tls.key -> /b.key"),
        ("http.cors_origins", json!(["*"]), "http: cors_origins [https://a.example] -> [*]"),
        ("admin.listen", json!("127.0.0.1:1"), "admin: listen 127.0.0.1:9090 -> 127.0.0.1:1"),
        ("admin.key_env", json!("OTHER_KEY"), "admin: key_env changed"),
        ("certs.dir", json!("other"), "certs: dir /etc/iop/pki -> /etc/iop/other"),
        ("auth.keys[].key", json!("new"), "auth key bob: key changed"),
        ("auth.keys[].max_in_flight", json!(1), "auth key alice: max_in_flight 4 -> 1"),
        ("auth.keys[].max_queued", json!(1), "auth key alice: max_queued 5 -> 1"),
        ("provider_pool.max_queue", json!(1), "provider_pool: max_queue 6 -> 1"),
        ("provider_pool.queue_timeout_ms", json!(1), "provider_pool: queue_timeout_ms 7000 -> 1"),
        ("provider_pool.max_attempts", json!(1), "provider_pool: max_attempts 3 -> 1"),
        ("nodes[].providers[].adapter", json!("ollama"), "adapter openai -> ollama"),
        ("nodes[].providers[].endpoint", json!("http://h"), "endpoint http://127.0.0.1:8081/v1 -> http://h"),
        ("nodes[].providers[].capacity", json!(2), "capacity 8 -> 2"),
        ("nodes[].providers[].long_context_capacity", json!(1), "long_context_capacity 2 -> 1"),
        ("nodes[].providers[].context_window_tokens", json!(1), "context_window_tokens 9000 -> 1"),
        ("nodes[].providers[].total_context_tokens", json!(20000), "total_context_tokens 18000 -> 20000"),
        ("nodes[].providers[].priority", json!(1), "priority -1 -> 1"),
        ("nodes[].providers[].enabled", json!(true), "enabled false -> true"),
        ("nodes[].providers[].api_key_env", json!("X"), "api_key_env changed"),
        ("nodes[].providers[].headers", json!({}), "headers changed"),
        ("nodes[].providers[].connect_timeout_ms", json!(1), "connect_timeout_ms 10 -> 1"),
        ("nodes[].providers[].first_byte_timeout_ms", json!(1), "first_byte_timeout_ms 11 -> 1"),
        ("nodes[].providers[].idle_timeout_ms", json!(1), "idle_timeout_ms 12 -> 1"),
        ("nodes[].providers[].word_interval_ms", json!(1), "provider gpu-a/echo: word_interval_ms 13 -> 1"),
        ("nodes[].providers[].words", json!(1), "provider gpu-a/echo: words 14 -> 1"),
        (
            "models[].long_context_threshold_tokens",
            json!(1),
            "model ornith:35b: long_context_threshold_tokens 15 -> 1",
        ),
        ("models[].context_length", json!(1), "model ornith:35b: context_length 16 -> 1"),
        ("models[].owned_by", json!("them"), "model ornith:35b: owned_by us -> them"),
        (
            "models[].candidates[].upstream_model",
            json!("b"),
            "model ornith:35b: candidates [gpu-a/llama as ornith] -> [gpu-a/llama as b]",
        ),
    ];
    // What these change is shown as an addition and a removal, or inside another part.
    let elsewhere =
        ["auth.keys[].name", "auth.keys[].key_env", "nodes[].id", "nodes[].providers[].id", "models[].id"];
    let containers = ["auth.keys", "nodes", "nodes[].providers", "models", "models[].candidates"];
    let inside = ["models[].candidates[].node", "models[].candidates[].provider"];
    let mut covered: BTreeSet<&str> = [&elsewhere[..], &containers, &inside].concat().into_iter().collect();

    let old = full_edge();
    for (path, value, expected) in &cases {
        let pointer = pointer(&full(Kind::Edge), path).expect("the key is in the full file");
        let difference = difference(&old, &changed(&[(&pointer, value.clone())]));
        let known =
            known_keys(Kind::Edge).into_iter().find(|key| key.path == *path).expect("the key is known");
        let (there, elsewhere) = match known.applies {
            Applies::Restart => (&difference.restart, &difference.live),
            Applies::Live | Applies::ByKey => (&difference.live, &difference.restart),
        };
        let expected = if path.starts_with("nodes") && !expected.starts_with("provider") {
            format!("{provider}: {expected}")
        } else {
            (*expected).to_owned()
        };
        assert_eq!((texts(there), texts(elsewhere)), (vec![expected], Vec::new()), "for {path}");
        covered.insert(path);
    }
    let known = known_keys(Kind::Edge).into_iter().filter(|key| key.applies != Applies::ByKey);
    let missing: Vec<_> = known.filter(|key| !covered.contains(key.path.as_str())).collect();
    assert!(missing.is_empty(), "every key has a case: {missing:#?}");
}

#[test]
fn equal_configurations_do_not_differ() {
    let difference = difference(&full_edge(), &full_edge());
    assert!(difference.is_empty());
    assert_eq!(difference.to_string(), "nothing changes");
}

#[test]
fn the_order_in_a_file_is_not_a_change() {
    let turned = changed(&[("/nodes/0/providers", {
        let mut providers = full(Kind::Edge)["nodes"][0]["providers"].clone();
        providers.as_array_mut().expect("providers are a list").reverse();
        providers
    })]);
    assert_ne!(turned, full_edge());
    assert!(difference(&full_edge(), &turned).is_empty());
}

#[test]
fn additions_and_removals_are_named() {
    let old = full_edge();
    let new = changed(&[
        ("/auth/keys/1/name", json!("carol")),
        ("/nodes/0/id", json!("gpu-b")),
        ("/models/0/candidates/0/node", json!("gpu-b")),
        ("/models/0/id", json!("other")),
        ("/quic/listen", json!("[::]:1")),
        ("/http/listen", json!("127.0.0.1:1")),
        ("/http/max_body_bytes", json!(1)),
    ]);
    let difference = difference(&old, &new);
    let expected = "\
applies live:
  http: max_body_bytes 1000 -> 1
  auth key carol: added
  node gpu-b: added
  provider gpu-b/llama: added
  provider gpu-b/echo: added
  model other: added
  auth key bob: removed
  node gpu-a: removed
  provider gpu-a/llama: removed
  provider gpu-a/echo: removed
  model ornith:35b: removed
needs a restart:
  quic: listen [::]:7443 -> [::]:1
  http: listen 127.0.0.1:8080 -> 127.0.0.1:1";
    assert_eq!(difference.to_string(), expected);
    let nodes: Vec<_> = difference.nodes().into_iter().map(|node| node.as_str()).collect();
    assert_eq!(nodes, ["gpu-a", "gpu-b"]);

    let json = serde_json::to_value(&difference).expect("a difference is plain data");
    assert_eq!(json["live"][1], "auth key carol: added");
    assert_eq!(
        json["restart"],
        json!(["quic: listen [::]:7443 -> [::]:1", "http: listen 127.0.0.1:8080 -> 127.0.0.1:1"])
    );
}

/// [refresh-consistency]
#[test]
fn a_first_load_adds_everything_and_restarts_nothing() {
    let config = full_edge();
    let difference = difference(&config.before_first_load(), &config);
    let expected = [
        "auth key alice: added",
        "auth key bob: added",
        "node gpu-a: added",
        "provider gpu-a/llama: added",
        "provider gpu-a/echo: added",
        "model ornith:35b: added",
    ];
    assert_eq!(
        (texts(&difference.live), texts(&difference.restart)),
        (expected.map(str::to_owned).to_vec(), Vec::new())
    );
}

#[test]
fn no_secret_is_in_a_difference() {
    let new = changed(&[
        ("/admin/key_env", json!("OTHER_KEY")),
        ("/auth/keys/1/key", json!("top-secret")),
        ("/nodes/0/providers/0/headers", json!({ "X-Team": "top-secret" })),
    ]);
    let difference = difference(&full_edge(), &new);
    let shown = format!("{difference} {difference:?}");
    let secrets = ["top-secret", "bobs-key", "red fox", "operator-secret", "other-secret", "OTHER_KEY"];
    assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
    assert_eq!(difference.live.len(), 3);
}
