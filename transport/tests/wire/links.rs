//! Connected pairs of an edge and a node, leases that count their drops, and waits with a deadline.

use super::deployment::{Authority, EDGE_NAME, Role};
use bytes::Bytes;
use iop_transport::endpoint::{self, EDGE_SOCKET_BYTES, NODE_SOCKET_BYTES, QuicSettings, ResetSecret};
use iop_transport::tunnel::Patience;
use iop_transport::wire::{RunHead, RunRequest, TunnelRequest};
use quinn::{Connection, Endpoint};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::sync::watch;

/// Far beyond what anything here takes; only a hang reaches it.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// The edge's settings of most tests.
pub(super) const EDGE_SETTINGS: QuicSettings =
    QuicSettings { idle_timeout: Duration::from_secs(10), keep_alive: None, segmentation_offload: true };

/// The node's settings of most tests.
pub(super) const NODE_SETTINGS: QuicSettings = QuicSettings {
    idle_timeout: Duration::from_secs(10),
    keep_alive: Some(Duration::from_secs(3)),
    segmentation_offload: true,
};

/// More than any wait here takes.
pub(super) const PATIENT: Patience =
    Patience { reply: Duration::from_secs(60), idle: Duration::from_secs(60) };

/// Any port of loopback.
pub(super) fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Waits with a deadline.
pub(super) async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect("it happens before the deadline")
}

/// An edge that listens on `address`.
pub(super) fn edge_endpoint(
    address: SocketAddr,
    authority: &Authority,
    secret: &ResetSecret,
    settings: QuicSettings,
) -> Endpoint {
    let socket = endpoint::bind(address, EDGE_SOCKET_BYTES).expect("a free port");
    let (socket, runtime) = endpoint::tokio_socket(socket).expect("tokio takes the socket");
    endpoint::edge(socket, runtime, None, authority.credentials(Role::Edge), secret, settings)
        .expect("good credentials")
}

/// A node's endpoint.
pub(super) fn node_endpoint() -> Endpoint {
    let socket = endpoint::bind(loopback(), NODE_SOCKET_BYTES).expect("a free port");
    let (socket, runtime) = endpoint::tokio_socket(socket).expect("tokio takes the socket");
    endpoint::node(socket, runtime, None).expect("an endpoint without credentials")
}

/// A connected edge and node.
pub(super) struct Link {
    pub(super) edge: Endpoint,
    pub(super) node: Endpoint,
    pub(super) at_edge: Connection,
    pub(super) at_node: Connection,
}

/// A link with the usual settings.
pub(super) async fn link() -> Link {
    link_with(EDGE_SETTINGS, NODE_SETTINGS).await
}

/// A link with settings of the test's own.
pub(super) async fn link_with(at_edge: QuicSettings, at_node: QuicSettings) -> Link {
    let authority = Authority::new();
    let edge = edge_endpoint(loopback(), &authority, &ResetSecret([7; 32]), at_edge);
    let node = node_endpoint();
    let config = endpoint::node_config(authority.credentials(Role::Node), at_node).expect("good credentials");
    let address = edge.local_addr().expect("a bound socket");
    let dial = async {
        node.connect_with(config, address, EDGE_NAME).expect("a good name").await.expect("a good edge")
    };
    let accept = async { edge.accept().await.expect("the endpoint is open").await.expect("a good node") };
    let (at_node, at_edge) = within(async { tokio::join!(dial, accept) }).await;
    Link { edge, node, at_edge, at_node }
}

/// Something to hold while a run is on; its drop is counted.
#[derive(Debug)]
pub(super) struct Lease(watch::Sender<u32>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.send_modify(|drops| *drops += 1);
    }
}

/// The count of a lease's drops.
#[derive(Debug)]
pub(super) struct Drops(watch::Receiver<u32>);

impl Drops {
    pub(super) fn count(&self) -> u32 {
        *self.0.borrow()
    }

    /// Waits until the lease is dropped.
    pub(super) async fn wait(&mut self) {
        // The channel closes with the lease: its last value is still there to see.
        let _last = within(self.0.wait_for(|drops| *drops > 0)).await.map(|drops| *drops);
        assert_eq!(self.count(), 1, "the lease is dropped once");
    }
}

/// A lease and the count of its drops.
pub(super) fn lease() -> (Lease, Drops) {
    let (sender, receiver) = watch::channel(0);
    (Lease(sender), Drops(receiver))
}

/// The head of a tunnel run with that many bytes of body.
pub(super) fn tunnel_head(body_len: u64) -> RunHead {
    RunHead {
        lease: 1,
        generation: 1,
        provider: "llama".into(),
        request: RunRequest::Tunnel(TunnelRequest {
            method: "POST".into(),
            path: "/v1/chat/completions".into(),
            headers: vec![("content-type".into(), Bytes::from_static(b"application/json"))],
        }),
        body_len,
    }
}

/// Bytes that differ from place to place, so that a lost or doubled piece shows.
pub(super) fn pattern(length: usize) -> Bytes {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}
