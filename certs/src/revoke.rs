//! Revoking: adds to the list of revoked certificates in the folder of an authority or an edge. What the list means is in
//! `revocations`. No key is needed.

use std::path::{Path, PathBuf};

use crate::authority::{EDGE_BUNDLE, ROOT_CERTIFICATE};
use crate::certificate;
use crate::identity::{self, IdentityError, PeerNode};
use crate::load::{self, LoadError};
use crate::node_id::NodeId;
use crate::revocations::{self, Entry, MAX_BYTES, REVOKED_FILE, Revocations, RevocationsError};
use crate::serial::{Serial, SerialError};
use crate::show::Utc;
use crate::store::{self, StoreError};

/// What a new list begins with.
const HEAD: &str = "\
# Certificates that the edge refuses, one entry a line; `iop certs revoke` adds them. A running edge takes changes over.
# node ID until TIME: every certificate of that node that was issued up to that second
# serial HEX: the one certificate with this number
# An entry that is taken out lets its certificates in again.
";

/// What a revocation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeReport {
    /// The list.
    pub path: PathBuf,
    /// The lines that were added; none where the list said all of it already.
    pub added: Vec<String>,
    /// The node, where it is known.
    pub node: Option<NodeId>,
}

/// Why nothing was revoked. The list is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// Nothing of an authority or an edge is in the folder, so no edge would read a list there.
    #[error(
        "{dir}: neither {ROOT_CERTIFICATE} nor {EDGE_BUNDLE} is in this folder: name the edge's folder of certificates"
    )]
    OtherFolder {
        /// The folder.
        dir: PathBuf,
    },
    /// The list as it is cannot be added to.
    #[error(transparent)]
    List(#[from] RevocationsError),
    /// The bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] LoadError),
    /// The bundle has no certificate of a node, or several.
    #[error(
        "{path}: holds {count} certificates of nodes, exactly one is needed: name the file that `iop certs issue` wrote for the node"
    )]
    NotOneNode {
        /// The file.
        path: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// The bundle's certificate names no node.
    #[error("{path}: {reason}")]
    BadIdentity {
        /// The file.
        path: PathBuf,
        /// What is wrong with its names.
        reason: IdentityError,
    },
    /// The bundle's certificate has no number to revoke it by.
    #[error("{path}: {reason}")]
    Serial {
        /// The file.
        path: PathBuf,
        /// What is wrong with its number.
        reason: SerialError,
    },
    /// The list could not be put in place.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Revokes every certificate that was issued to the node up to `now`, in seconds since 1970. What is issued afterwards in
/// this folder is good, from the same second on.
pub fn revoke_node(dir: &Path, node: &NodeId, now: i64) -> Result<RevokeReport, RevokeError> {
    // Issued while the clock was ahead, the newest certificate would be taken for one of a later time.
    let newest = node_in(&dir.join(format!("{node}.pem"))).ok().filter(|newest| newest.node_id == *node);
    add(dir, now, Some(node.clone()), |list| {
        // A time once written is never written again, so that what was issued since then is revoked even if the clock
        // has not moved on, or has been set back.
        let until = list.until(node).map_or(now, |until| now.max(until.saturating_add(1)));
        let entry = Entry::Node(node.clone(), until);
        let ahead =
            newest.filter(|newest| newest.issued() > until).and_then(|newest| newest.serial.parse().ok());
        std::iter::once(entry).chain(ahead.map(Entry::Serial)).collect()
    })
}

/// Revokes the one certificate with this number. `now` is for the people who read the list.
pub fn revoke_serial(dir: &Path, serial: Serial, now: i64) -> Result<RevokeReport, RevokeError> {
    add(dir, now, None, |_list| vec![Entry::Serial(serial)])
}

/// Revokes the one certificate of the node in a bundle. `now` is for the people who read the list.
pub fn revoke_bundle(dir: &Path, bundle: &Path, now: i64) -> Result<RevokeReport, RevokeError> {
    let PeerNode { node_id, serial, .. } = node_in(bundle)?;
    let serial = serial.parse().map_err(|reason| RevokeError::Serial { path: bundle.to_owned(), reason })?;
    add(dir, now, Some(node_id), |_list| vec![Entry::Serial(serial)])
}

/// Adds entries to the list as it is. Who revokes at the same time waits.
fn add(
    dir: &Path,
    now: i64,
    node: Option<NodeId>,
    entries: impl FnOnce(&Revocations) -> Vec<Entry>,
) -> Result<RevokeReport, RevokeError> {
    if ![ROOT_CERTIFICATE, EDGE_BUNDLE].iter().any(|name| dir.join(name).exists()) {
        return Err(RevokeError::OtherFolder { dir: dir.to_owned() });
    }
    let path = dir.join(REVOKED_FILE);
    let _lock = store::lock(&path)?;
    let bytes = Revocations::read(dir)?;
    let list = Revocations::parse(dir, bytes.as_deref().unwrap_or_default())?;
    let mut text =
        bytes.map_or_else(|| HEAD.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut added = Vec::new();
    for entry in entries(&list) {
        match &entry {
            Entry::Serial(serial) if list.has_serial(serial) => continue,
            Entry::Serial(_) => {}
            // One entry says it all.
            Entry::Node(node, _) => text = without_node(&text, node),
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let line = entry.line();
        text.push_str(&line);
        text.push_str(&remark(&entry, node.as_ref(), now));
        text.push('\n');
        added.push(line);
    }
    if text.len() as u64 > MAX_BYTES {
        return Err(RevocationsError::TooLarge { path }.into());
    }
    if !added.is_empty() {
        // What the edge could not read would revoke nobody.
        Revocations::parse(dir, text.as_bytes())?;
        store::replace(&path, &text)?;
    }
    Ok(RevokeReport { path, added, node })
}

/// What a line says to people besides: a number alone tells them nothing.
fn remark(entry: &Entry, node: Option<&NodeId>, now: i64) -> String {
    match (entry, node) {
        (Entry::Node(..), _) => String::new(),
        (Entry::Serial(_), Some(node)) => format!(" # of node {node}, revoked {}", Utc(now)),
        (Entry::Serial(_), None) => format!(" # revoked {}", Utc(now)),
    }
}

fn without_node(text: &str, node: &NodeId) -> String {
    let is_of_node = |line: &&str| matches!(revocations::entry(line.trim_end_matches('\n')), Ok(Some(Entry::Node(found, _))) if found == *node);
    text.split_inclusive('\n').filter(|line| !is_of_node(line)).collect()
}

/// The node in a bundle, whether or not its certificate would still be accepted.
fn node_in(path: &Path) -> Result<PeerNode, RevokeError> {
    let certificates = load::read_certificates(path)?;
    let is_node = |der: &&rustls::pki_types::CertificateDer<'_>| {
        certificate::parse(der)
            .is_ok_and(|parsed| !parsed.is_ca() && certificate::role(&parsed) == Ok(identity::Role::Node))
    };
    let found: Vec<_> = certificates.iter().filter(is_node).collect();
    let [leaf] = found[..] else {
        return Err(RevokeError::NotOneNode { path: path.to_owned(), count: found.len() });
    };
    identity::node_of(leaf).map_err(|reason| RevokeError::BadIdentity { path: path.to_owned(), reason })
}
