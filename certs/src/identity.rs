//! Who a certificate names: its subject alternative names read strictly, and the node in a peer's leaf. Whether the
//! certificate is genuine is not decided here: rustls verifies before anything asks.

use std::fmt;

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

use crate::certificate::{self, Validity};
use crate::deployment::{Deployment, EdgeNameError, SCHEME};
use crate::issue::BACKDATED_SECONDS;
use crate::node_id::{NodeId, NodeIdError};
use crate::show::foreign;

/// The two kinds of leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Serves: the TLS server.
    Edge,
    /// Dials: the TLS client.
    Node,
}

impl Role {
    /// The extended key usage a leaf of this role has, alone.
    pub(crate) fn usage(self) -> &'static str {
        match self {
            Self::Edge => "serverAuth",
            Self::Node => "clientAuth",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Edge => "edge",
            Self::Node => "node",
        })
    }
}

/// The kind of subject alternative name an identity is carried in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A node's, and an authority's.
    Uri,
    /// The edge's.
    Dns,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uri => "URI",
            Self::Dns => "DNS name",
        })
    }
}

/// Why a certificate does not say whom it belongs to. Names found in it are cut and escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The certificate or its list of names cannot be read.
    #[error("the certificate cannot be read: {reason}")]
    Malformed {
        /// What the parser said.
        reason: String,
    },
    /// No name of the kind that is needed.
    #[error("the certificate has no {wanted} among its subject alternative names, exactly one is needed")]
    NoName {
        /// The kind.
        wanted: NameKind,
    },
    /// More than one name of the kind that is needed.
    #[error("the certificate has {count} names of kind {wanted}, exactly one is needed")]
    SeveralNames {
        /// The kind.
        wanted: NameKind,
        /// How many there are.
        count: usize,
    },
    /// The one name is there, with a name of another kind beside it.
    #[error("the certificate has a name of kind {found} beside its {wanted}, it may have no other name")]
    OtherName {
        /// The kind that is needed.
        wanted: NameKind,
        /// The kind of the first other name.
        found: &'static str,
    },
    /// The URI has another scheme.
    #[error("the certificate's URI \"{uri}\" does not begin with {SCHEME}")]
    NotSpiffe {
        /// The URI.
        uri: String,
    },
    /// The URI belongs to another deployment.
    #[error("the certificate belongs to deployment \"{found}\", not to \"{expected}\"")]
    TrustDomain {
        /// The deployment in the certificate.
        found: String,
        /// The deployment that is asked for.
        expected: String,
    },
    /// The part after the deployment has the wrong form.
    #[error("the path of the certificate's URI is \"{path}\", not {expected}")]
    Path {
        /// The path.
        path: String,
        /// The form that is needed.
        expected: &'static str,
    },
    /// The path is right up to the node id, and that breaks the rule.
    #[error("the certificate names node \"{id}\": {reason}")]
    NodeId {
        /// The id.
        id: String,
        /// The rule it breaks.
        reason: NodeIdError,
    },
    /// The name of the deployment breaks the rule.
    #[error("the certificate names deployment \"{name}\": {reason}")]
    EdgeName {
        /// The name.
        name: String,
        /// The rule it breaks.
        reason: EdgeNameError,
    },
}

/// What a node's certificate says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNode {
    /// Which node it is.
    pub node_id: NodeId,
    /// First second at which the certificate is good, in seconds since 1970.
    pub not_before: i64,
    /// Last second at which the certificate is good, in seconds since 1970.
    pub not_after: i64,
    /// The certificate's serial number, in lower-case hexadecimal without leading zero bytes.
    pub serial: String,
}

impl PeerNode {
    fn new(node_id: NodeId, certificate: &X509Certificate<'_>) -> Self {
        let Validity { not_before, not_after } = Validity::of(certificate);
        Self { node_id, not_before, not_after, serial: certificate::serial(certificate) }
    }

    /// The second at which the certificate was issued, since 1970: validity begins a fixed time before that.
    pub(crate) fn issued(&self) -> i64 {
        self.not_before.saturating_add(BACKDATED_SECONDS)
    }
}

/// Reads the node's identity from the leaf of a peer, which rustls must already have verified against the deployment's
/// roots for client use. `deployment` is compared exactly.
pub fn peer_node(leaf: &CertificateDer<'_>, deployment: &str) -> Result<PeerNode, IdentityError> {
    let parsed = certificate::parse(leaf).map_err(|reason| IdentityError::Malformed { reason })?;
    let uri = SpiffeUri::of(&parsed)?;
    if uri.domain != deployment {
        return Err(IdentityError::TrustDomain {
            found: foreign(uri.domain),
            expected: deployment.to_owned(),
        });
    }
    let node_id = uri.node_id()?;
    Ok(PeerNode::new(node_id, &parsed))
}

