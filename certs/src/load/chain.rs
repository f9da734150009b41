//! Whether a leaf leads to one of the given roots, asked of the very verifiers that peers will use.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;

use crate::deployment::Deployment;
use crate::identity::Role;

/// Checks signatures, path, use, times at `now` (seconds since 1970) and, for the edge, the server name. The error is
/// a phrase for a message.
pub(crate) fn verify(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &[CertificateDer<'_>],
    role: Role,
    deployment: &Deployment,
    now: i64,
) -> Result<(), String> {
    let mut trusted = RootCertStore::empty();
    for root in roots {
        trusted.add(root.clone()).map_err(|error| format!("one of its roots cannot be used: {error}"))?;
    }
    let trusted = Arc::new(trusted);
    let provider = Arc::new(ring::default_provider());
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
    let unusable = |error: &dyn std::error::Error| format!("its roots cannot be used: {error}");
    let verdict = match role {
        Role::Node => {
            let verifier = WebPkiClientVerifier::builder_with_provider(trusted, provider)
                .build()
                .map_err(|error| unusable(&error))?;
            verifier.verify_client_cert(leaf, intermediates, now).map(drop)
        }
        Role::Edge => {
            let verifier = WebPkiServerVerifier::builder_with_provider(trusted, provider)
                .build()
                .map_err(|error| unusable(&error))?;
            let name = ServerName::try_from(deployment.as_str()).map_err(|error| error.to_string())?;
            verifier.verify_server_cert(leaf, intermediates, &name, &[], now).map(drop)
        }
    };
    verdict.map_err(|error| format!("its leaf does not lead to a root in the same file: {error}"))
}
