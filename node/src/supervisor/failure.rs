//! The kinds of failure as far as they decide what follows. Which error is which kind is the diagnosis's business.

use super::Exit;

/// Why there is no connection, or no longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No answer, no name, no route, a connection that fell silent or was reset.
    Network,
    /// The edge is shutting down or takes no new connection now.
    EdgeShutdown,
    /// Another live process has this identity.
    Duplicate,
    /// Another process with this identity has taken over the connection. This one holds no other, so it dials again;
    /// at the pace, because two processes that each dial at once would throw each other out without end.
    Superseded,
    /// The edge's configuration has no such node. It may gain it.
    UnknownNode,
    /// The peer speaks another version, or no iop at all. Retryable: the edge may be upgraded or rolled back, and a fleet
    /// of machines in other people's homes must not need a hand each because of that.
    Version,
    /// The peer broke the protocol, or says that this node did.
    Protocol,
    /// One of the clocks is wrong, or the edge's certificate has expired: the edge's operator or a time server mends it.
    Validity,
    /// The edge closed a live connection because this node's certificate expired or was revoked. The next dial loads the
    /// file afresh: a newer one works, the same one is refused for good.
    Outlived,
    /// The configuration leaves nothing to dial.
    Config,
    /// This node's certificate is missing, bad or refused, or the edge's is not of this deployment.
    Credentials,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Dial as soon as the interval since the last dial is over.
    Soon,
    /// Dial an interval from now, however long the connection lived.
    Paced,
    /// Waiting does not mend it.
    Never(Exit),
}

impl Failure {
    pub(crate) fn retry(self) -> Retry {
        match self {
            Self::Network | Self::EdgeShutdown | Self::Outlived => Retry::Soon,
            Self::Duplicate
            | Self::Superseded
            | Self::UnknownNode
            | Self::Version
            | Self::Protocol
            | Self::Validity => Retry::Paced,
            Self::Config => Retry::Never(Exit::BadConfig),
            Self::Credentials => Retry::Never(Exit::Credentials),
        }
    }
}
