//! Ends that move, restart or vanish. What edge and node make of it is theirs.

use super::deployment::{Authority, EDGE_NAME, Role};
use super::links::{
    EDGE_SETTINGS, PATIENT, edge_endpoint, lease, link, loopback, node_endpoint, pattern, tunnel_head, within,
};
use bytes::Bytes;
use iop_transport::endpoint::{self, QuicSettings, ResetSecret};
use iop_transport::tunnel::{EdgeRun, NodeRun};
use iop_transport::wire::RunReply;
use quinn::{Connection, ConnectionError};
use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// An endpoint in a runtime of its own, to be killed: nothing of it closes, its packets just end.
pub(super) struct Process {
    kill: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Process {
    /// Runs `work` until it is killed. `work` keeps what must live in what it returns.
    fn start<W, T>(work: W) -> Self
    where
        W: Future<Output = T> + Send + 'static,
    {
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let kept = runtime.block_on(async {
                let kept = work.await;
                let _killed = killed.await;
                kept
            });
            // In this order: handles that are dropped while quinn's tasks live would close their connections.
            drop(runtime);
            drop(kept);
        });
        Self { kill, thread }
    }

    /// A node that is connected to an edge of the caller's runtime and does `work`. Both ends have `settings`.
    pub(super) async fn node<W, F>(settings: QuicSettings, work: W) -> (Self, Connection)
    where
        W: FnOnce(Connection) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let authority = Authority::new();
        let edge = edge_endpoint(loopback(), &authority, &ResetSecret([7; 32]), settings);
        let address = edge.local_addr().expect("a bound socket");
        let credentials = authority.credentials(Role::Node);
        let process = Self::start(async move {
            let config = endpoint::node_config(credentials, settings).expect("good credentials");
            let node = node_endpoint();
            let dial = node.connect_with(config, address, EDGE_NAME).expect("a good name");
            let connection = dial.await.expect("a good edge");
            let working = tokio::spawn(work(connection.clone()));
            (connection, node, working)
        });
        let accept = within(edge.accept()).await.expect("the endpoint is open");
        (process, within(accept.into_future()).await.expect("a good node"))
    }

    /// An edge on `address` that takes one connection. Gives its real address.
    async fn edge(
        address: SocketAddr,
        authority: Arc<Authority>,
        settings: QuicSettings,
    ) -> (Self, SocketAddr) {
        let (listening, is_listening) = oneshot::channel();
        let process = Self::start(async move {
            let edge = edge_endpoint(address, &authority, &ResetSecret([9; 32]), settings);
            listening.send(edge.local_addr().expect("a bound socket")).expect("the test waits");
            let connection = edge.accept().await.expect("the endpoint is open").await;
            (connection, edge)
        });
        (process, within(is_listening).await.expect("it listens"))
    }

    /// Kills it and waits until its socket is gone.
    pub(super) fn kill(self) {
        // An error means that it has ended already.
        let _ended = self.kill.send(());
        self.thread.join().expect("it does not panic");
    }
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_node_notices_a_restarted_edge_long_before_its_idle_timeout() {
    let patient = QuicSettings { idle_timeout: Duration::from_secs(600), ..EDGE_SETTINGS };
    let authority = Arc::new(Authority::new());
    let (first, address) = Process::edge(loopback(), authority.clone(), patient).await;
    let node = node_endpoint();
    let settings = QuicSettings { keep_alive: Some(Duration::from_millis(50)), ..patient };
    let config =
        endpoint::node_config(authority.credentials(Role::Node), settings).expect("good credentials");
    let dial = node.connect_with(config, address, EDGE_NAME).expect("a good name");
    let connection = within(dial.into_future()).await.expect("a good edge");
    // The handshake is confirmed when the edge's first packets are here; only then a reset is believed.
    within(async {
        while connection.stats().frame_rx.handshake_done == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    first.kill();
    let (second, same) = Process::edge(address, authority, patient).await;
    assert_eq!(same, address);
    assert_eq!(within(connection.closed()).await, ConnectionError::Reset);
    drop(second);
}

// Section D: a node whose address changes keeps its connection and its running streams.
#[tokio::test]
async fn a_node_that_changes_its_address_keeps_its_connection_and_every_byte_in_both_directions() {
    let link = link().await;
    let (lease, mut drops) = lease();
    let (up, down) = (pattern(4 << 20), pattern(6 << 20));
    let before = link.at_edge.remote_address();
    let head = tunnel_head(up.len() as u64);
    let mut run = within(EdgeRun::open(&link.at_edge, &head, vec![up.clone()], lease, PATIENT))
        .await
        .expect("a stream");
    let endpoint = link.node.clone();
    let expected_up = up.clone();
    let sent = down.clone();
    let at_node = link.at_node.clone();
    let node = tokio::spawn(async move {
        let (send, recv) = at_node.accept_bi().await.expect("the run's stream");
        let mut run = NodeRun::accept(send, recv).await.expect("a good head");
        run.reply.head(&RunReply::Started).await.expect("a live stream");
        let mut read = Vec::new();
        let mut rebound = 0;
        while let Some(bytes) = run.body.chunk().await.expect("no cancel") {
            read.extend_from_slice(&bytes);
            if read.len() > (1 << 20) * (rebound + 1) {
                rebound += 1;
                endpoint.rebind(UdpSocket::bind(loopback()).expect("a free port")).expect("a good socket");
            }
        }
        assert!(read == expected_up, "every byte of the request in its place");
        for (number, piece) in sent.chunks(1 << 20).enumerate() {
            run.reply.bytes(Bytes::copy_from_slice(piece)).await.expect("a live stream");
            if number == 2 {
                endpoint.rebind(UdpSocket::bind(loopback()).expect("a free port")).expect("a good socket");
                rebound += 1;
            }
        }
        run.reply.finish();
        run.body.cancelled().await;
        rebound
    });
    assert_eq!(within(run.reply()).await, Ok(RunReply::Started));
    let mut read = Vec::new();
    while let Some(bytes) = within(poll_fn(|cx| run.poll_chunk(cx))).await.expect("the run is not lost") {
        read.extend_from_slice(&bytes);
    }
    assert!(read == down, "every byte of the answer in its place");
    assert_eq!(within(node).await.expect("no panic"), 4);
    drops.wait().await;
    assert_ne!(link.at_edge.remote_address(), before, "the edge follows");
    assert_eq!(link.at_edge.close_reason(), None);
    let now = link.node.local_addr().expect("a bound socket");
    within(async {
        while link.at_edge.remote_address() != now {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
