//! The edge's sockets: bound before anything starts, so that a port in use is an error at once.

use crate::open_files;
use crate::server::{HttpTlsError, Tls, prepare};
use iop_config::EdgeConfig;
use iop_transport::endpoint::{self, EDGE_SOCKET_BYTES, EndpointError, Seed};
use iop_transport::{AsyncUdpSocket, Runtime};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tracing::debug;

/// A client's connection as bytes. Its drop closes the connection.
pub trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> ClientStream for S {}

/// Where clients' connections come from. Its drop refuses the next ones.
pub trait Accept: fmt::Debug + Send {
    /// The next connection. An error is one connection's; others may follow it.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn ClientStream>>>;
}

impl Accept for TcpListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn ClientStream>>> {
        let (stream, _address) = std::task::ready!(TcpListener::poll_accept(self, cx))?;
        if let Err(error) = prepare(&stream) {
            debug!(%error, "a connection was lost at once");
        }
        Poll::Ready(Ok(Box::new(stream)))
    }
}

/// Bound sockets, ready to serve.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) http: Box<dyn Accept>,
    /// For clients; `None`: plain HTTP.
    pub(crate) tls: Option<Tls>,
    /// Connections of clients at a time that the system has room for.
    pub(crate) max_clients: NonZeroU32,
    pub(crate) admin: Box<dyn Accept>,
    pub(crate) quic: Arc<dyn AsyncUdpSocket>,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// What QUIC's random numbers come from.
    pub(crate) seed: Seed,
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
    /// Listeners of the caller's making, with plain HTTP for clients.
    pub fn new(
        http: Box<dyn Accept>,
        admin: Box<dyn Accept>,
        quic: Arc<dyn AsyncUdpSocket>,
        runtime: Arc<dyn Runtime>,
        seed: Seed,
        addresses: Addresses,
    ) -> Self {
        Self { http, tls: None, max_clients: NonZeroU32::MAX, admin, quic, runtime, seed, addresses }
    }

    /// Binds the three sockets of the configuration and reads the certificate that clients see. Raises the process's limit of
    /// open files where the clients may need it.
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
        let (http, admin) = (Box::new(http), Box::new(admin));
        let max_clients = open_files::room(config.http.max_connections);
        Ok(Self { http, tls, max_clients, admin, quic, runtime, seed: None, addresses })
    }
}

async fn tcp(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError::Tcp { setting, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
