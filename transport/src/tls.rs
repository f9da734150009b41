//! TLS 1.3 with certificates on both sides. No tickets, no session storage, no early data: a resumed session would skip
//! the check of the client's certificate.

use crate::wire::ALPN;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, crypto::CryptoProvider, version::TLS13};
use std::sync::Arc;

/// One end's credentials and whom it trusts.
pub struct Credentials {
    /// Own chain, leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Key of the leaf.
    pub key: PrivateKeyDer<'static>,
    /// Root certificates that the peer's chain must end in.
    pub roots: Vec<CertificateDer<'static>>,
}

/// Credentials that TLS cannot use. Always local: nothing of a peer is involved.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A root certificate is not usable, or there is none.
    #[error("the trusted root certificates cannot be used: {0}")]
    Roots(String),
    /// Chain and key do not work together.
    #[error("the certificate and its key cannot be used: {0}")]
    Credentials(#[from] rustls::Error),
    /// The crypto provider lacks what QUIC needs.
    #[error("the crypto provider cannot do QUIC: {0}")]
    Quic(#[from] NoInitialCipherSuite),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn root_store(roots: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(|error| TlsError::Roots(error.to_string()))?;
    }
    Ok(Arc::new(store))
}

/// The edge's side: every peer must show a certificate of the deployment.
pub fn edge(credentials: Credentials) -> Result<QuicServerConfig, TlsError> {
    let roots = root_store(&credentials.roots)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| TlsError::Roots(error.to_string()))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(credentials.chain, credentials.key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.max_early_data_size = 0;
    Ok(QuicServerConfig::try_from(config)?)
}

/// The node's side: the edge must show a certificate of the deployment.
pub fn node(credentials: Credentials) -> Result<QuicClientConfig, TlsError> {
    let roots = root_store(&credentials.roots)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| TlsError::Roots(error.to_string()))?;
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_webpki_verifier(verifier)
        .with_client_auth_cert(credentials.chain, credentials.key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    Ok(QuicClientConfig::try_from(config)?)
}
