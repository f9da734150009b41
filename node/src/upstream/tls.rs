//! TLS to inference servers: a connector over another one. Servers must show a certificate that ends in a trusted root;
//! there is no way around that. This has nothing to do with the certificates of the deployment.

use super::connect::{ByteStream, ConnectError, Connecting, Connector};
use super::target::Target;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::{Arc, OnceLock};
use tokio_rustls::TlsConnector;

/// Whom the node trusts to vouch for an inference server.
pub(crate) struct Trust {
    /// `None`: the system's roots, read when they are first needed.
    roots: Option<Vec<CertificateDer<'static>>>,
    config: OnceLock<Result<Arc<ClientConfig>, TrustError>>,
}

/// No server could be trusted. Always this machine's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this node cannot check certificates, which https endpoints need: {0}")]
pub(crate) struct TrustError(String);

impl Trust {
    /// The roots that this system trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    pub(crate) fn system() -> Self {
        Self { roots: None, config: OnceLock::new() }
    }

    /// These roots and no others.
    pub(crate) fn only(roots: Vec<CertificateDer<'static>>) -> Self {
        Self { roots: Some(roots), config: OnceLock::new() }
    }

    /// A connector for `target`: `connector` itself, or TLS over what it connects.
    pub(crate) fn connector_for(
        &self,
        target: &Target,
        connector: &Arc<dyn Connector>,
    ) -> Result<Arc<dyn Connector>, TrustError> {
        if !target.https() {
            return Ok(Arc::clone(connector));
        }
        let config = self.config.get_or_init(|| self.config()).clone()?;
        Ok(Arc::new(OverTls { inner: Arc::clone(connector), tls: TlsConnector::from(config) }))
    }

    fn config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let mut problem = "there are no trusted root certificates".to_owned();
        let roots = self.roots.clone().unwrap_or_else(|| {
            let mut found = rustls_native_certs::load_native_certs();
            if let Some(error) = found.errors.pop() {
                problem = error.to_string();
            }
            found.certs
        });
        let mut store = RootCertStore::empty();
        // Systems keep roots that no TLS library understands; the others serve.
        let (usable, _ignored) = store.add_parsable_certificates(roots);
        if usable == 0 {
            return Err(TrustError(problem));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TrustError(error.to_string()))?;
        let mut config = builder.with_root_certificates(store).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

struct OverTls {
    inner: Arc<dyn Connector>,
    tls: TlsConnector,
}

impl Connector for OverTls {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(async move {
            let name = ServerName::try_from(host.to_owned())
                .map_err(|invalid| ConnectError::Tls(io::Error::new(io::ErrorKind::InvalidInput, invalid)))?;
            let stream = self.inner.connect(host, port).await?;
            let stream = self.tls.connect(name, stream).await.map_err(ConnectError::Tls)?;
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }
}
