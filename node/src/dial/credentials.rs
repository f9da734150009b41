//! The node's certificate, read afresh for every dial, so that a new one is used without a restart. Whether it has changed
//! is not watched here. A renewed one takes its place here too; when, and how it came about, is `session`'s business.

use crate::diagnosis::Problem;
use iop_certs::{Identity, LoadError, RenewedBundle, Role};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// An identity, still to come.
pub type LoadingIdentity<'a> = Pin<Box<dyn Future<Output = Result<Identity, LoadError>> + Send + 'a>>;

/// A replacement, still to come, and why there was none, for people.
pub type ReplacingIdentity<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Where the node's certificate comes from, again and again.
pub trait IdentitySource: Send + Sync {
    /// What is there now, checked.
    fn load(&self) -> LoadingIdentity<'_>;

    /// Puts a renewed one in the place of `old`, and of no other.
    fn replace(&self, old: Identity, renewed: RenewedBundle) -> ReplacingIdentity<'_>;
}

/// A bundle as `iop certs` makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFile(pub PathBuf);

impl IdentitySource for BundleFile {
    fn load(&self) -> LoadingIdentity<'_> {
        let path = self.0.clone();
        let load = move || iop_certs::load_bundle(&path, Role::Node);
        Box::pin(async { tokio::task::spawn_blocking(load).await.expect("reading a bundle does not panic") })
    }

    fn replace(&self, old: Identity, renewed: RenewedBundle) -> ReplacingIdentity<'_> {
        let path = self.0.clone();
        let replace =
            move || renewed.replace(&path, &old, iop_certs::now()).map_err(|error| error.to_string());
        Box::pin(async {
            tokio::task::spawn_blocking(replace).await.expect("replacing a bundle does not panic")
        })
    }
}

/// The source, and what it held when it last worked.
pub(crate) struct Identities {
    source: Arc<dyn IdentitySource>,
    good: Option<Identity>,
    /// What was last said about it, so that it is said once.
    said: Option<String>,
}

impl Identities {
    pub(crate) fn new(source: Arc<dyn IdentitySource>) -> Self {
        Self { source, good: None, said: None }
    }

    /// Reads the certificate. One that has worked before and does not load now is used as it was, and that is said.
    pub(crate) async fn load(&mut self) -> Result<Identity, Problem> {
        match self.source.load().await {
            Ok(identity) => {
                self.said = None;
                self.good = Some(identity.clone());
                Ok(identity)
            }
            // Time is up for the old one too.
            Err(error @ LoadError::Expired { .. }) => Err(Problem::OwnCertificate(error.to_string())),
            Err(error) => match (self.good.clone(), error) {
                (Some(good), error) => {
                    self.keep(error.to_string());
                    Ok(good)
                }
                (None, LoadError::NotYetValid { .. }) => Err(Problem::OwnCertificateEarly),
                (None, error) => Err(Problem::OwnCertificate(error.to_string())),
            },
        }
    }

    fn keep(&mut self, reason: String) {
        if self.said.as_ref() != Some(&reason) {
            tracing::warn!(
                reason,
                "the certificate file does not load any more; the one read before stays in use"
            );
            self.said = Some(reason);
        }
    }
}
