//! The edge's configuration, compiled. A value of these types that came out of a file is right by itself and together
//! with the others: ids are unique, candidates exist, sizes fit each other. How it got so is in the modules below.

mod adapter;
mod auth;
mod listeners;
mod model;
mod provider;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::issue::{Issues, Log, NoValue};
use crate::kind::{self, Kind};
use crate::load::{self, Environment, LoadError};
use crate::names::{EnvName, KeyName, ModelId, NodeId, Origin, Owner, ProviderId};
use crate::schema::{ADMIN, EDGE, EDGE_CERTS, HTTP, PROVIDER_POOL, QUIC};
use crate::secret::Secret;
use crate::section::{Context, Section};
use crate::tree::Node as TreeNode;

/// Everything the edge is configured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeConfig {
    /// Where nodes dial.
    pub quic: Quic,
    /// Where clients call.
    pub http: Http,
    /// Where operators look.
    pub admin: Admin,
    /// Where the deployment's certificates are.
    pub certs: EdgeCerts,
    /// Which clients may call.
    pub auth: Auth,
    /// The one queue in front of all providers.
    pub provider_pool: ProviderPool,
    /// The nodes that may connect, in file order; ids are unique.
    pub nodes: Vec<Node>,
    /// The models clients can ask for, in file order; ids are unique.
    pub models: Vec<Model>,
}

/// The listener for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quic {
    /// UDP address; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Silence after which a connection counts as lost.
    pub idle_timeout: Duration,
    /// Whether the kernel may cut large sends into packets. Some networks break on it.
    pub segmentation_offload: bool,
}

/// The listener for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// TCP address; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Connections at one time.
    pub max_connections: NonZeroU32,
    /// Largest request body.
    pub max_body_bytes: u64,
    /// All request bodies held at one time together; at least `max_body_bytes`.
    pub max_buffered_bytes: u64,
    /// How long a client may read nothing before its request is cancelled.
    pub write_stall_timeout: Duration,
    /// Silence before a stream's first byte after which, each time, a comment keeps it alive; None: none are sent.
    pub sse_keep_alive: Option<Duration>,
    /// Which web pages may call.
    pub cors_origins: CorsOrigins,
    /// The listener's certificate; None: plain HTTP.
    pub tls: Option<HttpTls>,
}

/// The certificate that clients see. The files' contents may change while the edge runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTls {
    /// Chain in PEM, the leaf first.
    pub cert: PathBuf,
    /// The leaf's private key in PEM.
    pub key: PathBuf,
}

/// The origins that browsers may call from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Every page.
    Any,
    /// Pages of these origins; none when empty.
    Only(Vec<Origin>),
}

/// The listener for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// TCP address; port 0 takes any free one.
    pub listen: SocketAddr,
    /// What operators must show; no client has the same. None: whoever reaches the listener is let in, and `listen` is
    /// loopback.
    pub key: Option<Secret>,
}

/// The deployment's certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeCerts {
    /// The folder that `iop certs init` made.
    pub dir: PathBuf,
}

/// The clients' keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Auth {
    /// In file order; names and keys are unique. Empty: every client is let in, and `http.listen` is loopback.
    pub keys: Vec<AuthKey>,
}

/// One client's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthKey {
    /// Who holds it.
    pub name: KeyName,
    /// The key.
    pub key: Secret,
    /// Requests running at one time; None: no limit of its own.
    pub max_in_flight: Option<NonZeroU32>,
    /// Requests waiting at one time; None: no limit of its own.
    pub max_queued: Option<u32>,
}

/// The policy of the one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderPool {
    /// Requests waiting at one time, over all models.
    pub max_queue: u32,
    /// How long each of them may wait.
    pub queue_timeout: Duration,
    /// Providers tried for one request, the first included.
    pub max_attempts: NonZeroU32,
}

/// A node that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// As its certificate says.
    pub id: NodeId,
    /// Its inference servers, in file order; ids are unique within the node.
    pub providers: Vec<Provider>,
}

/// One inference server of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Unique within its node.
    pub id: ProviderId,
    /// How it is spoken to.
    pub adapter: Adapter,
    /// Requests it runs at one time.
    pub capacity: NonZeroU32,
    /// Long requests among them; at most `capacity`.
    pub long_context_capacity: u32,
    /// Longest context of one request; None: not known.
    pub context_window_tokens: Option<NonZeroU64>,
    /// Context of all requests together; at least window times long capacity. None: not known.
    pub total_context_tokens: Option<NonZeroU64>,
    /// Higher is preferred.
    pub priority: i32,
    /// Whether it takes new requests.
    pub enabled: bool,
}