/// Reads the node's identity from a leaf of any deployment.
pub(crate) fn node_of(leaf: &CertificateDer<'_>) -> Result<PeerNode, IdentityError> {
    let parsed = certificate::parse(leaf).map_err(|reason| IdentityError::Malformed { reason })?;
    let node_id = SpiffeUri::of(&parsed)?.node_id()?;
    Ok(PeerNode::new(node_id, &parsed))
}

/// The deployment and, for a node, the node that a leaf of the given role names.
pub(crate) fn named_in(
    certificate: &X509Certificate<'_>,
    role: Role,
) -> Result<(Deployment, Option<NodeId>), IdentityError> {
    match role {
        Role::Edge => Ok((deployment(only_name(certificate, NameKind::Dns)?)?, None)),
        Role::Node => {
            let uri = SpiffeUri::of(certificate)?;
            Ok((deployment(uri.domain)?, Some(uri.node_id()?)))
        }
    }
}

/// The deployment that a CA certificate was made for.
pub(crate) fn deployment_of_authority(
    certificate: &X509Certificate<'_>,
) -> Result<Deployment, IdentityError> {
    let uri = SpiffeUri::of(certificate)?;
    match uri.path {
        "" => deployment(uri.domain),
        path => Err(IdentityError::Path { path: foreign(path), expected: "empty" }),
    }
}

/// `spiffe://domain/path`; the path keeps its leading slash.
struct SpiffeUri<'a> {
    domain: &'a str,
    path: &'a str,
}

impl<'a> SpiffeUri<'a> {
    fn of<'c>(certificate: &'c X509Certificate<'a>) -> Result<SpiffeUri<'c>, IdentityError> {
        let uri = only_name(certificate, NameKind::Uri)?;
        let rest = uri.strip_prefix(SCHEME).ok_or_else(|| IdentityError::NotSpiffe { uri: foreign(uri) })?;
        let (domain, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(SpiffeUri { domain, path })
    }

    fn node_id(&self) -> Result<NodeId, IdentityError> {
        match self.path.strip_prefix("/node/") {
            Some(id) if !id.contains('/') => {
                id.parse().map_err(|reason| IdentityError::NodeId { id: foreign(id), reason })
            }
            _ => Err(IdentityError::Path { path: foreign(self.path), expected: "/node/<node id>" }),
        }
    }
}

fn deployment(name: &str) -> Result<Deployment, IdentityError> {
    name.parse().map_err(|reason| IdentityError::EdgeName { name: foreign(name), reason })
}

/// The text of the only subject alternative name, which must be of the wanted kind.
fn only_name<'c>(certificate: &'c X509Certificate<'_>, wanted: NameKind) -> Result<&'c str, IdentityError> {
    let extension = certificate.subject_alternative_name().map_err(|error| IdentityError::Malformed {
        reason: format!("its subject alternative names: {error}"),
    })?;
    let names = extension.map_or(&[][..], |extension| &extension.value.general_names);
    let of_kind = |name: &'c GeneralName<'_>| match (wanted, name) {
        (NameKind::Uri, GeneralName::URI(text)) | (NameKind::Dns, GeneralName::DNSName(text)) => Some(*text),
        _ => None,
    };
    let mut found = names.iter().filter_map(of_kind);
    let Some(only) = found.next() else {
        return Err(IdentityError::NoName { wanted });
    };
    let more = found.count();
    if more > 0 {
        return Err(IdentityError::SeveralNames { wanted, count: more + 1 });
    }
    match names.iter().find(|name| of_kind(name).is_none()) {
        Some(other) => Err(IdentityError::OtherName { wanted, found: kind_of(other) }),
        None => Ok(only),
    }
}

fn kind_of(name: &GeneralName<'_>) -> &'static str {
    match name {
        GeneralName::OtherName(..) => "other name",
        GeneralName::RFC822Name(_) => "e-mail address",
        GeneralName::DNSName(_) => "DNS name",
        GeneralName::X400Address(_) => "X.400 address",
        GeneralName::DirectoryName(_) => "directory name",
        GeneralName::EDIPartyName(_) => "EDI party name",
        GeneralName::URI(_) => "URI",
        GeneralName::IPAddress(_) => "IP address",
        GeneralName::RegisteredID(_) => "registered id",
        GeneralName::Invalid(..) => "unreadable name",
    }
}
