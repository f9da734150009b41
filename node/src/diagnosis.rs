//! Why the node is not connected, in one line that a person understands. It reads no text of the peer's, only codes, and
//! decides nothing: what follows is the supervisor's business.

mod classify;
mod line;
#[cfg(test)]
mod table;

use crate::supervisor::{Failure, Retry};
use iop_transport::codes::CloseCode;
use std::fmt;

/// One thing that stands between this node and its edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The edge's name was not resolved; why, in the system's words.
    Name(String),
    /// This machine gives no UDP socket, or cannot send to that address; why, in the system's words.
    Socket(String),
    /// This node's own certificate file does not work.
    OwnCertificate(String),
    /// This node's own certificate is not valid yet by this machine's clock.
    OwnCertificateEarly,
    /// Nothing came back.
    NoAnswer,
    /// A connection fell silent.
    Silent,
    /// The edge does not know the connection any more: its process has restarted.
    Restarted,
    /// The edge takes no new connection at the moment.
    Busy,
    /// Something speaks QUIC there, but not this version of iop.
    NotIop,
    /// This node does not accept the edge's certificate.
    EdgeCertificate(Fault),
    /// The edge does not accept this node's certificate.
    CertificateRefused(Fault),
    /// The edge closed the connection with one of iop's codes.
    Closed(CloseCode),
    /// The edge closed the connection with a code that this version does not know.
    ClosedUnknown(u64),
    /// The connection stood, but no Welcome came in time.
    NoWelcome,
    /// The edge broke the protocol.
    EdgeBroke,
    /// QUIC or TLS ended with another code of theirs.
    Transport(u64),
}

/// What is wrong with a certificate, as far as TLS says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not signed by the authority that the other end trusts.
    UnknownAuthority,
    /// Expired or not yet valid: TLS has one code for both.
    Validity,
    /// Revoked.
    Revoked,
    /// Made for the other side, or for neither.
    WrongKind,
    /// Damaged, or for another name.
    Bad,
    /// None was shown.
    Missing,
    /// Refused for another reason.
    Other,
}

/// Why an attempt failed: every problem it met, with the addresses it met it at, in the order in which they were tried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diagnosis {
    problems: Vec<(Problem, Vec<String>)>,
}

impl Problem {
    /// What kind of failure it is.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Name(_) | Self::Socket(_) | Self::NoAnswer | Self::Silent | Self::Restarted => {
                Failure::Network
            }
            Self::NoWelcome | Self::Transport(_) => Failure::Network,
            Self::OwnCertificateEarly | Self::EdgeCertificate(Fault::Validity) => Failure::Validity,
            Self::OwnCertificate(_) | Self::EdgeCertificate(_) | Self::CertificateRefused(_) => {
                Failure::Credentials
            }
            Self::Busy => Failure::EdgeShutdown,
            Self::NotIop => Failure::Version,
            Self::ClosedUnknown(_) | Self::EdgeBroke => Failure::Protocol,
            Self::Closed(code) => closed(*code),
        }
    }

    /// Whether an edge of this deployment has spoken: its other addresses have nothing better to say.
    pub(crate) fn is_verdict(&self) -> bool {
        matches!(
            self,
            Self::Closed(_) | Self::ClosedUnknown(_) | Self::CertificateRefused(_) | Self::EdgeBroke
        )
    }
}

fn closed(code: CloseCode) -> Failure {
    match code {
        CloseCode::EdgeShutdown => Failure::EdgeShutdown,
        CloseCode::Duplicate => Failure::Duplicate,
        CloseCode::Superseded => Failure::Superseded,
        CloseCode::CertificateExpired | CloseCode::CertificateRevoked => Failure::Outlived,
        CloseCode::BadIdentity => Failure::Credentials,
        CloseCode::ProtocolVersion => Failure::Version,
        CloseCode::UnknownNode => Failure::UnknownNode,
        CloseCode::ProtocolViolation
        | CloseCode::HelloTimeout
        | CloseCode::CancelTimeout
        | CloseCode::NodeShutdown => Failure::Protocol,
    }
}

impl Diagnosis {
    /// The diagnosis of one problem at one address.
    pub(crate) fn of(problem: Problem, address: &str) -> Self {
        let mut diagnosis = Self::default();
        diagnosis.add(problem, address);
        diagnosis
    }

    /// Adds what was met at a further address.
    pub(crate) fn add(&mut self, problem: Problem, address: &str) {
        match self.problems.iter_mut().find(|(known, _)| *known == problem) {
            Some((_, addresses)) => addresses.push(address.to_owned()),
            None => self.problems.push((problem, vec![address.to_owned()])),
        }
    }

    /// Whether this says the same: the order in which addresses are tried may differ from attempt to attempt.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.sorted() == other.sorted()
    }

    fn sorted(&self) -> Vec<(String, Vec<&String>)> {
        let mut problems: Vec<_> = self
            .problems
            .iter()
            .map(|(problem, addresses)| {
                let mut addresses: Vec<_> = addresses.iter().collect();
                addresses.sort();
                (format!("{problem:?}"), addresses)
            })
            .collect();
        problems.sort();
        problems
    }

    /// The kind of failure of the whole attempt: that of the gravest problem. An address that answers with a stranger's
    /// certificate needs a person, even if another is merely silent. Without any address there was nothing to dial.
    pub(crate) fn failure(&self) -> Failure {
        let gravity = |failure: &Failure| match failure.retry() {
            Retry::Never(_) => 2,
            Retry::Paced => 1,
            Retry::Soon => 0,
        };
        let failures = self.problems.iter().map(|(problem, _)| problem.failure());
        failures.max_by_key(gravity).unwrap_or(Failure::Config)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problems.is_empty() {
            return f.write_str("the configuration names no address of the edge");
        }
        for (number, (problem, addresses)) in self.problems.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{}", line::of(problem, &addresses.join(", ")))?;
        }
        Ok(())
    }
}
