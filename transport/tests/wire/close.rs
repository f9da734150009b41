//! A close that the peer hears although the network takes nothing more.

use super::deployment::{Authority, EDGE_NAME, Role};
use super::links::{EDGE_SETTINGS, NODE_SETTINGS, edge_endpoint, loopback, within};
use bytes::Bytes;
use iop_transport::codes::CloseCode;
use iop_transport::endpoint::{self, NODE_SOCKET_BYTES, ResetSecret};
use iop_transport::{AsyncUdpSocket, UdpPoller, udp};
use quinn::{Connection, ConnectionError};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// A socket that hears nothing any more once it is told so; what it sends goes out.
#[derive(Debug)]
struct Deaf {
    socket: Arc<dyn AsyncUdpSocket>,
    deaf: Arc<AtomicBool>,
}

impl AsyncUdpSocket for Deaf {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.socket.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &udp::Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let received = std::task::ready!(self.socket.poll_recv(cx, bufs, meta));
            if !self.deaf.load(Ordering::Relaxed) {
                return Poll::Ready(received);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Until nothing more goes out: the congestion window is full.
async fn stuck(connection: &Connection) {
    let sent = || connection.stats().udp_tx.datagrams;
    let mut last = 0;
    while sent() < 8 || sent() > last {
        last = sent();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

// [disconnect-exclusion]
#[tokio::test]
async fn a_close_gets_out_while_the_congestion_window_is_full() {
    let authority = Authority::new();
    let edge = edge_endpoint(loopback(), &authority, &ResetSecret([7; 32]), EDGE_SETTINGS);
    let socket = endpoint::bind(loopback(), NODE_SOCKET_BYTES).expect("a free port");
    let (socket, runtime) = endpoint::tokio_socket(socket).expect("tokio takes the socket");
    let deaf = Arc::new(AtomicBool::new(false));
    let socket = Arc::new(Deaf { socket, deaf: deaf.clone() });
    let node = endpoint::node(socket, runtime, None).expect("an endpoint without credentials");
    let config =
        endpoint::node_config(authority.credentials(Role::Node), NODE_SETTINGS).expect("good credentials");
    let address = edge.local_addr().expect("a bound socket");
    let dial = node.connect_with(config, address, EDGE_NAME).expect("a good name");
    let accept = async { edge.accept().await.expect("the endpoint is open").await.expect("a good node") };
    let (at_node, at_edge) = within(async { tokio::join!(dial, accept) }).await;
    let at_node = at_node.expect("a good edge");

    // Before that, a close can take the way of the handshake, which is never full.
    within(async {
        while at_node.stats().frame_rx.handshake_done == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let (mut send, _recv) = within(at_node.open_bi()).await.expect("room for a stream");
    deaf.store(true, Ordering::Relaxed);
    within(send.write_chunk(Bytes::from(vec![7; 400 << 10]))).await.expect("the stream's window is larger");
    within(stuck(&at_node)).await;
    iop_transport::close(&at_node, CloseCode::NodeShutdown, b"bye");
    match within(at_edge.closed()).await {
        ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code, CloseCode::NodeShutdown.wire());
            assert_eq!(&close.reason[..], b"bye");
        }
        other => panic!("the edge waited for its idle timeout: {other:?}"),
    }
}
