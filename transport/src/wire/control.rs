//! Messages of the control stream.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The node's first message. It claims no identity: that comes from the certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Random, one per node process: tells a process that dials again from a second machine with the same certificate.
    pub instance: [u8; 16],
    /// Counts this process's dials; a higher one has given up every lower one.
    pub dial: u64,
    /// Name and version of the node's software, for people.
    pub software: String,
}

/// What the edge writes on the control stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EdgeMessage {
    /// The registration is accepted. Always the first message, and only once.
    Welcome(Welcome),
    /// The providers of this node are now these.
    Apply(Apply),
    /// Are you alive? Answered by [`NodeMessage::Pong`] with the same number.
    Ping {
        /// Returned unchanged.
        nonce: u64,
    },
    /// No further run will be granted; what was granted may come and end.
    Drain,
    /// Answer to [`NodeMessage::Renew`]: a new certificate for the key of the request.
    Renewed {
        /// The certificate, then what leads from it to a root, in DER; no root.
        chain: Vec<Bytes>,
    },
    /// Answer to [`NodeMessage::Renew`]: there is no new certificate.
    RenewalRefused {
        /// The reason, for people.
        reason: String,
    },
}

/// What the node writes on the control stream after [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeMessage {
    /// The providers of that revision are in force.
    Applied(Applied),
    /// Answer to [`EdgeMessage::Ping`].
    Pong {
        /// The number of the Ping.
        nonce: u64,
    },
    /// The node is about to stop and wants no further run.
    Leaving,
    /// A certificate for a new key, please.
    Renew {
        /// PKCS#10 in DER, signed with the new key. Nothing but the key counts; the names in it are not looked at.
        csr: Bytes,
    },
}

/// An accepted registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The generation that this connection owns; every run head carries it.
    pub generation: u64,
    /// The edge's clock, in milliseconds since 1970, so that a node can notice that its own is off.
    pub edge_time_ms: u64,
    /// Silence after which the edge gives the connection up, in milliseconds, so that a node can notice that it makes
    /// itself heard too seldom.
    pub idle_timeout_ms: u64,
    /// The first state of the node's providers.
    pub apply: Apply,
}

/// The whole list of a node's providers; what is not in it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apply {
    /// Grows with each message; repeated in [`Applied`].
    pub revision: u64,
    /// The providers.
    pub providers: Vec<ProviderSettings>,
}

/// What the node must know of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderSettings {
    /// The provider's id, unique on its node.
    pub id: String,
    /// Which API the inference server speaks, and where it is.
    pub adapter: Adapter,
    /// How many runs the gate lets in at once.
    pub capacity: u32,
    /// Name of the node's environment variable that holds the inference server's key.
    pub api_key_env: Option<String>,
    /// Headers added to every request to the inference server.
    pub headers: Vec<(String, String)>,
    /// Longest time to connect to the inference server, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Longest time from the request to the first byte of its answer, in milliseconds.
    pub first_byte_timeout_ms: u64,
    /// Longest silence within an answer, in milliseconds.
    pub idle_timeout_ms: u64,
}

/// How the node talks to a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Adapter {
    /// An OpenAI-compatible server: its own HTTP API through a tunnel run.
    OpenAi {
        /// Base URL, as the edge's configuration has it.
        endpoint: String,
    },
    /// An Ollama server: its native API, by normalized runs.
    Ollama {
        /// Base URL, as the edge's configuration has it.
        endpoint: String,
    },
    /// Built in: streams a set number of words at a set pace, by normalized runs.
    Echo {
        /// How many words an answer has.
        words: u32,
        /// Time between words, in milliseconds.
        word_interval_ms: u64,
    },
}

/// Answer to [`Apply`]: everything not refused is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Revision of the [`Apply`] that it answers.
    pub revision: u64,
    /// Providers that this node will not run.
    pub refused: Vec<RefusedProvider>,
}

/// A provider that the node will not run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedProvider {
    /// The provider's id.
    pub id: String,
    /// The reason, for people.
    pub reason: String,
}
