//! The words of admission: what goes in, what comes out, and the settings. No decisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Place in the global queue: grows with arrival, and is kept when a request is tried again elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Number of a lease, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

/// Grows each time a registration of a node is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u64);

/// A provider's identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderKey {
    /// The node it runs on.
    pub node: Arc<str>,
    /// Its id there.
    pub provider: Arc<str>,
}

/// A set of APIs as bits: what a provider speaks, or the one that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Api(pub u8);

/// Whether a request needs a long-context slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Long if its tokens are over the model's threshold.
    Estimated,
    /// The client says long.
    Long,
    /// The client says normal.
    Normal,
}

/// A request as admission sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The external model key.
    pub model: Arc<str>,
    /// The one API it needs.
    pub api: Api,
    /// Estimated prompt tokens.
    pub tokens: u32,
    /// Long or normal.
    pub context: Context,
    /// Name of the API key it came with, if keys are in use.
    pub key: Option<Arc<str>>,
}

/// What a granted request takes along, so that it can be tried again with its place kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its place.
    pub ticket: Ticket,
    /// The request.
    pub request: Request,
    /// When it arrived.
    pub arrived: Duration,
    /// Providers that have refused it.
    pub refused_by: Vec<ProviderKey>,
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Command {
    /// A request arrives. Its first effect is for the next ticket: Granted, Refused or Queued.
    Submit(Request),
    /// A provider refused a granted request before it began: its lease is returned, and it goes back to its place for
    /// another provider. Effect for its ticket: Granted, Refused or Queued.
    Retry(Grant),
    /// A waiting request is given up by its client.
    Cancel(Ticket),
    /// A run has ended. Only the first release of a lease has an effect.
    Release(LeaseId),
    /// A registration is accepted. Its providers can run nothing until they are [`Command::Applied`].
    NodeOnline {
        /// The node.
        node: Arc<str>,
        /// Higher than any before.
        generation: Generation,
    },
    /// A connection is lost. Without effect unless it owns the node's generation.
    NodeOffline {
        /// The node.
        node: Arc<str>,
        /// The generation of the lost connection.
        generation: Generation,
    },
    /// The node has these settings in force. Without effect unless the connection owns the node's generation.
    Applied {
        /// The node.
        node: Arc<str>,
        /// The generation of the connection.
        generation: Generation,
        /// For each provider the capacity that its gate now allows; `None`: the node will not run it.
        providers: Vec<(Arc<str>, Option<u32>)>,
    },
    /// A granted request found that the provider's server refuses connections: it is set aside. Without effect unless the
    /// generation owns the provider's node. Comes before the request's [`Command::Retry`] and the return of its lease.
    Unreachable {
        /// From the grant.
        provider: ProviderKey,
        /// From the grant.
        generation: Generation,
        /// From the grant.
        failures: u32,
    },
    /// The server has answered, or at least taken, a request that was granted while the provider was set aside: that is
    /// over. Without effect unless the generation owns the provider's node.
    Reached {
        /// From the grant.
        provider: ProviderKey,
        /// From the grant.
        generation: Generation,
    },
    /// The settings are now these.
    Configure(Box<Config>),
    /// Time has passed.
    Tick,
}

/// What the driver has to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The request has a lease.
    Granted(Grant),
    /// The request ends here.
    Refused {
        /// Whose.
        ticket: Ticket,
        /// Why.
        refusal: Refusal,
    },
    /// The request waits. Granted or Refused follows, unless it is cancelled.
    Queued {
        /// Whose.
        ticket: Ticket,
    },
    /// The leases made under an older configuration have gone far enough: what was kept from the node because of them
    /// (see `told`) can be told now.
    TellNode {
        /// The node.
        node: Arc<str>,
    },
}

/// A lease given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseId,
    /// Where it runs.
    pub provider: ProviderKey,
    /// The generation that it runs under.
    pub generation: Generation,
    /// Whether it holds a long-context slot too.
    pub long: bool,
    /// How often in a row the provider's server had not been reached; 0 unless it is set aside.
    pub failures: u32,
    /// The request.
    pub pending: Pending,
}

/// Why a request is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No such model, or it was removed.
    ModelNotFound,
    /// None of the model's providers speaks the API that the request needs.
    ApiNotServed,
    /// Longer than every candidate's window.
    ContextLengthExceeded {
        /// Estimated prompt tokens.
        tokens: u32,
        /// The largest window, in tokens.
        window: u32,
    },
    /// No candidate is connected and enabled.
    Unavailable,
    /// The queue is full.
    QueueFull {
        /// `provider_pool.max_queue`.
        max: u32,
    },
    /// The key's own share of the queue is full.
    KeyQueueFull {
        /// `auth.keys[].max_queued`.
        max: u32,
    },
    /// It waited for the pool's whole timeout.
    QueueTimeout {
        /// `provider_pool.queue_timeout_ms`.
        timeout: Duration,
    },
    /// A retry found no further attempt or no other live provider.
    NoOtherProvider,
}

impl Refusal {
    /// Its name in events and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ModelNotFound => "model_not_found",
            Self::ApiNotServed => "api_not_served",
            Self::ContextLengthExceeded { .. } => "context_length_exceeded",
            Self::Unavailable => "unavailable",
            Self::QueueFull { .. } => "queue_full",
            Self::KeyQueueFull { .. } => "key_queue_full",
            Self::QueueTimeout { .. } => "queue_timeout",
            Self::NoOtherProvider => "no_other_provider",
        }
    }
}

/// Settings of admission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The pool's policy.
    pub policy: Policy,
    /// The providers.
    pub providers: BTreeMap<ProviderKey, ProviderSpec>,
    /// The models by external key.
    pub models: BTreeMap<Arc<str>, ModelSpec>,
    /// API keys by name.
    pub keys: BTreeMap<Arc<str>, KeySpec>,
}

/// `provider_pool`: owned by the edge, common to all models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Most requests that wait at once; 0: none ever waits.
    pub max_queue: u32,
    /// Longest wait.
    pub queue_timeout: Duration,
    /// Most providers asked for one request.
    pub max_attempts: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { max_queue: 256, queue_timeout: Duration::from_secs(30), max_attempts: 2 }
    }
}

/// Settings of one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderSpec {
    /// Whether it may get new requests.
    pub enabled: bool,
    /// Requests at once.
    pub capacity: u32,
    /// Long requests among them.
    pub long_capacity: u32,
    /// Longest request in tokens; `None`: not known, so not checked.
    pub window: Option<u32>,
    /// Higher is asked first.
    pub priority: i32,
    /// What it speaks.
    pub apis: Api,
}

/// Settings of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSpec {
    /// A request with more tokens is long; `None`: none is.
    pub long_threshold: Option<u32>,
    /// Who can run it.
    pub candidates: Vec<ProviderKey>,
}

/// Limits of one API key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeySpec {
    /// Most leases at once.
    pub max_in_flight: Option<u32>,
    /// Most waiting requests at once.
    pub max_queued: Option<u32>,
}
