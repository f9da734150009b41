//! Translates the configuration for those who act on it: admission, the nodes, the gateway. Decides nothing.

use crate::admission::{self, Api, KeySpec, ModelSpec, Policy, ProviderKey, ProviderSpec};
use crate::patience;
use iop_config::{Adapter, Candidate, EdgeConfig, Model, Node, Provider};
use iop_transport::tunnel::Patience;
use iop_transport::wire;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

/// The APIs that make a difference in who can serve a request.
pub(crate) mod api {
    use super::Api;

    /// `/v1/chat/completions`.
    pub(crate) const CHAT: Api = Api(1);
    /// `/v1/completions`.
    pub(crate) const COMPLETIONS: Api = Api(2);
    /// `/v1/embeddings`.
    pub(crate) const EMBEDDINGS: Api = Api(4);
    /// Every other path: only through a tunnel.
    pub(crate) const OTHER: Api = Api(8);
    /// What a tunnel carries.
    pub(crate) const TUNNEL: Api = Api(1 | 2 | 4 | 8);
    /// What normalized runs can do.
    pub(crate) const NORMALIZED: Api = Api(1 | 2 | 4);
}

/// Admission's settings.
pub(crate) fn admission(config: &EdgeConfig) -> admission::Config {
    let nodes = config.nodes.iter();
    admission::Config {
        policy: Policy {
            max_queue: config.provider_pool.max_queue,
            queue_timeout: config.provider_pool.queue_timeout,
            max_attempts: config.provider_pool.max_attempts.get(),
        },
        providers: nodes
            .flat_map(|node| {
                node.providers.iter().map(|provider| (key(node, provider), provider_spec(provider)))
            })
            .collect(),
        models: config.models.iter().map(|model| (model.id.as_str().into(), model_spec(model))).collect(),
        keys: config
            .auth
            .keys
            .iter()
            .map(|key| {
                let limits = KeySpec {
                    max_in_flight: key.max_in_flight.map(NonZeroU32::get),
                    max_queued: key.max_queued,
                };
                (key.name.as_str().into(), limits)
            })
            .collect(),
    }
}

/// What one node is told of its providers.
pub(crate) fn node_settings(node: &Node) -> Vec<wire::ProviderSettings> {
    node.providers.iter().map(provider_settings).collect()
}

/// How a request for a model is put to one of its candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name that the provider knows the model by.
    pub(crate) model: Arc<str>,
    /// Whether the provider's own HTTP API is carried; else the run is normalized.
    pub(crate) tunnel: bool,
    /// How long its node may be silent.
    pub(crate) patience: Patience,
}

/// The targets of every model, by the model's key and the candidate.
pub(crate) fn targets(config: &EdgeConfig) -> BTreeMap<(Arc<str>, ProviderKey), Target> {
    let adapters: BTreeMap<ProviderKey, &Adapter> = config
        .nodes
        .iter()
        .flat_map(|node| node.providers.iter().map(|provider| (key(node, provider), &provider.adapter)))
        .collect();
    let target = |model: &Model, candidate: &Candidate| {
        let key = ProviderKey {
            node: candidate.node.as_str().into(),
            provider: candidate.provider.as_str().into(),
        };
        let upstream = candidate.upstream_model.as_ref().unwrap_or(&model.id);
        let adapter = adapters.get(&key)?;
        let target = Target {
            model: upstream.as_str().into(),
            tunnel: is_tunnel(adapter),
            patience: patience::with(adapter, config.quic.idle_timeout),
        };
        Some(((Arc::from(model.id.as_str()), key), target))
    };
    let targets = |model: &Model| {
        model.candidates.iter().filter_map(|candidate| target(model, candidate)).collect::<Vec<_>>()
    };
    config.models.iter().flat_map(targets).collect()
}

fn key(node: &Node, provider: &Provider) -> ProviderKey {
    ProviderKey { node: node.id.as_str().into(), provider: provider.id.as_str().into() }
}

fn provider_spec(provider: &Provider) -> ProviderSpec {
    ProviderSpec {
        enabled: provider.enabled,
        capacity: provider.capacity.get(),
        long_capacity: provider.long_context_capacity,
        window: provider.context_window_tokens.map(tokens),
        priority: provider.priority,
        apis: if is_tunnel(&provider.adapter) { api::TUNNEL } else { api::NORMALIZED },
    }
}

fn is_tunnel(adapter: &Adapter) -> bool {
    matches!(adapter, Adapter::OpenAi(_))
}

fn model_spec(model: &Model) -> ModelSpec {
    let key = |candidate: &Candidate| ProviderKey {
        node: candidate.node.as_str().into(),
        provider: candidate.provider.as_str().into(),
    };
    ModelSpec {
        long_threshold: model.long_context_threshold_tokens.map(tokens),
        candidates: model.candidates.iter().map(key).collect(),
    }
}

/// More tokens than fit here are more than any request has.
fn tokens(count: NonZeroU64) -> u32 {
    u32::try_from(count.get()).unwrap_or(u32::MAX)
}

fn provider_settings(provider: &Provider) -> wire::ProviderSettings {
    let upstream = provider.adapter.upstream();
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    wire::ProviderSettings {
        id: provider.id.as_str().into(),
        adapter: match &provider.adapter {
            Adapter::OpenAi(upstream) => wire::Adapter::OpenAi { endpoint: upstream.endpoint.to_string() },
            Adapter::Ollama(upstream) => wire::Adapter::Ollama { endpoint: upstream.endpoint.to_string() },
            Adapter::Echo { word_interval, words } => {
                wire::Adapter::Echo { words: words.get(), word_interval_ms: millis(*word_interval) }
            }
        },
        capacity: provider.capacity.get(),
        api_key_env: upstream
            .and_then(|upstream| upstream.api_key_env.as_ref())
            .map(|name| name.as_str().into()),
        headers: upstream
            .into_iter()
            .flat_map(|upstream| &upstream.headers)
            .map(|(name, value)| (name.clone(), value.expose().into()))
            .collect(),
        connect_timeout_ms: upstream.map_or(0, |upstream| millis(upstream.connect_timeout)),
        first_byte_timeout_ms: upstream.map_or(0, |upstream| millis(upstream.first_byte_timeout)),
        idle_timeout_ms: upstream.map_or(0, |upstream| millis(upstream.idle_timeout)),
    }
}
