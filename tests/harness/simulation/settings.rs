//! The edge's configuration as a value: drawn from a seed, changed by refreshes, written as the file that the edge reads.

use super::authority::name;
use super::random::Random;
use serde_json::{Value, json};

/// Prompt tokens from which a request of a model with long slots is long. No request comes near it: requests say by a
/// header what they are.
const LONG_TOKENS: u64 = 100_000;

/// The first port of engines; each provider has one.
pub(super) const FIRST_PORT: u16 = 9000;

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) nodes: usize,
    pub(super) providers: Vec<Provider>,
    pub(super) models: Vec<Model>,
    pub(super) max_queue: u64,
    pub(super) queue_timeout_ms: u64,
    pub(super) max_attempts: u64,
    pub(super) quic_idle_ms: u64,
    pub(super) write_stall_ms: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Provider {
    pub(super) node: usize,
    /// Answered by the node itself; else by an engine.
    pub(super) echo: bool,
    pub(super) capacity: u64,
    pub(super) long: u64,
    pub(super) priority: u64,
    pub(super) enabled: bool,
    /// Whether it stands in the file.
    pub(super) present: bool,
    pub(super) first_byte_ms: u64,
    pub(super) idle_ms: u64,
    pub(super) words: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    /// Positions in the list of providers.
    pub(super) candidates: Vec<usize>,
    pub(super) present: bool,
}

impl Settings {
    pub(super) fn draw(random: &mut Random) -> Self {
        let nodes = 1 + random.index(3);
        let mut providers = Vec::new();
        for node in 0..nodes {
            for _ in 0..=random.index(2) {
                providers.push(Provider::draw(random, node));
            }
        }
        if providers.iter().all(|provider| provider.echo) {
            providers[0].echo = false;
        }
        let models = (0..random.range(2..=4)).map(|_| Model::draw(random, providers.len())).collect();
        Self {
            nodes,
            providers,
            models,
            max_queue: if random.chance(100) { 0 } else { random.range(1..=30) },
            queue_timeout_ms: random.range(500..=12_000),
            max_attempts: random.range(1..=3),
            quic_idle_ms: random.range(5_000..=10_000),
            write_stall_ms: random.range(2_000..=60_000),
        }
    }

    /// The edge's file.
    pub(super) fn text(&self) -> String {
        let providers = |node: usize| -> Vec<Value> {
            let all = self.providers.iter().enumerate();
            let own = all.filter(|(_, provider)| provider.node == node && provider.present);
            own.map(|(index, provider)| provider.value(index)).collect()
        };
        let nodes: Vec<Value> =
            (0..self.nodes).map(|node| json!({"id": name(node), "providers": providers(node)})).collect();
        let chosen = self.models.iter().enumerate().filter(|(_, model)| model.present);
        let chosen = chosen.filter_map(|(index, model)| self.model(&model_name(index), &model.candidates));
        let probes = (0..self.providers.len()).filter_map(|index| self.model(&probe_name(index), &[index]));
        let models: Vec<Value> = chosen.chain(probes).collect();
        json!({
            "quic": {"listen": "10.0.0.1:7443", "idle_timeout_ms": self.quic_idle_ms, "segmentation_offload": false},
            "http": {"listen": "127.0.0.1:8080", "write_stall_timeout_ms": self.write_stall_ms},
            "admin": {"listen": "127.0.0.1:9090"},
            "certs": {"dir": "pki"},
            "provider_pool": {
                "max_queue": self.max_queue,
                "queue_timeout_ms": self.queue_timeout_ms,
                "max_attempts": self.max_attempts,
            },
            "nodes": nodes,
            "models": models,
        })
        .to_string()
    }

    /// `None`: nobody is left to serve it.
    fn model(&self, id: &str, candidates: &[usize]) -> Option<Value> {
        let present = candidates.iter().filter(|index| self.providers[**index].present);
        let list: Vec<Value> = present
            .clone()
            .map(|index| {
                let node = name(self.providers[*index].node);
                json!({"node": node, "provider": provider_name(*index), "upstream_model": upstream_name(*index)})
            })
            .collect();
        let long = present.clone().any(|index| self.providers[*index].long > 0);
        let mut value = json!({"id": id, "candidates": list});
        if long {
            value["long_context_threshold_tokens"] = json!(LONG_TOKENS);
        }
        (!list.is_empty()).then_some(value)
    }
}

impl Provider {
    fn draw(random: &mut Random, node: usize) -> Self {
        let capacity = random.range(1..=3);
        Self {
            node,
            echo: random.chance(250),
            capacity,
            long: if random.chance(600) { random.range(1..=capacity) } else { 0 },
            priority: random.below(3),
            enabled: true,
            present: true,
            first_byte_ms: random.range(2_000..=8_000),
            idle_ms: random.range(2_000..=6_000),
            words: random.range(1..=20),
        }
    }

    fn value(&self, index: usize) -> Value {
        let mut value = json!({
            "id": provider_name(index),
            "capacity": self.capacity,
            "long_context_capacity": self.long,
            "priority": self.priority,
            "enabled": self.enabled,
        });
        if self.echo {
            value["adapter"] = json!("echo");
            value["words"] = json!(self.words);
            value["word_interval_ms"] = json!(20);
        } else {
            value["adapter"] = json!("openai");
            value["endpoint"] = json!(format!("http://127.0.0.1:{}", port(index)));
            value["connect_timeout_ms"] = json!(1500);
            value["first_byte_timeout_ms"] = json!(self.first_byte_ms);
            value["idle_timeout_ms"] = json!(self.idle_ms);
        }
        value
    }
}

impl Model {
    fn draw(random: &mut Random, providers: usize) -> Self {
        let mut candidates: Vec<usize> = (0..providers).filter(|_| random.chance(600)).collect();
        if candidates.is_empty() {
            candidates.push(random.index(providers));
        }
        Self { candidates, present: true }
    }
}

pub(super) fn port(provider: usize) -> u16 {
    FIRST_PORT + u16::try_from(provider).expect("few providers")
}

pub(super) fn provider_name(provider: usize) -> String {
    format!("p{provider}")
}

pub(super) fn model_name(model: usize) -> String {
    format!("model/{model}")
}

/// The model that only this provider serves.
pub(super) fn probe_name(provider: usize) -> String {
    format!("probe:{provider}")
}

pub(super) fn upstream_name(provider: usize) -> String {
    format!("upstream-{provider}")
}