/// How a provider is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// A server with an OpenAI-compatible API.
    OpenAi(Upstream),
    /// An Ollama server.
    Ollama(Upstream),
    /// No server: the node answers by itself, for trying things out.
    Echo {
        /// Pause before each word.
        word_interval: Duration,
        /// Words of an answer.
        words: NonZeroU32,
    },
}

impl Adapter {
    /// The server behind the adapter, if it has one.
    pub fn upstream(&self) -> Option<&Upstream> {
        match self {
            Self::OpenAi(upstream) | Self::Ollama(upstream) => Some(upstream),
            Self::Echo { .. } => None,
        }
    }
}

/// The adapter's name, as files have it.
impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi(_) => "openai",
            Self::Ollama(_) => "ollama",
            Self::Echo { .. } => "echo",
        })
    }
}

/// A server that a node calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Where it listens, seen from the node.
    pub endpoint: Endpoint,
    /// The node's environment variable that holds the server's key.
    pub api_key_env: Option<EnvName>,
    /// Sent with every request; names are in lower case.
    pub headers: BTreeMap<String, Secret>,
    /// For the connection to be made.
    pub connect_timeout: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte_timeout: Duration,
    /// Between two bytes of the answer.
    pub idle_timeout: Duration,
}

/// A model that clients can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What clients ask for.
    pub id: ModelId,
    /// A request with more prompt tokens is long; None: none is.
    pub long_context_threshold_tokens: Option<NonZeroU64>,
    /// Who can serve it: at least one, none twice, each of them configured.
    pub candidates: Vec<Candidate>,
    /// Shown in the model list.
    pub context_length: Option<NonZeroU64>,
    /// Shown in the model list.
    pub owned_by: Option<Owner>,
}

/// A provider that serves a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node's id.
    pub node: NodeId,
    /// The provider's id within the node.
    pub provider: ProviderId,
    /// The name the provider knows the model by; None: the same.
    pub upstream_model: Option<ModelId>,
}

impl EdgeConfig {
    /// Reads the file at `path`, taking keys from this process's environment. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be read, or with every issue of it.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let text = load::read(path)?;
        Ok(Self::parse(&text, path, &|name| std::env::var(name).ok())?)
    }

    /// Compiles `text`. `origin` names it in issues, and relative paths in it start at `origin`'s folder. `lookup`
    /// gives the value of an environment variable.
    ///
    /// # Errors
    /// With every issue of the text.
    pub fn parse(text: &str, origin: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, Issues> {
        load::compile(text, origin, |root, log| {
            kind::require(Kind::Edge, root, log)?;
            Self::compile(root, origin, Environment::Lookup(lookup), log)
        })
    }

    /// This process before it is told of any client's key, node or model. A first load is the difference from it, so
    /// that it takes the same path as a refresh.
    pub fn before_first_load(&self) -> Self {
        Self { auth: Auth::default(), nodes: Vec::new(), models: Vec::new(), ..self.clone() }
    }

    pub(crate) fn compile(
        root: &TreeNode<'_>,
        origin: &Path,
        environment: Environment<'_>,
        log: &Log,
    ) -> Result<Self, NoValue> {
        let context = Context { kind: Kind::Edge, log };
        let file = Section::open(context, &EDGE, root, root.position, String::new())?;
        let quic = file.section("quic", &QUIC).and_then(|section| listeners::quic(&section));
        let http = file.section("http", &HTTP);
        let http_listen = http.as_ref().map_err(|no| *no).and_then(|section| section.read("listen"));
        let auth = auth::auth(&file, environment, &http, http_listen);
        let http = http.and_then(|section| listeners::http(&section, http_listen, origin));
        let admin = file
            .section("admin", &ADMIN)
            .and_then(|section| listeners::admin(&section, http_listen, auth.as_ref(), environment));
        let certs = file.section("certs", &EDGE_CERTS).and_then(|section| listeners::certs(&section, origin));
        let provider_pool = file.section("provider_pool", &PROVIDER_POOL).and_then(|s| listeners::pool(&s));
        let (nodes, roster) = provider::nodes(&file);
        let models = model::models(&file, &roster);
        Ok(Self {
            quic: quic?,
            http: http?,
            admin: admin?,
            certs: certs?,
            auth: auth?,
            provider_pool: provider_pool?,
            nodes: nodes?,
            models: models?,
        })
    }
}
