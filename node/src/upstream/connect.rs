//! How the node gets a byte stream to an inference server. HTTP and TLS are not spoken here.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection's bytes. Its drop closes the connection.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for S {}

/// The outcome of [`Connector::connect`].
pub type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn ByteStream>, ConnectError>> + Send + 'a>>;

/// Finds a host and connects to it. Name resolution is part of it, a time limit is not: the caller drops what takes too
/// long, and nothing of it may stay behind.
pub trait Connector: Send + Sync + 'static {
    /// Connects to `port` of `host`: a DNS name, an IPv4 address, or an IPv6 address without brackets.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a>;
}

/// No connection came about. Nothing of a request was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("its name cannot be resolved: {0}")]
    Resolve(io::Error),
    /// No address took the connection; the error is the last one's.
    #[error("{0}")]
    Connect(io::Error),
    /// The server is there, but its certificate or its TLS is not acceptable.
    #[error("TLS failed: {0}")]
    Tls(io::Error),
}

/// Plain TCP of the system, addresses of the system's resolver, each in turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(async move {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for address in addresses(host, port).await.map_err(ConnectError::Resolve)? {
                match TcpStream::connect(address).await {
                    Ok(stream) => {
                        // Only latency depends on it.
                        let _unsupported = stream.set_nodelay(true);
                        return Ok(Box::new(stream) as Box<dyn ByteStream>);
                    }
                    Err(error) => last = error,
                }
            }
            Err(ConnectError::Connect(last))
        })
    }
}

async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    if host == "localhost" {
        // Servers listen on either, and a system's hosts file may know only one.
        let loopbacks = [IpAddr::from(Ipv6Addr::LOCALHOST), IpAddr::from(Ipv4Addr::LOCALHOST)];
        return Ok(loopbacks.map(|address| SocketAddr::new(address, port)).to_vec());
    }
    let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(found)
}
