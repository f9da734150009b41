//! Why a certificate file is not used. Each message says which file, what is wrong, and what to do.

use std::io;
use std::path::PathBuf;

use crate::identity::{IdentityError, Role};
use crate::show::{Utc, quoted};

/// Why a file did not load. None of them mends itself: somebody has to change a file or a clock.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such file.
    #[error(
        "{path}: no such file: correct the path, or make it with `iop certs init` (authority and edge) or `iop certs issue` (node)"
    )]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// It is there and cannot be read.
    #[error("{path}: cannot be read: {reason}: it must be a file which the user running iop may read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// It holds a private key, and others than its owner have access to it.
    #[error("{path}: holds a private key and is open to other users (mode {mode:04o}): run `chmod 600 {}`", quoted(.path))]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is too large to be a certificate file.
    #[error("{path}: is larger than {limit_bytes} bytes, so it is no certificate file: correct the path")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size that is read.
        limit_bytes: u64,
    },
    /// It is damaged.
    #[error("{path}: is damaged: {what}: issue it again or restore it from a copy")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which part, and how.
        what: String,
    },
    /// It holds no private key.
    #[error("{path}: holds no private key: use the whole file that iop wrote, not only its certificates")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// It holds more than one private key.
    #[error("{path}: holds {count} private keys, exactly one is needed: use the file as iop wrote it")]
    SeveralKeys {
        /// The file.
        path: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// It holds no certificate of the kind that is needed.
    #[error(
        "{path}: the certificate that belongs in this file is not there: use the whole file that iop wrote, not only its key"
    )]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Key and certificate are of different pairs.
    #[error(
        "{path}: the private key does not belong to the certificate: use the file as iop wrote it, or issue it again"
    )]
    KeyMismatch {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is for the other side, or for neither.
    #[error(
        "{path}: the {wanted} needs a certificate for {} alone, this one is for {found}: the edge uses edge.pem, a node uses the file that `iop certs issue` wrote for it",
        .wanted.usage()
    )]
    WrongRole {
        /// The file.
        path: PathBuf,
        /// The role that was asked for.
        wanted: Role,
        /// What the certificate is for.
        found: String,
    },
    /// The names in the certificate are not those of an edge or a node.
    #[error("{path}: {reason}: use a file that iop issued")]
    BadIdentity {
        /// The file.
        path: PathBuf,
        /// What is wrong with the names.
        reason: IdentityError,
    },
    /// The certificate, or its issuing CA's, has expired.
    #[error(
        "{path}: the certificate expired at {} and the clock says {}: is the clock right? If it is, issue a new certificate",
        Utc(*.not_after),
        Utc(*.now)
    )]
    Expired {
        /// The file.
        path: PathBuf,
        /// Last good second, in seconds since 1970.
        not_after: i64,
        /// The time it was checked at.
        now: i64,
    },
    /// The certificate, or its issuing CA's, is not valid yet.
    #[error(
        "{path}: the certificate is valid from {} and the clock says {}: is the clock right, here and where it was issued?",
        Utc(*.not_before),
        Utc(*.now)
    )]
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// First good second, in seconds since 1970.
        not_before: i64,
        /// The time it was checked at.
        now: i64,
    },
    /// The certificates in the file do not hang together.
    #[error("{path}: {reason}: use the file as iop wrote it, or issue it again")]
    BadChain {
        /// The file.
        path: PathBuf,
        /// What is missing or does not verify.
        reason: String,
    },
}

impl LoadError {
    /// Whether both say the same, at whatever time each was found.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Expired { path, not_after, now: _ },
                Self::Expired { path: other, not_after: other_end, now: _ },
            ) => path == other && not_after == other_end,
            (
                Self::NotYetValid { path, not_before, now: _ },
                Self::NotYetValid { path: other, not_before: other_begin, now: _ },
            ) => path == other && not_before == other_begin,
            _ => self.to_string() == other.to_string(),
        }
    }
}
