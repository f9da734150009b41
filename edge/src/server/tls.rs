//! The certificate of the client API: read from its files, and read again when they change. A file that cannot be used
//! leaves the one before in use.

use iop_config::HttpTls;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, crypto::ring};
use tracing::{info, warn};

/// How often the files are looked at. A change counts when two looks in a row see the same, so that a certificate whose
/// key follows a moment later is not half taken.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Largest file that is read: a chain is a few kilobytes.
const FILE_BYTES: u64 = 1 << 20;

/// Protocols offered, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Files that make no TLS listener. The operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum HttpTlsError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is no certificate in the file of certificates, or something that is none.
    #[error("no certificates in PEM in {}: {problem}", path.display())]
    Cert {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// There is no private key in the file of the key.
    #[error("no private key in PEM in {}: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: pem::Error,
    },
    /// Certificate and key cannot be used, or not together.
    #[error("the certificate {} and its key cannot be used: {problem}", path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong.
        problem: rustls::Error,
    },
}

/// The contents of both files: certificates, key.
type Contents = (Vec<u8>, Vec<u8>);

/// TLS for the client API. Cheap to clone; every clone uses the same certificate.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    files: HttpTls,
    config: Arc<RwLock<Arc<ServerConfig>>>,
    /// What the first certificate was made of.
    first: Arc<Contents>,
}

impl Tls {
    /// Reads the files. Blocks on the disk.
    pub(crate) fn load(files: &HttpTls) -> Result<Self, HttpTlsError> {
        let contents = read(files)?;
        let config = server_config(files, &contents)?;
        Ok(Self {
            files: files.clone(),
            config: Arc::new(RwLock::new(Arc::new(config))),
            first: Arc::new(contents),
        })
    }

    /// For the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().expect("no code panics while it holds the certificate").clone();
        TlsAcceptor::from(config)
    }

    /// Takes changed files in use. Runs until dropped.
    pub(super) async fn watch(&self) {
        let mut last_seen = self.look().await;
        // Files that changed since they were first read are a change too.
        let mut taken = Ok((*self.first).clone());
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let seen = self.look().await;
            let settled = seen == last_seen;
            if settled && seen != taken {
                self.take(&seen);
                taken = seen.clone();
            }
            last_seen = seen;
        }
    }

    /// The files as they are, or why they cannot be read.
    async fn look(&self) -> Result<Contents, String> {
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || read(&files).map_err(|error| error.to_string()));
        read.await.expect("reading a file does not panic")
    }

    fn take(&self, seen: &Result<Contents, String>) {
        let config = seen
            .clone()
            .and_then(|contents| server_config(&self.files, &contents).map_err(|error| error.to_string()));
        match config {
            Ok(config) => {
                *self.config.write().expect("no code panics while it holds the certificate") =
                    Arc::new(config);
                info!(cert = %self.files.cert.display(), "a new certificate of the client API is in use");
            }
            Err(error) => warn!(%error, "the certificate of the client API stays the one before"),
        }
    }
}

fn read(files: &HttpTls) -> Result<Contents, HttpTlsError> {
    Ok((read_file(&files.cert)?, read_file(&files.key)?))
}

fn read_file(path: &Path) -> Result<Vec<u8>, HttpTlsError> {
    let failed = |source| HttpTlsError::Read { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES {
        return Err(failed(std::io::Error::other(format!("it is larger than {FILE_BYTES} bytes"))));
    }
    std::fs::read(path).map_err(failed)
}

fn server_config(files: &HttpTls, (cert, key): &Contents) -> Result<ServerConfig, HttpTlsError> {
    let bad_cert = |problem| HttpTlsError::Cert { path: files.cert.clone(), problem };
    let chain = CertificateDer::pem_slice_iter(cert).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| bad_cert(error.to_string()))?;
    if chain.is_empty() {
        return Err(bad_cert("there is none".into()));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|problem| HttpTlsError::Key { path: files.key.clone(), problem })?;
    let unusable = |problem| HttpTlsError::Unusable { path: files.cert.clone(), problem };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}
