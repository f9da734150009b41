//! How a provider is spoken to. Settings from the edge become an adapter here, or the reason why this node has none.

pub(crate) mod echo;
pub mod ollama;

use crate::upstream::{self, Connector, Target, Trust, TrustError, Upstream, UpstreamSettings};
use echo::Echo;
use http::HeaderValue;
use http::header::{self, HeaderName};
use iop_config::{Endpoint, EndpointPattern};
use iop_transport::session::printable;
use iop_transport::wire::{self, ProviderSettings};
use ollama::Ollama;
use std::sync::Arc;
use std::time::Duration;

/// The adapters of this version.
pub(crate) enum Adapter {
    /// An OpenAI-compatible server, by tunnel runs.
    OpenAi(Upstream),
    /// An Ollama server, by normalized runs.
    Ollama(Ollama),
    /// Built in, by normalized runs.
    Echo(Echo),
}

/// What an adapter is made from, checked against what this node allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdapterSettings {
    OpenAi(UpstreamSettings),
    Ollama(UpstreamSettings),
    Echo(Echo),
}

/// Finds an environment variable's value by its name.
pub(crate) type EnvLookup = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Why this node will not run a provider. The edge shows it to its operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("endpoint is {}", iop_config::EndpointError)]
    Endpoint,
    #[error("endpoint {endpoint} is not among this node's allow_endpoints ({allowed})")]
    NotAllowed { endpoint: String, allowed: String },
    #[error(transparent)]
    Https(#[from] TrustError),
    #[error("environment variable {0} (api_key_env) is not set on this node, or is empty")]
    NoKey(String),
    #[error("environment variable {0} (api_key_env) does not hold a usable key")]
    BadKey(String),
    #[error("headers: {name:?} cannot be set here, or its value is not usable in HTTP")]
    Header { name: String },
}

impl Adapter {
    /// An adapter that reaches its server by `connector`, over TLS where its endpoint says so.
    pub(crate) fn new(
        settings: AdapterSettings,
        connector: &Arc<dyn Connector>,
        trust: &Trust,
        capacity: u32,
    ) -> Result<Self, Unusable> {
        let upstream = |settings: UpstreamSettings| -> Result<Upstream, TrustError> {
            let connector = trust.connector_for(&settings.target, connector)?;
            Ok(Upstream::new(settings, connector, capacity))
        };
        Ok(match settings {
            AdapterSettings::OpenAi(settings) => Self::OpenAi(upstream(settings)?),
            AdapterSettings::Ollama(settings) => Self::Ollama(Ollama::new(upstream(settings)?)),
            AdapterSettings::Echo(echo) => Self::Echo(echo),
        })
    }

    /// Its name in the configuration.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::OpenAi(_) => "openai",
            Self::Ollama(_) => "ollama",
            Self::Echo(_) => "echo",
        }
    }

    /// Whether it was made from such settings.
    pub(crate) fn is_made_from(&self, settings: &AdapterSettings) -> bool {
        match (self, settings) {
            (Self::OpenAi(upstream), AdapterSettings::OpenAi(settings)) => upstream.settings() == settings,
            (Self::Ollama(ollama), AdapterSettings::Ollama(settings)) => {
                ollama.upstream().settings() == settings
            }
            (Self::Echo(echo), AdapterSettings::Echo(settings)) => echo == settings,
            _ => false,
        }
    }

    pub(crate) fn set_capacity(&self, capacity: u32) {
        match self {
            Self::OpenAi(upstream) => upstream.set_capacity(capacity),
            Self::Ollama(ollama) => ollama.upstream().set_capacity(capacity),
            Self::Echo(_) => {}
        }
    }
}

impl AdapterSettings {
    /// Checks the edge's settings of a provider against what this node allows and has.
    pub(crate) fn check(
        settings: &ProviderSettings,
        allowed: &[EndpointPattern],
        env: &EnvLookup,
    ) -> Result<Self, Unusable> {
        match &settings.adapter {
            wire::Adapter::OpenAi { endpoint } => {
                Ok(Self::OpenAi(check_upstream(endpoint, settings, allowed, env)?))
            }
            wire::Adapter::Ollama { endpoint } => {
                Ok(Self::Ollama(check_upstream(endpoint, settings, allowed, env)?))
            }
            wire::Adapter::Echo { words, word_interval_ms } => {
                Ok(Self::Echo(Echo::new(*words, Duration::from_millis(*word_interval_ms))))
            }
        }
    }
}

fn check_upstream(
    endpoint: &str,
    settings: &ProviderSettings,
    allowed: &[EndpointPattern],
    env: &EnvLookup,
) -> Result<UpstreamSettings, Unusable> {
    Ok(UpstreamSettings {
        target: check_endpoint(endpoint, allowed)?,
        headers: check_headers(settings, env)?,
        connect_limit: Duration::from_millis(settings.connect_timeout_ms),
        first_byte_limit: Duration::from_millis(settings.first_byte_timeout_ms),
        idle_limit: Duration::from_millis(settings.idle_timeout_ms),
    })
}

fn check_endpoint(text: &str, allowed: &[EndpointPattern]) -> Result<Target, Unusable> {
    let endpoint: Endpoint = text.parse().map_err(|_| Unusable::Endpoint)?;
    if !allowed.iter().any(|pattern| pattern.matches(&endpoint)) {
        let patterns: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        let allowed = if patterns.is_empty() { "none".to_owned() } else { patterns.join(", ") };
        return Err(Unusable::NotAllowed { endpoint: endpoint.to_string(), allowed });
    }
    Ok(Target::new(endpoint))
}

fn check_headers(
    settings: &ProviderSettings,
    env: &EnvLookup,
) -> Result<Vec<(HeaderName, HeaderValue)>, Unusable> {
    let mut headers = Vec::with_capacity(settings.headers.len() + 1);
    for (name, value) in &settings.headers {
        let header = upstream::header_setting(name, value)
            .map_err(|_bad| Unusable::Header { name: printable(name) })?;
        headers.push(header);
    }
    if let Some(variable) = &settings.api_key_env {
        let key = env(variable).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| Unusable::NoKey(printable(variable)))?;
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| Unusable::BadKey(printable(variable)))?;
        value.set_sensitive(true);
        headers.push((header::AUTHORIZATION, value));
    }
    Ok(headers)
}
