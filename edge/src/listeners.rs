//! The edge's sockets: bound before anything starts, so that a port in use is an error at once.

use crate::server::{HttpTlsError, Tls};
use iop_config::EdgeConfig;
use iop_transport::endpoint::{self, EDGE_SOCKET_BYTES, EndpointError};
use iop_transport::{AsyncUdpSocket, Runtime};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Bound sockets, ready to serve.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) http: TcpListener,
    /// For clients; `None`: plain HTTP.
    pub(crate) tls: Option<Tls>,
    pub(crate) admin: TcpListener,
    pub(crate) quic: Arc<dyn AsyncUdpSocket>,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// Where they really listen.
    pub addresses: Addresses,
}

/// Where an edge really listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// For clients, TCP.
    pub http: SocketAddr,
    /// For operators, TCP.
    pub admin: SocketAddr,
    /// For nodes, UDP.
    pub quic: SocketAddr,
}

/// As the `ready` line shows them.
impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http={} admin={} quic={}", self.http, self.admin, self.quic)
    }
}

/// What the edge cannot listen with. Always local: mostly a second edge, or another program on the port.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A TCP listener.
    #[error("cannot listen on {address} ({setting}): {source}")]
    Tcp {
        /// The setting that names the address.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The UDP socket.
    #[error("{0} (quic.listen)")]
    Udp(#[from] EndpointError),
    /// The certificate of the client API.
    #[error("{0} (http.tls)")]
    Tls(#[from] HttpTlsError),
}

impl Listeners {
    /// Binds the three sockets of the configuration and reads the certificate that clients see.
    pub async fn bind(config: &EdgeConfig) -> Result<Self, ListenError> {
        let tls = config.http.tls.as_ref().map(Tls::load).transpose()?;
        let (http, http_address) = tcp("http.listen", config.http.listen).await?;
        let (admin, admin_address) = tcp("admin.listen", config.admin.listen).await?;
        let address = config.quic.listen;
        let udp = |source| ListenError::Udp(EndpointError::Bind { address, source });
        let socket = endpoint::bind(address, EDGE_SOCKET_BYTES)?;
        let quic_address = socket.local_addr().map_err(udp)?;
        let (quic, runtime) = endpoint::tokio_socket(socket).map_err(udp)?;
        let addresses = Addresses { http: http_address, admin: admin_address, quic: quic_address };
        Ok(Self { http, tls, admin, quic, runtime, addresses })
    }
}

async fn tcp(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError::Tcp { setting, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
