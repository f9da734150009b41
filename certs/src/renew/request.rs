//! The node's side of its renewal: a new key that stays here, the request that travels, and the answer, which is checked before
//! it takes the place of anything.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use crate::authority::AuthorityError;
use crate::bundle::{self, Contents};
use crate::identity::Role;
use crate::issue::{make_error, new_key};
use crate::load::{self, Identity, LoadError};
use crate::show::Utc;
use crate::store::{self, StoreError};

/// Most certificates of an answer, and most bytes of them all: a file with them must still load.
const MAX_CERTIFICATES: usize = 8;
const MAX_CHAIN_BYTES: usize = 64 << 10;

/// Why a renewed certificate was not put in place. The one in use stays.
#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    /// The answer is no chain of a size that can be.
    #[error("the edge's answer holds {certificates} certificates of {bytes} bytes together")]
    Size {
        /// How many certificates there are.
        certificates: usize,
        /// How many bytes they take.
        bytes: usize,
    },
    /// The answer would not load as the node's bundle.
    #[error(transparent)]
    Unusable(#[from] LoadError),
    /// The answer is a good bundle, of another node or deployment.
    #[error("the edge's answer is a certificate of {found}, not of {expected}")]
    OtherIdentity {
        /// Whom it names.
        found: String,
        /// Who asked.
        expected: String,
    },
    /// The answer would have the node trust roots that it does not trust now.
    #[error("the edge's answer holds a root certificate, and whom to trust is not the edge's to say")]
    Root,
    /// The new certificate would not be good for longer than the one in use.
    #[error("the edge's answer is good until {}, no longer than the certificate in use", Utc(*.not_after))]
    NotLonger {
        /// Last good second, since 1970.
        not_after: i64,
    },
    /// The file does not hold the certificate any more that was to be renewed.
    #[error("{path}: has changed since the renewal began, so it is left as it is")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be found again.
    #[error("{path}: cannot be replaced: {reason}")]
    Lost {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The file could not be replaced.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A new key with the request for its certificate. `Debug` does not show the key.
pub struct RenewalRequest {
    key: KeyPair,
    csr: Vec<u8>,
}

impl RenewalRequest {
    /// Makes a new key.
    pub fn new() -> Result<Self, AuthorityError> {
        let key = new_key()?;
        let mut params = CertificateParams::default();
        // The edge knows who asks.
        params.distinguished_name = DistinguishedName::new();
        let csr = params.serialize_request(&key).map_err(|reason| make_error("a request", reason))?;
        Ok(Self { key, csr: csr.der().to_vec() })
    }

    /// The request as it travels: PKCS#10 in DER.
    pub fn csr(&self) -> &[u8] {
        &self.csr
    }

    /// What the edge's answer makes of the bundle in use, if the answer is one to this request: for its key, of the same node,
    /// and leading to a root that is trusted already. `now` is in seconds since 1970.
    pub fn complete(
        self,
        old: &Identity,
        chain: &[CertificateDer<'static>],
        now: i64,
    ) -> Result<RenewedBundle, RenewalError> {
        let bytes = chain.iter().map(|certificate| certificate.len()).sum();
        if chain.len() > MAX_CERTIFICATES || bytes > MAX_CHAIN_BYTES {
            return Err(RenewalError::Size { certificates: chain.len(), bytes });
        }
        let text = bundle::with_key(self.key.serialized_der(), chain.iter().chain(&old.roots));
        let answer = Path::new("the edge's answer");
        let contents = Contents::parse(text.as_bytes())
            .map_err(|what| LoadError::Malformed { path: answer.to_owned(), what: what.to_owned() })?;
        let identity = load::check(answer, contents, Role::Node, now)?;
        if identity.roots != old.roots {
            return Err(RenewalError::Root);
        }
        if identity.node != old.node || identity.deployment != old.deployment {
            return Err(RenewalError::OtherIdentity { found: name(&identity), expected: name(old) });
        }
        if identity.not_after <= old.not_after {
            return Err(RenewalError::NotLonger { not_after: identity.not_after });
        }
        Ok(RenewedBundle { text, identity })
    }
}

impl fmt::Debug for RenewalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewalRequest").field("csr", &self.csr.len()).finish_non_exhaustive()
    }
}

/// A bundle that was renewed and is not in place yet. `Debug` does not show the key.
pub struct RenewedBundle {
    text: Zeroizing<String>,
    identity: Identity,
}

impl RenewedBundle {
    /// What the bundle holds.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Puts it in the place of the file that holds `old`, and of no other. Blocks on the disk. `now` is in seconds since 1970.
    pub fn replace(&self, path: &Path, old: &Identity, now: i64) -> Result<(), RenewalError> {
        // Where the path is a link, what it leads to is replaced.
        let file =
            fs::canonicalize(path).map_err(|reason| RenewalError::Lost { path: path.to_owned(), reason })?;
        let holds_old = load::load_bundle_at(&file, Role::Node, now).is_ok_and(|found| found == *old);
        if !holds_old {
            return Err(RenewalError::Changed { path: file });
        }
        store::replace(&file, &self.text)?;
        Ok(())
    }
}

impl fmt::Debug for RenewedBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewedBundle").field("identity", &self.identity).finish_non_exhaustive()
    }
}

fn name(identity: &Identity) -> String {
    let node = identity.node.as_ref().map_or("the edge".to_owned(), |node| format!("node `{node}`"));
    format!("{node} of `{}`", identity.deployment)
}
