//! The files of a deployment as values: sensible for tests at first, every key within reach.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What a deployment is made from. All listeners take free ports of loopback.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The edge's file.
    pub edge: Value,
    /// Each node's file, without the edge's address, which is known only when the edge runs.
    nodes: BTreeMap<String, Value>,
    /// Environment variables of the edge's process.
    pub(super) edge_env: BTreeMap<String, String>,
    /// What operators must show.
    pub(super) admin_key: Option<String>,
}

/// The variable that holds the operators' key.
const ADMIN_KEY_ENV: &str = "IOP_TEST_ADMIN_KEY";

impl Default for Plan {
    fn default() -> Self {
        Self::new()
    }
}

impl Plan {
    /// An edge without nodes or models.
    pub fn new() -> Self {
        let edge = json!({
            "quic": {"listen": "[::]:0"},
            "http": {"listen": "127.0.0.1:0"},
            "admin": {"listen": "127.0.0.1:0"},
            "certs": {"dir": "pki"},
            "provider_pool": {"max_queue": 256, "queue_timeout_ms": 30_000},
            "nodes": [],
            "models": [],
        });
        Self { edge, nodes: BTreeMap::new(), edge_env: BTreeMap::new(), admin_key: None }
    }

    /// The same with one more provider, and its node where it is the node's first.
    pub fn provider(mut self, node: &str, provider: &str, endpoint: &str, capacity: u32) -> Self {
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.to_owned(), node_config(node));
            list(&mut self.edge, "nodes").push(json!({"id": node, "providers": []}));
        }
        let entry = list(&mut self.edge, "nodes").iter_mut().find(|entry| entry["id"] == node);
        let entry = entry.expect("a node's entry was made with it");
        let provider =
            json!({"id": provider, "adapter": "openai", "endpoint": endpoint, "capacity": capacity});
        list(entry, "providers").push(provider);
        self
    }

    /// The same with one more model, served by these `(node, provider)` pairs under `upstream_model`.
    pub fn model(mut self, model: &str, candidates: &[(&str, &str)], upstream_model: &str) -> Self {
        let candidate = |(node, provider): &(&str, &str)| json!({"node": node, "provider": provider, "upstream_model": upstream_model});
        let candidates: Vec<Value> = candidates.iter().map(candidate).collect();
        list(&mut self.edge, "models").push(json!({"id": model, "candidates": candidates}));
        self
    }

    /// The same with any value of the edge's file set, by JSON pointer: `/provider_pool/max_queue`.
    ///
    /// # Panics
    /// When the pointer's parent is not there.
    pub fn edge_value(mut self, pointer: &str, value: Value) -> Self {
        set(&mut self.edge, pointer, value);
        self
    }

    /// The same with an environment variable in the edge's process.
    pub fn edge_env(mut self, name: &str, value: &str) -> Self {
        self.edge_env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same with a key that operators must show. The harness shows it too.
    ///
    /// # Panics
    /// When the edge's file has no section `admin`.
    pub fn admin_key(mut self, key: &str) -> Self {
        self.admin_key = Some(key.to_owned());
        self.edge_env(ADMIN_KEY_ENV, key).edge_value("/admin/key_env", ADMIN_KEY_ENV.into())
    }

    /// The same with any value of a node's file set, by JSON pointer.
    ///
    /// # Panics
    /// When there is no such node, or the pointer's parent is not there.
    pub fn node_value(mut self, node: &str, pointer: &str, value: Value) -> Self {
        set(self.nodes.get_mut(node).expect("that node has a provider"), pointer, value);
        self
    }

    pub(super) fn node_ids(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    pub(super) fn node_config(&self, node: &str, edge: SocketAddr) -> Value {
        let mut config = self.nodes.get(node).expect("the plan has that node").clone();
        let addresses = &mut config["edge"]["addresses"];
        if addresses.is_null() {
            *addresses = json!([edge.to_string()]);
        }
        config
    }
}

/// A node that dials again quickly and for ever.
fn node_config(node: &str) -> Value {
    json!({
        "edge": {},
        "certs": {"bundle": format!("pki/{node}.pem")},
        "reconnect": {"max_attempts": 0, "interval_sec": 1},
    })
}

fn list<'a>(config: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    config[key].as_array_mut().expect("the plan's lists are arrays")
}

fn set(config: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a JSON pointer starts with a slash");
    match config.pointer_mut(parent) {
        Some(Value::Object(parent)) => {
            parent.insert(key.to_owned(), value);
        }
        Some(Value::Array(parent)) => {
            let place: usize = key.parse().expect("an array's place is a number");
            parent[place] = value;
        }
        _ => panic!("{parent:?} of {pointer:?} is not in the plan"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_holds_each_node_once_and_every_value_can_be_set() {
        let plan = Plan::new()
            .provider("gpu-a", "one", "http://127.0.0.1:1", 1)
            .provider("gpu-a", "two", "http://127.0.0.1:2", 2)
            .model("m", &[("gpu-a", "one"), ("gpu-a", "two")], "up")
            .edge_value("/http/max_body_bytes", json!(1024))
            .edge_value("/nodes/0/providers/1/capacity", json!(3))
            .node_value("gpu-a", "/keep_alive_ms", json!(500));
        assert_eq!(plan.edge["nodes"].as_array().map(Vec::len), Some(1));
        assert_eq!(plan.edge["nodes"][0]["providers"][1]["capacity"], 3);
        assert_eq!(plan.edge["http"]["max_body_bytes"], 1024);
        assert_eq!(plan.edge["models"][0]["candidates"][1]["provider"], "two");
        let node = plan.node_config("gpu-a", SocketAddr::from(([127, 0, 0, 1], 7443)));
        assert_eq!(node["edge"]["addresses"], json!(["127.0.0.1:7443"]));
        assert_eq!(node["keep_alive_ms"], 500);
    }
}
