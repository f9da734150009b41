//! `iop edge`: reads the configuration and the certificates, binds the sockets, runs the edge.

use crate::failure::Failure;
use crate::signals;
use iop_certs::{Revocations, Role};
use iop_config::EdgeConfig;
use iop_edge::{Addresses, BUNDLE, CertificateFolder, ConfigFile, Edge, Listeners};
use iop_transport::endpoint::ResetSecret;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(file: PathBuf) -> Result<ExitCode, Failure> {
    let config = EdgeConfig::load(&file).map_err(|error| Failure::load(&file, error))?;
    let stop = signals::stop()?;
    serve(config, file, stop, |addresses| println!("ready {addresses}")).await?;
    Ok(ExitCode::SUCCESS)
}

/// Runs an edge until it is stopped. `source` is the file that the configuration came from.
pub(crate) async fn serve(
    config: EdgeConfig,
    source: PathBuf,
    stop: CancellationToken,
    ready: impl FnOnce(Addresses),
) -> Result<(), Failure> {
    let dir = &config.certs.dir;
    let identity = iop_certs::load_bundle(&dir.join(BUNDLE), Role::Edge).map_err(Failure::credentials)?;
    // A list that cannot be read may revoke whoever dials first, so nobody is let in.
    let revocations = Revocations::load(dir).map_err(Failure::credentials)?.unwrap_or_default();
    let certificates = Arc::new(CertificateFolder(dir.clone()));
    let secret = iop_certs::edge_secret(dir).map_err(Failure::credentials)?;
    let listeners = Listeners::bind(&config).await.map_err(Failure::other)?;
    let refresh = signals::refresh()?;
    let source = Arc::new(ConfigFile(source));
    let reset_secret = ResetSecret(secret);
    let edge = Edge { config, source, refresh, identity, revocations, certificates, reset_secret, listeners };
    edge.run(stop, ready).await.map_err(Failure::credentials)
}
