//! QUIC endpoints to dial from. Behind a trait, so that a network made in memory can stand in for UDP.

use iop_transport::Endpoint;
use iop_transport::endpoint::{self, EndpointError, NODE_SOCKET_BYTES};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where endpoints come from.
pub trait Sockets: Send + Sync {
    /// A fresh endpoint at `local`. An IPv6 wildcard must reach IPv4 too, or be an error.
    fn open(&self, local: SocketAddr) -> Result<Endpoint, EndpointError>;
}

/// Real UDP sockets.
#[derive(Debug, Clone, Copy, Default)]
pub struct UdpSockets;

impl Sockets for UdpSockets {
    fn open(&self, local: SocketAddr) -> Result<Endpoint, EndpointError> {
        let bound = endpoint::bind(local, NODE_SOCKET_BYTES)?;
        let (socket, runtime) =
            endpoint::tokio_socket(bound).map_err(|source| EndpointError::Bind { address: local, source })?;
        endpoint::node(socket, runtime, None)
    }
}

/// An endpoint for both address families, or for IPv4 alone on a machine without IPv6.
pub(super) fn open(sockets: &dyn Sockets) -> Result<Endpoint, EndpointError> {
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    sockets.open(v6).or_else(|_no_ipv6| sockets.open(v4))
}
