//! Both files with every key in them, as values that a test can change one by one.

use iop_config::{EdgeConfig, Issues, Kind, NodeConfig};
use serde_json::{Value, json};

use crate::{edge, node};

/// A good file of this kind in which every key stands at least once.
pub(crate) fn full(kind: Kind) -> Value {
    match kind {
        Kind::Edge => json!({
            "quic": { "listen": "[::]:7443", "idle_timeout_ms": 20000, "segmentation_offload": false },
            "http": {
                "listen": "127.0.0.1:8080", "max_connections": 100, "max_body_bytes": 1000, "max_buffered_bytes": 2000,
                "write_stall_timeout_ms": 3000, "sse_keep_alive_ms": 15000, "cors_origins": ["https://a.example"],
                "tls": { "cert": "tls.pem", "key": "/keys/tls.key" },
            },
            "admin": { "listen": "127.0.0.1:9090", "key_env": "OPERATOR_KEY" },
            "certs": { "dir": "pki" },
            "auth": { "keys": [
                { "name": "alice", "key_env": "ALICE_KEY", "max_in_flight": 4, "max_queued": 5 },
                { "name": "bob", "key": "bobs-key" },
            ] },
            "provider_pool": { "max_queue": 6, "queue_timeout_ms": 7000, "max_attempts": 3 },
            "nodes": [ { "id": "gpu-a", "providers": [
                {
                    "id": "llama", "adapter": "openai", "endpoint": "http://127.0.0.1:8081/v1", "capacity": 8,
                    "long_context_capacity": 2, "context_window_tokens": 9000, "total_context_tokens": 18000,
                    "priority": -1, "enabled": false, "api_key_env": "LLAMA_KEY", "headers": { "X-Team": "red fox" },
                    "connect_timeout_ms": 10, "first_byte_timeout_ms": 11, "idle_timeout_ms": 12,
                },
                { "id": "echo", "adapter": "echo", "capacity": 1, "word_interval_ms": 13, "words": 14 },
            ] } ],
            "models": [ {
                "id": "ornith:35b", "long_context_threshold_tokens": 15, "context_length": 16, "owned_by": "us",
                "candidates": [ { "node": "gpu-a", "provider": "llama", "upstream_model": "ornith" } ],
            } ],
        }),
        Kind::Node => json!({
            "edge": { "addresses": ["edge.example.com:7443"], "server_name": "edge.internal" },
            "certs": { "bundle": "/keys/gpu-a.pem" },
            "reconnect": { "max_attempts": 3, "interval_sec": 0 },
            "keep_alive_ms": 500,
            "allow_endpoints": ["http://10.0.0.7:8000"],
            "segmentation_offload": false,
        }),
    }
}

pub(crate) fn full_edge() -> EdgeConfig {
    edge(&full(Kind::Edge).to_string()).expect("the full edge file is good")
}

pub(crate) fn full_node() -> NodeConfig {
    node(&full(Kind::Node).to_string()).expect("the full node file is good")
}

/// What a file of this kind compiles to, as text that can be compared, or its issues.
pub(crate) fn compile(kind: Kind, file: &Value) -> Result<String, Issues> {
    match kind {
        Kind::Edge => edge(&file.to_string()).map(|config| format!("{config:?}")),
        Kind::Node => node(&file.to_string()).map(|config| format!("{config:?}")),
    }
}

/// The JSON pointer to a key whose path has no indices: of several list items, the first that has the key is meant.
pub(crate) fn pointer(file: &Value, path: &str) -> Option<String> {
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = head.strip_suffix("[]").unwrap_or(head);
    let value = file.get(name)?;
    if rest.is_empty() {
        return Some(format!("/{name}"));
    }
    match value.as_array() {
        None => pointer(value, rest).map(|below| format!("/{name}{below}")),
        Some(items) => {
            let mut below =
                items.iter().enumerate().filter_map(|(index, item)| Some((index, pointer(item, rest)?)));
            below.next().map(|(index, below)| format!("/{name}/{index}{below}"))
        }
    }
}

/// The path that issues have for a JSON pointer.
pub(crate) fn issue_path(pointer: &str) -> String {
    let step = |path: String, step: &str| match step.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) if path.is_empty() => step.to_owned(),
        Err(_) => format!("{path}.{step}"),
    };
    pointer.split('/').skip(1).fold(String::new(), step)
}
