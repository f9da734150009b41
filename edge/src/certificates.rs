//! The certificates that a running edge works with, and where they come from. What stands in a file is `iop-certs`' business;
//! which nodes are let in by them is `session`'s.

mod issuing;
mod looks;
mod own;
mod renewal;

pub(crate) use issuing::Issuing;
pub(crate) use looks::watch;
pub(crate) use own::{Own, OwnState};

use bytes::Bytes;
use iop_certs::{AuthorityError, Identity, IssueReport, LoadError, PeerNode, Revocations, Role};
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// The edge's own certificate in the folder of certificates.
pub const BUNDLE: &str = "edge.pem";

/// What is found there, still to come.
pub type Looking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The edge's own certificate, or why it cannot be used.
pub type OwnLook = Result<Identity, LoadError>;

/// The list of revoked certificates, `None` where there is none, or why it cannot be used.
pub type RevokedLook = Result<Option<Revocations>, String>;

/// A new certificate that was put in the place of another one, or why none was.
pub type Renewed = Result<IssueReport, AuthorityError>;

/// A node's new certificate and what leads from it to a root, or why there is none.
pub type Issued = Result<Vec<CertificateDer<'static>>, AuthorityError>;

/// What is asked for a node.
#[derive(Debug, Clone)]
pub struct NodeRequest {
    /// What the node's certificate in use says. Nothing else says who it is.
    pub peer: PeerNode,
    /// A request for a certificate as the node sent it.
    pub csr: Bytes,
}

/// Where certificates come from, again and again.
pub trait Certificates: fmt::Debug + Send + Sync {
    /// The edge's own as it is now.
    fn own(&self) -> Looking<'_, OwnLook>;

    /// Puts a new one in its place, for who trusts `in_force`.
    fn renew_own(&self, in_force: Identity) -> Looking<'_, Renewed>;

    /// Issues a new one to a node, for who trusts `in_force`.
    fn renew_node(&self, in_force: Identity, request: NodeRequest) -> Looking<'_, Issued>;

    /// The list of revoked ones as it is now.
    fn revoked(&self) -> Looking<'_, RevokedLook>;
}

/// A folder as `iop certs init` makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFolder(pub PathBuf);

impl Certificates for CertificateFolder {
    fn own(&self) -> Looking<'_, OwnLook> {
        let path = self.0.join(BUNDLE);
        aside(move || iop_certs::load_bundle(&path, Role::Edge))
    }

    fn renew_own(&self, in_force: Identity) -> Looking<'_, Renewed> {
        let dir = self.0.clone();
        aside(move || iop_certs::renew_edge(&dir, &in_force, iop_certs::now()))
    }

    fn renew_node(&self, in_force: Identity, request: NodeRequest) -> Looking<'_, Issued> {
        let dir = self.0.clone();
        let work = move || {
            let NodeRequest { peer, csr } = request;
            iop_certs::renew_node(&dir, &in_force, &peer, &csr, iop_certs::now())
        };
        Box::pin(async {
            // What a node has sent is read there, and must not take more with it than its own request.
            tokio::task::spawn_blocking(work).await.unwrap_or_else(|_panicked| {
                Err(AuthorityError::Request { problem: "it cannot be read".to_owned() })
            })
        })
    }

    fn revoked(&self) -> Looking<'_, RevokedLook> {
        let dir = self.0.clone();
        aside(move || Revocations::load(&dir).map_err(|error| error.to_string()))
    }
}

/// Does work with files where nothing waits for it.
fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Looking<'static, T> {
    Box::pin(async {
        tokio::task::spawn_blocking(work).await.expect("work with our own files does not panic")
    })
}
