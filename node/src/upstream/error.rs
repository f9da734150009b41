//! What can go wrong between node and inference server, and what the edge is told of it.

use super::connect::ConnectError;
use iop_transport::codes::StreamCode;
use iop_transport::wire::RefusalReason;
use std::io::ErrorKind;
use std::time::Duration;

/// A request that got no answer. Always the inference server's or its network's fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Nothing was sent.
    #[error("{endpoint} {}", unreachable(.source))]
    Unreachable { endpoint: String, source: ConnectError },
    /// Nothing was sent.
    #[error("{endpoint} did not accept a connection within {} ms", .limit.as_millis())]
    ConnectTimeout { endpoint: String, limit: Duration },
    /// The request was sent; what became of it is unknown.
    #[error("{endpoint} closed the connection without an answer")]
    NoAnswer { endpoint: String },
    /// The request was sent; what became of it is unknown.
    #[error("{endpoint} answered with something that is not usable HTTP: {problem}")]
    NotHttp { endpoint: String, problem: String },
    /// The request was sent and has been aborted.
    #[error("{endpoint} did not begin its answer within {} ms", .limit.as_millis())]
    FirstByteTimeout { endpoint: String, limit: Duration },
}

impl CallError {
    /// The kind of refusal that tells the edge whether the request may have begun.
    pub(crate) fn reason(&self) -> RefusalReason {
        match self {
            Self::Unreachable { .. } | Self::ConnectTimeout { .. } => RefusalReason::Unreachable,
            Self::NoAnswer { .. } | Self::NotHttp { .. } => RefusalReason::BadAnswer,
            Self::FirstByteTimeout { .. } => RefusalReason::TimedOut,
        }
    }
}

fn unreachable(source: &ConnectError) -> String {
    match source {
        ConnectError::Connect(error) => match error.kind() {
            ErrorKind::ConnectionRefused => "refused the connection".to_owned(),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                format!("has no route from this node: {error}")
            }
            _ => format!("cannot be connected to: {error}"),
        },
        ConnectError::Resolve(_) | ConnectError::Tls(_) => format!("cannot be connected to: {source}"),
    }
}

/// An answer that broke off after its head.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The connection ended, or what came was no longer HTTP.
    #[error("the answer broke off: {0}")]
    Aborted(#[from] hyper::Error),
    /// Nothing came for too long; the connection has been closed.
    #[error("no byte of the answer came for {} ms", .limit.as_millis())]
    Stalled { limit: Duration },
}

impl AnswerError {
    /// The kind of refusal if nothing of the answer was of use yet.
    pub(crate) fn reason(&self) -> RefusalReason {
        match self {
            Self::Aborted(_) => RefusalReason::BadAnswer,
            Self::Stalled { .. } => RefusalReason::TimedOut,
        }
    }

    /// How the reply ends.
    pub(crate) fn code(&self) -> StreamCode {
        match self {
            Self::Aborted(_) => StreamCode::UpstreamAborted,
            Self::Stalled { .. } => StreamCode::UpstreamStalled,
        }
    }
}
