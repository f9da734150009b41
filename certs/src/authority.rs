//! A deployment's authority as its files hold it: the roots, the issuing CA and its key. Issuing is in `issue`, making
//! a new one in `init`. The root's key is not needed here, so it may be kept elsewhere.

use std::fmt;
use std::path::{Path, PathBuf};

use rcgen::{Issuer, KeyPair, PublicKeyData as _};
use rustls::pki_types::CertificateDer;

use crate::certificate::{self, Validity};
use crate::deployment::{Deployment, EdgeNameError};
use crate::identity::deployment_of_authority;
use crate::load::{self, LoadError};
use crate::node_id::NodeId;
use crate::revocations::RevocationsError;
use crate::show::Utc;
use crate::store::StoreError;

pub(crate) const ROOT_CERTIFICATE: &str = "root.pem";
pub(crate) const ROOT_KEY: &str = "root.key";
pub(crate) const ISSUING_CERTIFICATE: &str = "issuing.pem";
pub(crate) const ISSUING_KEY: &str = "issuing.key";
pub(crate) const EDGE_BUNDLE: &str = "edge.pem";

/// An authority, ready to issue.
pub struct Authority {
    pub(crate) dir: PathBuf,
    pub(crate) deployment: Deployment,
    /// Every root that bundles shall trust; one of them signed the issuing CA.
    pub(crate) roots: Vec<CertificateDer<'static>>,
    pub(crate) issuing: CertificateDer<'static>,
    pub(crate) valid: Validity,
    pub(crate) issuer: Issuer<'static, KeyPair>,
}

