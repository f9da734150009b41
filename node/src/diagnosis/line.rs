//! The words for each problem. Whoever reads them may have a terminal, but not this source.

use super::{Fault, Problem};
use iop_transport::codes::CloseCode;

/// One line about a problem at `addresses`.
pub(super) fn of(problem: &Problem, addresses: &str) -> String {
    let edge = format!("the edge at {addresses}");
    match problem {
        Problem::Name(reason) => format!("the name in {addresses} was not found: {reason}"),
        Problem::Socket(reason) => format!("this machine cannot send to {addresses}: {reason}"),
        Problem::OwnCertificate(reason) => format!("this node's certificate does not work: {reason}"),
        Problem::OwnCertificateEarly => {
            "this node's certificate is not valid yet by this machine's clock: is the clock right?".into()
        }
        Problem::NoAnswer => {
            format!("no answer over UDP from {addresses}: is the edge running, and is UDP open on the way?")
        }
        Problem::Silent => {
            format!("the connection to {addresses} fell silent: network down, or the edge gone?")
        }
        Problem::Restarted => format!("{edge} has restarted"),
        Problem::Busy => format!("{edge} takes no new connections at the moment"),
        Problem::NotIop => format!(
            "{addresses} answers, but not with this version of iop: is it the edge's port, and are edge and node of one version?"
        ),
        Problem::EdgeCertificate(fault) => edge_certificate(*fault, &edge),
        Problem::CertificateRefused(fault) => {
            format!("{edge} refuses this node's certificate: {}", refused(*fault))
        }
        Problem::Closed(code) => closed(*code, &edge),
        Problem::ClosedUnknown(0) => format!("{edge} closed the connection without a reason"),
        Problem::ClosedUnknown(code) => {
            format!("{edge} closed the connection with code {code:#x}, which this version does not know")
        }
        Problem::NoWelcome => format!("{edge} answers, but did not accept the registration in time"),
        Problem::EdgeBroke => format!("{edge} broke the protocol: are edge and node of one version?"),
        Problem::Transport(code) => format!("the connection to {addresses} failed with QUIC code {code:#x}"),
    }
}

fn edge_certificate(fault: Fault, edge: &str) -> String {
    match fault {
        Fault::UnknownAuthority => {
            format!(
                "{edge} has a certificate that is not signed by this deployment's authority: is it the right edge?"
            )
        }
        Fault::Validity => format!(
            "{edge} has a certificate that is expired or not yet valid by this machine's clock: is the clock right? If it is, renew the edge's certificate"
        ),
        Fault::Revoked => format!("{edge} has a certificate that is revoked"),
        Fault::WrongKind => format!("{edge} has a certificate that is not made for an edge"),
        Fault::Bad => {
            format!(
                "{edge} has a certificate for another name: compare edge.server_name with the edge's deployment"
            )
        }
        Fault::Missing | Fault::Other => format!("{edge} has a certificate that cannot be verified"),
    }
}

fn refused(fault: Fault) -> &'static str {
    match fault {
        Fault::UnknownAuthority => {
            "it is not signed by the edge's authority: was it issued for another deployment?"
        }
        Fault::Validity => {
            "expired or not yet valid by the edge's clock, though good by this machine's: is one of the two clocks wrong?"
        }
        Fault::Revoked => "it is revoked: issue a new one if this node may come back",
        Fault::WrongKind => {
            "it is not made for a node: use the file that `iop certs issue` wrote for this node"
        }
        Fault::Bad => "it is damaged or for another name",
        Fault::Missing => "none was shown",
        Fault::Other => "the edge gave no further reason",
    }
}

fn closed(code: CloseCode, edge: &str) -> String {
    match code {
        CloseCode::EdgeShutdown => format!("{edge} is shutting down"),
        CloseCode::Duplicate => format!(
            "{edge} is already connected to another running process with this node's certificate: each node needs its own"
        ),
        CloseCode::Superseded => format!(
            "another process with this node's certificate has taken over the connection to {}: each node needs its own",
            edge.trim_start_matches("the edge at ")
        ),
        CloseCode::CertificateExpired => {
            format!("{edge} closed the connection: this node's certificate has expired")
        }
        CloseCode::CertificateRevoked => {
            format!("{edge} closed the connection: this node's certificate has been revoked")
        }
        CloseCode::BadIdentity => {
            format!("{edge} finds no usable node name in this node's certificate: issue it again")
        }
        CloseCode::ProtocolVersion => {
            format!("{edge} speaks another version of iop: upgrade the older of the two")
        }
        CloseCode::ProtocolViolation => {
            format!("{edge} says that this node broke the protocol: are edge and node of one version?")
        }
        CloseCode::HelloTimeout => format!("{edge} did not get this node's first message in time"),
        CloseCode::CancelTimeout => {
            format!("{edge} closed the connection: a cancelled run did not end in time")
        }
        CloseCode::NodeShutdown => format!("{edge} closed the connection with a code that only nodes use"),
        CloseCode::UnknownNode => {
            format!("{edge} has no node of this name in its configuration: add it there")
        }
    }
}
