//! Settings and requests of admission, written short. Nothing is checked here: the config crate does that.

use iop_edge::admission::{Api, Config, Context, KeySpec, ModelSpec, ProviderKey, ProviderSpec, Request};
use std::time::Duration;

/// The provider called `node/provider`.
pub fn provider_key(name: &str) -> ProviderKey {
    let (node, provider) = name.split_once('/').expect("a provider is written node/provider");
    ProviderKey { node: node.into(), provider: provider.into() }
}

/// A provider with this capacity, no long slots, no known window, speaking every API.
pub fn slots(capacity: u32) -> ProviderSpec {
    let apis = Api(u8::MAX);
    ProviderSpec { enabled: true, capacity, long_capacity: 0, window: None, priority: 0, apis }
}

/// Like [`slots`], with long slots.
pub fn long_slots(capacity: u32, long_capacity: u32) -> ProviderSpec {
    ProviderSpec { long_capacity, ..slots(capacity) }
}

/// Settings under construction. Naming something again replaces it.
#[derive(Debug, Clone, Default)]
pub struct Setup(pub Config);

impl Setup {
    /// Nothing but the default policy.
    pub fn new() -> Self {
        Self::default()
    }

    /// `provider_pool.max_queue`.
    pub fn max_queue(mut self, max_queue: u32) -> Self {
        self.0.policy.max_queue = max_queue;
        self
    }

    /// `provider_pool.queue_timeout_ms`, in seconds.
    pub fn timeout_sec(mut self, seconds: u64) -> Self {
        self.0.policy.queue_timeout = Duration::from_secs(seconds);
        self
    }

    /// Most providers asked for one request.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.0.policy.max_attempts = max_attempts;
        self
    }

    /// A provider, named `node/provider`.
    pub fn provider(mut self, name: &str, spec: ProviderSpec) -> Self {
        self.0.providers.insert(provider_key(name), spec);
        self
    }

    /// Takes a provider out, and out of every model's candidates.
    pub fn without_provider(mut self, name: &str) -> Self {
        let key = provider_key(name);
        self.0.providers.remove(&key);
        for model in self.0.models.values_mut() {
            model.candidates.retain(|candidate| *candidate != key);
        }
        self
    }

    /// A model none of whose requests is long by itself.
    pub fn model(mut self, id: &str, candidates: &[&str]) -> Self {
        let candidates = candidates.iter().map(|name| provider_key(name)).collect();
        self.0.models.insert(id.into(), ModelSpec { long_threshold: None, candidates });
        self
    }

    /// The tokens over which a request of the model is long.
    pub fn threshold(mut self, id: &str, tokens: u32) -> Self {
        self.0.models.get_mut(id).expect("the model is named before its threshold").long_threshold =
            Some(tokens);
        self
    }

    /// Takes a model out.
    pub fn without_model(mut self, id: &str) -> Self {
        self.0.models.remove(id);
        self
    }

    /// An API key with limits.
    pub fn key(mut self, name: &str, max_in_flight: Option<u32>, max_queued: Option<u32>) -> Self {
        self.0.keys.insert(name.into(), KeySpec { max_in_flight, max_queued });
        self
    }
}

/// A request under construction.
#[derive(Debug, Clone)]
pub struct Ask(Request);

/// A request of 10 tokens for the model.
pub fn ask(model: &str) -> Ask {
    Ask(Request { model: model.into(), api: Api(1), tokens: 10, context: Context::Estimated, key: None })
}

impl Ask {
    /// Its estimated prompt tokens.
    pub fn tokens(mut self, tokens: u32) -> Self {
        self.0.tokens = tokens;
        self
    }

    /// What the client says about its length.
    pub fn context(mut self, context: Context) -> Self {
        self.0.context = context;
        self
    }

    /// Long, because the client says so.
    pub fn long(self) -> Self {
        self.context(Context::Long)
    }

    /// The API that it needs.
    pub fn api(mut self, api: Api) -> Self {
        self.0.api = api;
        self
    }

    /// The API key that it comes with.
    pub fn key(mut self, name: &str) -> Self {
        self.0.key = Some(name.into());
        self
    }
}

impl From<Ask> for Request {
    fn from(ask: Ask) -> Self {
        ask.0
    }
}

impl From<&str> for Ask {
    fn from(model: &str) -> Self {
        ask(model)
    }
}
