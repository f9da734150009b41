//! Which problem an error of QUIC is. The variant is looked at first: the transport's codes 0x100 to 0x1ff are TLS
//! alerts, the application's codes from 0x100 on are iop's.

use super::{Fault, Problem};
use iop_transport::ConnectionError;
use iop_transport::codes::CloseCode;

/// RFC 9000: the server refuses a new connection.
const CONNECTION_REFUSED: u64 = 0x2;

/// RFC 9001: where the TLS alerts begin and end among the transport's codes.
const ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// Who judged: this node over the edge, or the edge over this node.
#[derive(Clone, Copy)]
pub(super) enum Judge {
    Node,
    Edge,
}

impl Problem {
    /// The problem behind a connection that failed before its Welcome.
    ///
    /// With TLS 1.3 the edge's verdict on this node's certificate comes only after the connection stood, so the wait for
    /// the Welcome asks here too.
    pub(crate) fn before_welcome(error: &ConnectionError) -> Self {
        match Self::after_welcome(error) {
            Self::Silent => Self::NoAnswer,
            Self::Closed(CloseCode::CertificateExpired) => Self::CertificateRefused(Fault::Validity),
            Self::Closed(CloseCode::CertificateRevoked) => Self::CertificateRefused(Fault::Revoked),
            other => other,
        }
    }

    /// The problem behind a connection that was lost after its Welcome.
    pub(crate) fn after_welcome(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::VersionMismatch => Self::NotIop,
            ConnectionError::TransportError(error) => of_code(error.code.into(), Judge::Node),
            ConnectionError::ConnectionClosed(close) => of_code(close.error_code.into(), Judge::Edge),
            ConnectionError::ApplicationClosed(close) => match CloseCode::from_wire(close.error_code) {
                Some(code) => Self::Closed(code),
                None => Self::ClosedUnknown(close.error_code.into_inner()),
            },
            ConnectionError::Reset => Self::Restarted,
            ConnectionError::TimedOut => Self::Silent,
            // This end closes only what it has a problem with, and then it names that problem itself.
            ConnectionError::LocallyClosed => Self::EdgeBroke,
            ConnectionError::CidsExhausted => Self::Socket("no connection id is left".into()),
        }
    }
}

pub(super) fn of_code(code: u64, judge: Judge) -> Problem {
    if !ALERTS.contains(&code) {
        return match judge {
            Judge::Edge if code == CONNECTION_REFUSED => Problem::Busy,
            _ => Problem::Transport(code),
        };
    }
    match (of_alert(code - ALERTS.start), judge) {
        (Some(Alert::Protocol), _) => Problem::NotIop,
        (Some(Alert::Certificate(fault)), Judge::Node) => Problem::EdgeCertificate(fault),
        (Some(Alert::Certificate(fault)), Judge::Edge) => Problem::CertificateRefused(fault),
        (None, _) => Problem::Transport(code),
    }
}

enum Alert {
    Certificate(Fault),
    Protocol,
}

/// The alerts of RFC 8446 that say something of a certificate or of ALPN.
fn of_alert(alert: u64) -> Option<Alert> {
    Some(Alert::Certificate(match alert {
        42 => Fault::Bad,
        43 => Fault::WrongKind,
        44 => Fault::Revoked,
        45 => Fault::Validity,
        46 | 49 => Fault::Other,
        // 51 is a signature that does not verify: an authority of the same name with another key.
        48 | 51 => Fault::UnknownAuthority,
        116 => Fault::Missing,
        120 => return Some(Alert::Protocol),
        _ => return None,
    }))
}
