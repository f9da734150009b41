//! Loading what a process needs to take part: its key, its chain and the roots it trusts, checked so that whatever
//! loads also works. It does not watch files.

pub(crate) mod chain;
mod error;
mod file;

use std::fmt;
use std::path::Path;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::bundle::Contents;
use crate::certificate::{self, Validity};
use crate::clock;
use crate::identity::{self, Role};
use crate::node_id::NodeId;

pub use error::LoadError;

pub(crate) use file::{read_certificates, read_private};

/// A process's own identity, ready for rustls. `Debug` does not show the key.
#[derive(PartialEq, Eq)]
pub struct Identity {
    /// The leaf, then the issuing CA: what goes to the peer.
    pub chain: Vec<CertificateDer<'static>>,
    /// The leaf's private key.
    pub key: PrivateKeyDer<'static>,
    /// The roots by which peers are verified.
    pub roots: Vec<CertificateDer<'static>>,
    /// The deployment's name. A node expects its edge under this server name.
    pub deployment: String,
    /// Which node this is; none is the edge.
    pub node: Option<NodeId>,
    /// First second at which the leaf is good, in seconds since 1970.
    pub not_before: i64,
    /// Last second at which the leaf is good, in seconds since 1970.
    pub not_after: i64,
    /// The leaf's serial number, in lower-case hexadecimal without leading zero bytes.
    pub serial: String,
}

impl Identity {
    /// Which of the two kinds of leaf this is.
    pub fn role(&self) -> Role {
        if self.node.is_some() { Role::Node } else { Role::Edge }
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
            roots: self.roots.clone(),
            deployment: self.deployment.clone(),
            node: self.node.clone(),
            not_before: self.not_before,
            not_after: self.not_after,
            serial: self.serial.clone(),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("role", &self.role())
            .field("deployment", &self.deployment)
            .field("node", &self.node)
            .field("serial", &self.serial)
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .field("chain", &self.chain.len())
            .field("roots", &self.roots.len())
            .finish_non_exhaustive()
    }
}

/// Loads the bundle of an edge or a node and checks it by this machine's clock.
pub fn load_bundle(path: &Path, role: Role) -> Result<Identity, LoadError> {
    load_bundle_at(path, role, clock::now())
}

/// Loads the bundle of an edge or a node and checks it at `now`, in seconds since 1970.
pub fn load_bundle_at(path: &Path, role: Role, now: i64) -> Result<Identity, LoadError> {
    check(path, read_private(path)?, role, now)
}

/// The checks, from the inside out: key, leaf, that they match, role, name, times, chain. `path` is for messages.
pub(crate) fn check(path: &Path, contents: Contents, role: Role, now: i64) -> Result<Identity, LoadError> {
    let key = only_key(path, contents.keys)?;
    let Sorted { leaf, intermediates, roots } = Sorted::of(path, contents.certificates)?;
    check_key(path, &leaf, &key)?;

    let parsed = parse(path, &leaf)?;
    match certificate::role(&parsed) {
        Ok(found) if found == role => {}
        Ok(other) => return Err(wrong_role(path, role, other.usage())),
        Err(uses) => return Err(wrong_role(path, role, &uses)),
    }
    let (deployment, node) = identity::named_in(&parsed, role)
        .map_err(|reason| LoadError::BadIdentity { path: path.to_owned(), reason })?;

    let Validity { not_before, not_after } = check_times(path, &leaf, now)?;
    for intermediate in &intermediates {
        check_times(path, intermediate, now)?;
    }
    chain::verify(&leaf, &intermediates, &roots, role, &deployment, now)
        .map_err(|reason| LoadError::BadChain { path: path.to_owned(), reason })?;

    let serial = certificate::serial(&parsed);
    let deployment = deployment.as_str().to_owned();
    let chain = std::iter::once(leaf.clone()).chain(intermediates).collect();
    Ok(Identity { chain, key, roots, deployment, node, not_before, not_after, serial })
}

/// The one key of a file.
pub(crate) fn only_key(
    path: &Path,
    mut keys: Vec<PrivateKeyDer<'static>>,
) -> Result<PrivateKeyDer<'static>, LoadError> {
    match (keys.pop(), keys.len()) {
        (Some(key), 0) => Ok(key),
        (None, _) => Err(LoadError::NoKey { path: path.to_owned() }),
        (Some(_), others) => Err(LoadError::SeveralKeys { path: path.to_owned(), count: others + 1 }),
    }
}

/// A file's certificates by what they are, whatever their order in the file.
struct Sorted {
    leaf: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    roots: Vec<CertificateDer<'static>>,
}

impl Sorted {
    fn of(path: &Path, certificates: Vec<CertificateDer<'static>>) -> Result<Self, LoadError> {
        let (mut leaves, mut intermediates, mut roots) = (Vec::new(), Vec::new(), Vec::new());
        for certificate in certificates {
            let parsed = parse(path, &certificate)?;
            let (root, authority) = (certificate::is_root(&parsed), parsed.is_ca());
            match (root, authority) {
                (true, _) => roots.push(certificate),
                (false, true) => intermediates.push(certificate),
                (false, false) => leaves.push(certificate),
            }
        }
        let chain_error = |reason: String| LoadError::BadChain { path: path.to_owned(), reason };
        let Some(leaf) = leaves.pop() else {
            return Err(LoadError::NoCertificate { path: path.to_owned() });
        };
        if !leaves.is_empty() {
            return Err(chain_error(format!(
                "it holds {} leaf certificates, exactly one is needed",
                leaves.len() + 1
            )));
        }
        if roots.is_empty() {
            return Err(chain_error("it holds no root certificate".to_owned()));
        }
        Ok(Self { leaf, intermediates, roots })
    }
}

fn check_key(
    path: &Path,
    leaf: &CertificateDer<'static>,
    key: &PrivateKeyDer<'static>,
) -> Result<(), LoadError> {
    let malformed = |what: String| LoadError::Malformed { path: path.to_owned(), what };
    let signer = any_supported_type(key).map_err(|error| malformed(format!("its private key: {error}")))?;
    match CertifiedKey::new(vec![leaf.clone()], signer).keys_match() {
        Ok(()) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(LoadError::KeyMismatch { path: path.to_owned() }),
        Err(error) => Err(malformed(format!("its leaf certificate: {error}"))),
    }
}

fn check_times(path: &Path, certificate: &CertificateDer<'_>, now: i64) -> Result<Validity, LoadError> {
    let validity = Validity::of(&parse(path, certificate)?);
    let Validity { not_before, not_after } = validity;
    if now > not_after {
        return Err(LoadError::Expired { path: path.to_owned(), not_after, now });
    }
    if now < not_before {
        return Err(LoadError::NotYetValid { path: path.to_owned(), not_before, now });
    }
    Ok(validity)
}

fn parse<'a>(
    path: &Path,
    der: &'a CertificateDer<'_>,
) -> Result<x509_parser::prelude::X509Certificate<'a>, LoadError> {
    certificate::parse(der).map_err(|reason| LoadError::Malformed {
        path: path.to_owned(),
        what: format!("a certificate in it: {reason}"),
    })
}

fn wrong_role(path: &Path, wanted: Role, found: &str) -> LoadError {
    LoadError::WrongRole { path: path.to_owned(), wanted, found: found.to_owned() }
}
