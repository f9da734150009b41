//! The list of revoked certificates: its text, and whom it revokes. Adding to it is in `revoke`; refusing a peer is the
//! edge's.
//!
//! A plain file, so that a person can read it and no key is needed to write it: nobody but the edge relies on it, and it
//! lies beside the edge's own key. One entry a line; what follows a `#` is for people.
//!
//! | line | revokes |
//! | --- | --- |
//! | `node ID until TIME` | every certificate of the node that was issued up to that second |
//! | `serial HEX` | the one certificate with this number |

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::identity::PeerNode;
use crate::node_id::NodeId;
use crate::serial::Serial;
use crate::show::{Utc, foreign, utc};

/// The list, in the folder of certificates.
pub const REVOKED_FILE: &str = "revoked";

/// Largest list, in bytes: some 20000 entries.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// What a list says. The default revokes nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revocations {
    /// Last second of issue that is revoked, since 1970.
    nodes: BTreeMap<NodeId, i64>,
    serials: BTreeSet<Serial>,
}

/// Why there is no list to go by. Always local.
#[derive(Debug, thiserror::Error)]
pub enum RevocationsError {
    /// It is there and cannot be read.
    #[error("{path}: cannot be read: {reason}: it must be a file which the user running iop may read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// It is larger than any list may be.
    #[error(
        "{path}: a list of revoked certificates has at most {MAX_BYTES} bytes: take out lines whose certificates have expired"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A line is no entry.
    #[error("{path}: line {line}: {problem}: correct the line; `iop certs revoke` writes good ones")]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Node(NodeId, i64),
    Serial(Serial),
}

impl Revocations {
    /// Reads the list in the folder of certificates. `None`: there is none. Blocks on the disk.
    pub fn load(dir: &Path) -> Result<Option<Self>, RevocationsError> {
        Self::read(dir)?.map(|bytes| Self::parse(dir, &bytes)).transpose()
    }

    /// What stands in the list's file. `None`: there is no such file.
    pub(crate) fn read(dir: &Path) -> Result<Option<Vec<u8>>, RevocationsError> {
        let path = dir.join(REVOKED_FILE);
        match read(&path) {
            Ok(bytes) if bytes.len() as u64 > MAX_BYTES => Err(RevocationsError::TooLarge { path }),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(reason) => Err(RevocationsError::Unreadable { path, reason }),
        }
    }

    /// What these bytes, read from the list in `dir`, say. One bad line makes the whole list bad: it may be the one that
    /// matters.
    pub fn parse(dir: &Path, bytes: &[u8]) -> Result<Self, RevocationsError> {
        let mut revocations = Self::default();
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let entry = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned()).and_then(entry);
            let entry = entry.map_err(|problem| RevocationsError::Line {
                path: dir.join(REVOKED_FILE),
                line: number + 1,
                problem,
            })?;
            match entry {
                Some(Entry::Node(node, until)) => {
                    let known = revocations.nodes.entry(node).or_insert(until);
                    *known = until.max(*known);
                }
                Some(Entry::Serial(serial)) => {
                    revocations.serials.insert(serial);
                }
                None => {}
            }
        }
        Ok(revocations)
    }

    /// Whether the certificate that a peer has shown is revoked.
    pub fn revokes(&self, peer: &PeerNode) -> bool {
        self.until(&peer.node_id).is_some_and(|until| peer.issued() <= until)
            || self.serials.contains(&*peer.serial)
    }

    /// Up to which second of issue a node's certificates are revoked.
    pub(crate) fn until(&self, node: &NodeId) -> Option<i64> {
        self.nodes.get(node).copied()
    }

    pub(crate) fn has_serial(&self, serial: &Serial) -> bool {
        self.serials.contains(serial)
    }

    /// Number of nodes of which every certificate up to a time is revoked.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Number of certificates that are revoked one by one.
    pub fn serials(&self) -> usize {
        self.serials.len()
    }
}

/// The entry on a line; `None` where nothing stands before the comment.
pub(crate) fn entry(line: &str) -> Result<Option<Entry>, String> {
    let text = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        ["node", id, "until", time] => {
            let node = id.parse().map_err(|error| format!("\"{}\": {error}", foreign(id)))?;
            let until = utc(time)
                .ok_or_else(|| format!("\"{}\" is no time such as 2026-12-01T14:20:43Z", foreign(time)))?;
            Ok(Some(Entry::Node(node, until)))
        }
        ["serial", serial] => {
            let serial = serial.parse().map_err(|error: crate::SerialError| error.to_string())?;
            Ok(Some(Entry::Serial(serial)))
        }
        _ => Err(format!("\"{}\" is neither `node ID until TIME` nor `serial HEX`", foreign(text.trim()))),
    }
}

impl Entry {
    /// The line that says so.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Node(node, until) => format!("node {node} until {}", Utc(*until)),
            Self::Serial(serial) => format!("serial {serial}"),
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Asked before opening, because opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
