//! The application codes of QUIC resets and closes. They are wire format: never renumbered, never reused.
//! 0 is not in use, because QUIC libraries send it implicitly.

use quinn::VarInt;

/// Code of a RESET (or STOP_SENDING) of one run's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum StreamCode {
    /// Edge: the client is gone.
    ClientGone = 0x10,
    /// Edge: the client stopped reading for too long.
    ClientStalled = 0x11,
    /// Edge: the lease or its generation is lost.
    Fenced = 0x12,
    /// Edge: shutting down.
    EdgeShutdown = 0x13,
    /// Edge: the run has ended, nothing was cancelled.
    Done = 0x1e,
    /// Node: cancelled as asked; the upstream request is closed and its slot free.
    Cancelled = 0x20,
    /// Node: the provider broke off in the middle of its answer.
    UpstreamAborted = 0x23,
    /// Node: the provider fell silent in the middle of its answer.
    UpstreamStalled = 0x22,
    /// Node: the run's head or body broke the protocol.
    Protocol = 0x28,
    /// Node: shutting down, or its connection was replaced.
    NodeShutdown = 0x27,
    /// Node: the run's task ended without an outcome (a panic).
    NodeDropped = 0x2e,
}

impl StreamCode {
    /// The number on the wire.
    pub fn wire(self) -> VarInt {
        VarInt::from_u32(self as u32)
    }

    /// The code with this number, if it is one of ours.
    pub fn from_wire(code: VarInt) -> Option<Self> {
        const ALL: [StreamCode; 11] = [
            StreamCode::ClientGone,
            StreamCode::ClientStalled,
            StreamCode::Fenced,
            StreamCode::EdgeShutdown,
            StreamCode::Done,
            StreamCode::Cancelled,
            StreamCode::UpstreamAborted,
            StreamCode::UpstreamStalled,
            StreamCode::Protocol,
            StreamCode::NodeShutdown,
            StreamCode::NodeDropped,
        ];
        ALL.into_iter().find(|known| known.wire() == code)
    }
}

/// Code of an application close of the whole connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum CloseCode {
    /// Edge: shutting down; dial again.
    EdgeShutdown = 0x100,
    /// Edge: this identity has a live connection of another process.
    Duplicate = 0x101,
    /// Edge: a newer connection of this identity has taken over.
    Superseded = 0x102,
    /// Edge: the certificate of this connection has expired.
    CertificateExpired = 0x103,
    /// Edge: the certificate carries no usable identity.
    BadIdentity = 0x105,
    /// Edge: it does not speak this protocol version.
    ProtocolVersion = 0x106,
    /// Either: the peer broke the protocol.
    ProtocolViolation = 0x107,
    /// Edge: Hello did not come in time.
    HelloTimeout = 0x109,
    /// Edge: a cancelled run did not end in time.
    CancelTimeout = 0x10a,
    /// Node: shutting down.
    NodeShutdown = 0x10b,
    /// Edge: the identity is good but not in the configuration.
    UnknownNode = 0x10c,
}

impl StreamCode {
    /// What it means, for people.
    pub fn explain(self) -> &'static str {
        match self {
            Self::ClientGone => "the client is gone",
            Self::ClientStalled => "the client stopped reading",
            Self::Fenced => "the lease was lost",
            Self::EdgeShutdown => "the edge is shutting down",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::UpstreamAborted => "the inference server broke off",
            Self::UpstreamStalled => "the inference server fell silent",
            Self::Protocol => "the protocol was broken",
            Self::NodeShutdown => "the node is shutting down",
            Self::NodeDropped => "the node's task failed",
        }
    }
}

impl CloseCode {
    /// The number on the wire.
    pub fn wire(self) -> VarInt {
        VarInt::from_u32(self as u32)
    }

    /// The code with this number, if it is one of ours.
    pub fn from_wire(code: VarInt) -> Option<Self> {
        const ALL: [CloseCode; 11] = [
            CloseCode::EdgeShutdown,
            CloseCode::Duplicate,
            CloseCode::Superseded,
            CloseCode::CertificateExpired,
            CloseCode::BadIdentity,
            CloseCode::ProtocolVersion,
            CloseCode::ProtocolViolation,
            CloseCode::HelloTimeout,
            CloseCode::CancelTimeout,
            CloseCode::NodeShutdown,
            CloseCode::UnknownNode,
        ];
        ALL.into_iter().find(|known| known.wire() == code)
    }
}
