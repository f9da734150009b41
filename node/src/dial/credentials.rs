//! The node's certificate file, read afresh for every dial, so that a new one is used without a restart. Whether it has
//! changed is not watched here.

use crate::diagnosis::Problem;
use iop_certs::{Identity, LoadError, Role};
use std::path::PathBuf;

/// The file, and what it held when it last worked.
#[derive(Debug)]
pub(crate) struct CredentialFile {
    path: PathBuf,
    good: Option<Identity>,
    /// What was last said about the file, so that it is said once.
    said: Option<String>,
}

impl CredentialFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, good: None, said: None }
    }

    /// Reads the file. One that has worked before and does not load now is used as it was, and that is said.
    pub(crate) async fn load(&mut self) -> Result<Identity, Problem> {
        let path = self.path.clone();
        let loaded = tokio::task::spawn_blocking(move || iop_certs::load_bundle(&path, Role::Node)).await;
        match loaded.map_err(|failed| Problem::OwnCertificate(format!("reading it failed: {failed}")))? {
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
