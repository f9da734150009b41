//! Heads and events of a run's own stream.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One HTTP header: lower-case name, value as it came.
pub type Header = (String, Bytes);

/// The edge's first frame on a run's stream; `body_len` bytes follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    /// Number of the lease, unique on this edge.
    pub lease: u64,
    /// Generation under which the lease was made.
    pub generation: u64,
    /// The provider that runs it.
    pub provider: String,
    /// What to run.
    pub request: RunRequest,
    /// Number of body bytes behind this head.
    pub body_len: u64,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunRequest {
    /// The provider's own HTTP API, byte for byte.
    Tunnel(TunnelRequest),
    /// A provider-neutral request; the body is the client's request in OpenAI's JSON.
    Normalized(NormalizedRequest),
}

/// An HTTP request without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelRequest {
    /// HTTP method.
    pub method: String,
    /// Path and query, appended to the provider's base URL.
    pub path: String,
    /// End-to-end headers, without Host, Content-Length and the client's credentials.
    pub headers: Vec<Header>,
}

/// A request that the node's adapter turns into the provider's native API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NormalizedRequest {
    /// Which operation the body asks for.
    pub operation: Operation,
    /// The model's name at the provider.
    pub model: String,
}

/// Operations of normalized runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Body as for `/v1/chat/completions`.
    Chat,
    /// Body as for `/v1/completions`.
    Completion,
    /// Body as for `/v1/embeddings`.
    Embeddings,
}

/// The node's first frame on a run's stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunReply {
    /// A tunnel run: the provider's response head; its body follows as raw bytes.
    Response {
        /// HTTP status.
        status: u16,
        /// End-to-end headers.
        headers: Vec<Header>,
    },
    /// A normalized run has begun; [`RunEvent`] frames follow.
    Started,
    /// The run was not started; nothing follows.
    Refused(Refusal),
}

/// Why a run was not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind, for the edge.
    pub reason: RefusalReason,
    /// The detail, for people.
    pub detail: String,
}

/// Kinds of refusal. In each of them nothing of an answer has reached the edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalReason {
    /// The node's gate is full: somebody bypassed admission, or an earlier run has not ended yet.
    GateFull,
    /// The head carries a generation that this connection does not own.
    StaleGeneration,
    /// No such provider on this node, or none any more that takes such a run.
    UnknownProvider,
    /// The inference server does not accept connections.
    Unreachable,
    /// The inference server was asked and took too long to begin.
    TimedOut,
    /// The inference server's answer was not what its API promises.
    BadAnswer,
    /// The adapter cannot run this request; asking again elsewhere is no use.
    BadRequest,
    /// The inference server was asked and said that it has no room now.
    Busy,
}

impl RefusalReason {
    /// Whether another provider may be asked instead.
    pub fn may_try_elsewhere(self) -> bool {
        !matches!(self, Self::BadRequest | Self::TimedOut | Self::BadAnswer)
    }
}

/// One event of a normalized run. The last event of a complete run is [`RunEvent::Finished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RunEvent {
    /// A piece of the answer.
    Text(String),
    /// A piece of the model's reasoning.
    Reasoning(String),
    /// A call of a tool, whole or a piece of its arguments.
    ToolCall {
        /// Position among the answer's tool calls.
        index: u32,
        /// Id of the call; present on its first piece.
        id: Option<String>,
        /// Name of the function; present on its first piece.
        name: Option<String>,
        /// Arguments (JSON text), or the next piece of them.
        arguments: String,
    },
    /// One vector, in the order of the inputs.
    Embedding(Vec<f32>),
    /// The run is complete.
    Finished {
        /// Why it ended.
        finish: Finish,
        /// What it used.
        usage: Usage,
    },
    /// The provider reported an error after it had begun.
    Failed(String),
}

/// Why a complete answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finish {
    /// The model ended it.
    Stop,
    /// The limit of tokens was reached.
    Length,
    /// The model wants a tool's result.
    ToolCalls,
}

/// Tokens used by a run, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub completion_tokens: u32,
}
