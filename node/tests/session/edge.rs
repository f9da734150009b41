//! The edge's side, by hand: it welcomes, refuses and closes as a test says, and knows nothing of admission.

use crate::pki::Pki;
use iop_transport::codes::CloseCode;
use iop_transport::endpoint::{self, QuicSettings, ResetSecret};
use iop_transport::session::{ControlRecv, ControlSend, accept_hello};
use iop_transport::tls::Credentials;
use iop_transport::wire::{Applied, Apply, EdgeMessage, Hello, NodeMessage, ProviderSettings, Welcome};
use iop_transport::{Connection, Endpoint, peer};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Far beyond what anything here takes; only a hang reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The same where the clock is virtual and the test is about a long time.
const LONG_DEADLINE: Duration = Duration::from_secs(7200);

/// Waits with a deadline.
pub(crate) async fn within<T>(wait: impl Future<Output = T>) -> T {
    timeout(DEADLINE, wait).await.expect("it happens before the deadline")
}

/// Waits with a deadline of two virtual hours.
pub(crate) async fn within_hours<T>(wait: impl Future<Output = T>) -> T {
    timeout(LONG_DEADLINE, wait).await.expect("it happens before the deadline")
}

pub(crate) struct Edge {
    endpoint: Endpoint,
    pub(crate) address: SocketAddr,
}

/// A node that has said Hello.
pub(crate) struct Guest {
    pub(crate) connection: Connection,
    pub(crate) hello: Hello,
    pub(crate) send: ControlSend<EdgeMessage>,
    pub(crate) recv: ControlRecv<NodeMessage>,
}

impl Edge {
    pub(crate) fn start(pki: &Pki) -> Self {
        Self::start_at("127.0.0.1:0".parse().expect("an address"), pki.edge())
    }

    pub(crate) fn start_at(address: SocketAddr, credentials: Credentials) -> Self {
        let bound = endpoint::bind(address, 1 << 20).expect("a free port");
        let (socket, runtime) = endpoint::tokio_socket(bound).expect("a socket for tokio");
        let settings = QuicSettings {
            idle_timeout: Duration::from_secs(10),
            keep_alive: None,
            segmentation_offload: true,
        };
        let endpoint = endpoint::edge(socket, runtime, None, credentials, &ResetSecret([7; 32]), settings)
            .expect("credentials that work");
        let address = endpoint.local_addr().expect("the socket is bound");
        Self { endpoint, address }
    }

    /// Starts where another edge has just stopped, as soon as the last of its connections has let go of the port.
    pub(crate) async fn start_again_at(address: SocketAddr, credentials: Credentials) -> Self {
        within(async {
            while endpoint::bind(address, 1 << 16).is_err() {
                sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        Self::start_at(address, credentials)
    }

    /// The next connection whose handshake succeeds, and its Hello.
    pub(crate) async fn guest(&self) -> Guest {
        within(self.next()).await
    }

    /// The same, after a long time.
    pub(crate) async fn late_guest(&self) -> Guest {
        within_hours(self.next()).await
    }

    async fn next(&self) -> Guest {
        loop {
            let incoming = self.endpoint.accept().await.expect("the endpoint is open");
            let Ok(connection) = incoming.await else { continue };
            let Ok((hello, send, recv)) = accept_hello(&connection).await else { continue };
            return Guest { connection, hello, send, recv };
        }
    }

    /// Lets handshakes happen and takes no Hello, until it is dropped.
    pub(crate) async fn handshakes_only(&self) {
        let mut connections = Vec::new();
        while let Some(incoming) = self.endpoint.accept().await {
            connections.push(incoming.await);
        }
    }

    /// As a process that ends in good order.
    pub(crate) async fn stop(self) {
        self.endpoint.close(CloseCode::EdgeShutdown.wire(), b"");
        self.endpoint.wait_idle().await;
    }
}

impl Guest {
    pub(crate) async fn welcome(&mut self, generation: u64, providers: Vec<ProviderSettings>) {
        let edge_time_ms = u64::try_from(iop_certs::now()).expect("after 1970") * 1000;
        let apply = Apply { revision: 1, providers };
        let welcome =
            EdgeMessage::Welcome(Welcome { generation, edge_time_ms, idle_timeout_ms: 10_000, apply });
        self.send.send(&welcome).await.expect("the node reads its Welcome");
    }

    /// The node's next message.
    pub(crate) async fn message(&mut self) -> NodeMessage {
        within(self.recv.recv()).await.expect("a live control stream").expect("a message before its end")
    }

    pub(crate) async fn applied(&mut self) -> Applied {
        match self.message().await {
            NodeMessage::Applied(applied) => applied,
            other => panic!("Applied was due, not {other:?}"),
        }
    }

    pub(crate) fn close(&self, code: CloseCode) {
        self.connection.close(code.wire(), b"as the test says");
    }

    /// The id in the node's certificate.
    pub(crate) fn node(&self) -> String {
        let chain = peer::certificates(&self.connection);
        let leaf = chain.first().expect("the node showed a certificate");
        iop_certs::peer_node(leaf, iop_certs::DEFAULT_EDGE_NAME)
            .expect("a node's certificate")
            .node_id
            .to_string()
    }
}