/// Why an authority was not made or did not issue.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The deployment cannot have this name.
    #[error("edge name {name:?}: {reason}")]
    EdgeName {
        /// The name.
        name: String,
        /// The rule it breaks.
        reason: EdgeNameError,
    },
    /// A file with this node's name would be taken for the authority's own.
    #[error("node id {node}: this name is kept for the authority's own files: choose another id")]
    ReservedNodeId {
        /// The id.
        node: NodeId,
    },
    /// A certificate has to be good for at least one day.
    #[error("a certificate for 0 days is good for nothing: ask for at least 1 day")]
    NoDays,
    /// The clock cannot be right, and certificates made by it would be useless.
    #[error("the clock says {}: set it first, certificates made now would be wrong", Utc(*.now))]
    Clock {
        /// The time that was given, in seconds since 1970.
        now: i64,
    },
    /// The issuing CA has expired.
    #[error(
        "{path}: the issuing CA expired at {} and the clock says {}: is the clock right? If it is, make a new authority",
        Utc(*.not_after),
        Utc(*.now)
    )]
    Expired {
        /// The issuing CA's certificate.
        path: PathBuf,
        /// Last good second, in seconds since 1970.
        not_after: i64,
        /// The time of issuing.
        now: i64,
    },
    /// The issuing CA is not valid yet.
    #[error(
        "{path}: the issuing CA is valid from {} and the clock says {}: is the clock right?",
        Utc(*.not_before),
        Utc(*.now)
    )]
    NotYetValid {
        /// The issuing CA's certificate.
        path: PathBuf,
        /// First good second, in seconds since 1970.
        not_before: i64,
        /// The time of issuing.
        now: i64,
    },
    /// Certificates of this node are revoked up to a time that this clock has not reached.
    #[error(
        "certificates of node {node} issued up to {} are revoked and the clock says {}: is the clock right?",
        Utc(*.until),
        Utc(*.now)
    )]
    RevokedUntil {
        /// The node.
        node: NodeId,
        /// Last second of issue that is revoked, since 1970.
        until: i64,
        /// The time of issuing.
        now: i64,
    },
    /// The list of revoked certificates cannot be read, so a new one might be revoked already.
    #[error(transparent)]
    Revocations(#[from] RevocationsError),
    /// The authority, or its key, is not in the folder.
    #[error(
        "{path}: is not here, so nothing can be issued here: issue where the authority is (`iop certs issue`), and copy the new file from there"
    )]
    Elsewhere {
        /// The file that is missing.
        path: PathBuf,
    },
    /// The authority in the folder is another deployment's.
    #[error(
        "the authority in {dir} is of deployment `{found}`, the certificate to be renewed of `{expected}`"
    )]
    OtherDeployment {
        /// The folder.
        dir: PathBuf,
        /// The authority's.
        found: String,
        /// The certificate's.
        expected: String,
    },
    /// Whoever trusts the certificate as it is would not trust a new one.
    #[error(
        "a certificate issued by the authority in {dir} leads to no root that is trusted now, so nothing was written: if that is meant, issue all certificates anew with `iop certs issue`"
    )]
    OtherRoot {
        /// The folder.
        dir: PathBuf,
    },
    /// The node's request cannot be used.
    #[error("the request for a certificate is refused: {problem}")]
    Request {
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate to be renewed is revoked.
    #[error("the certificate of node {node} with serial number {serial} is revoked, so it is not renewed")]
    Revoked {
        /// The node.
        node: NodeId,
        /// The certificate.
        serial: String,
    },
    /// A new certificate would not be good for longer.
    #[error(
        "a new certificate would end at {} and the one in use ends at {}; no certificate outlives the issuing CA, which ends at {}",
        Utc(*.new),
        Utc(*.old),
        Utc(*.authority)
    )]
    NothingGained {
        /// Last good second of a new one, since 1970.
        new: i64,
        /// The same of the one in use.
        old: i64,
        /// The same of the issuing CA.
        authority: i64,
    },
    /// A file of the authority cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The new certificate would not load: the authority's files do not fit together. Nothing was written.
    #[error(
        "the new certificate would be refused ({reason}), so nothing was written: do root.pem and issuing.pem in this folder belong together?"
    )]
    Unusable {
        /// Why it would be refused.
        reason: LoadError,
    },
    /// Making a key or a certificate failed.
    #[error("cannot make {what}: {reason}")]
    Make {
        /// What was being made.
        what: &'static str,
        /// What the library said.
        reason: rcgen::Error,
    },
    /// The system gives no random bytes.
    #[error("cannot make a serial number: the system gives no random bytes")]
    Random,
    /// Files could not be put in place.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Authority {
    /// Loads the authority in `dir` from root.pem, issuing.pem and issuing.key.
    pub fn load(dir: &Path) -> Result<Self, AuthorityError> {
        let roots = load::read_certificates(&dir.join(ROOT_CERTIFICATE))?;
        let path = dir.join(ISSUING_CERTIFICATE);
        let issuing = load::read_certificates(&path)?.swap_remove(0);
        let parsed =
            certificate::parse(&issuing).map_err(|what| LoadError::Malformed { path: path.clone(), what })?;
        let deployment = deployment_of_authority(&parsed)
            .map_err(|reason| LoadError::BadIdentity { path: path.clone(), reason })?;
        let key = issuing_key(&dir.join(ISSUING_KEY), parsed.public_key().raw)?;
        let valid = Validity::of(&parsed);
        let issuer = Issuer::from_ca_cert_der(&issuing, key)
            .map_err(|error| LoadError::Malformed { path, what: error.to_string() })?;
        Ok(Self { dir: dir.to_owned(), deployment, roots, issuing, valid, issuer })
    }

    /// The deployment's name.
    pub fn edge_name(&self) -> &str {
        self.deployment.as_str()
    }
}

/// Shows what the authority is, not its key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("dir", &self.dir)
            .field("edge_name", &self.edge_name())
            .field("valid", &self.valid)
            .field("roots", &self.roots.len())
            .finish_non_exhaustive()
    }
}

fn issuing_key(path: &Path, public_key: &[u8]) -> Result<KeyPair, LoadError> {
    let key = load::only_key(path, load::read_private(path)?.keys)?;
    let pair = KeyPair::try_from(&key).map_err(|error| LoadError::Malformed {
        path: path.to_owned(),
        what: format!("its private key: {error}"),
    })?;
    if pair.subject_public_key_info() != public_key {
        return Err(LoadError::KeyMismatch { path: path.to_owned() });
    }
    Ok(pair)
}
