//! An edge in this process, with the deployment's own edge certificate, and a real node process that dials it. It says
//! what a test tells it, and not what an edge should.

use crate::site::{DEADLINE, GROWTH_KIB, IOP, assert_clean, memory_kib};
use bytes::Bytes;
use iop_certs::{InitOptions, Role};
use iop_tests::engine::{Engine, Script};
use iop_tests::process::{Process, Program, Signal};
use iop_transport::codes::StreamCode;
use iop_transport::endpoint::{self, QuicSettings, ResetSecret};
use iop_transport::session::{ControlRecv, ControlSend, accept_hello};
use iop_transport::tls::Credentials;
use iop_transport::wire::{
    self, Adapter, Apply, EdgeMessage, NodeMessage, ProviderSettings, RUN_HEAD_BYTES, RunHead, RunReply,
    RunRequest, TunnelRequest, Welcome,
};
use iop_transport::{Connection, Endpoint};
use serde_json::json;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

/// The node's two providers: an engine behind a tunnel, and the built-in echo.
pub(crate) const TUNNEL: &str = "one";
pub(crate) const ECHO: &str = "two";

const DAY_SEC: i64 = 24 * 60 * 60;

/// Slots of each.
pub(crate) const SLOTS: u32 = 2;

/// The generation that every Welcome gives.
pub(crate) const GENERATION: u64 = 41;

/// The edge, the node, and the node's engine.
pub(crate) struct FakeEdge {
    endpoint: Endpoint,
    pub(crate) engine: Engine,
    node: Process,
    memory_kib: u64,
    directory: TempDir,
}

/// One connection of the node's.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    pub(crate) send: ControlSend<EdgeMessage>,
    pub(crate) recv: ControlRecv<NodeMessage>,
}

impl FakeEdge {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let here = directory.path();
        for arguments in
            [&["certs", "init", "--dir", "pki"][..], &["certs", "issue", "--dir", "pki", "--node", "gpu"]]
        {
            let program = Program::new(IOP).args(arguments).directory(here);
            program.run(DEADLINE).await.expect_success("certificates");
        }
        Self::start_in(directory)
    }

    /// The node's certificate is to be renewed: half of its life is over.
    pub(crate) fn start_with_a_due_certificate() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (pki, now) = (directory.path().join("pki"), iop_certs::now());
        let node = "gpu".parse().expect("a node's id");
        iop_certs::init(&pki, &InitOptions::default(), now - DAY_SEC).expect("an authority");
        iop_certs::issue_node(&pki, &node, 1, now - DAY_SEC / 2).expect("a certificate");
        Self::start_in(directory)
    }

    fn start_in(directory: TempDir) -> Self {
        let here = directory.path();
        let identity = iop_certs::load_bundle(&here.join("pki/edge.pem"), Role::Edge).expect("it is made");
        let credentials = Credentials { chain: identity.chain, key: identity.key, roots: identity.roots };
        let settings = QuicSettings {
            idle_timeout: Duration::from_secs(10),
            keep_alive: None,
            segmentation_offload: true,
        };
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        let (socket, runtime) = endpoint::tokio_socket(socket).expect("a socket for tokio");
        let secret = ResetSecret([7; 32]);
        let endpoint =
            endpoint::edge(socket, runtime, None, credentials, &secret, settings).expect("an endpoint");
        let config = json!({
            "edge": {"addresses": [address.to_string()]},
            "certs": {"bundle": "pki/gpu.pem"},
            "reconnect": {"max_attempts": 0, "interval_sec": 1},
            "keep_alive_ms": 1000,
        });
        std::fs::write(here.join("node.yaml"), config.to_string()).expect("it is written");
        let program = Program::new(IOP).named("node").args(["node", "--config", "node.yaml"]).directory(here);
        let node = program.env("RUST_LOG", "info").start();
        let engine = Engine::start();
        engine.set_script(Script::answer());
        let memory_kib = memory_kib(node.id());
        Self { endpoint, engine, node, memory_kib, directory }
    }

    /// Where the certificates are, the node's as `gpu.pem`.
    pub(crate) fn pki(&self) -> PathBuf {
        self.directory.path().join("pki")
    }

    /// What the node has written into its log so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.node.stderr()
    }

    /// The node's next connection, its Hello read and nothing said.
    pub(crate) async fn accept(&self) -> Side {
        let connecting = async { self.endpoint.accept().await.expect("an open endpoint").await };
        let connection = timeout(DEADLINE, connecting).await.expect("the node dials").expect("a handshake");
        let (_hello, send, recv) = accept_hello(&connection).await.expect("a Hello");
        Side { connection, send, recv }
    }

    /// The node's next connection with its control stream as it is.
    pub(crate) async fn accept_raw(&self) -> (Connection, quinn::SendStream, quinn::RecvStream) {
        let connecting = async { self.endpoint.accept().await.expect("an open endpoint").await };
        let connection = timeout(DEADLINE, connecting).await.expect("the node dials").expect("a handshake");
        let (send, recv) = connection.accept_bi().await.expect("a control stream");
        (connection, send, recv)
    }

    /// The node's next connection, welcomed and confirmed.
    pub(crate) async fn welcome(&self) -> Side {
        let mut side = self.accept().await;
        side.say(&self.welcoming()).await;
        assert!(matches!(side.hear().await, NodeMessage::Applied(applied) if applied.refused.is_empty()));
        side
    }

    pub(crate) fn welcoming(&self) -> EdgeMessage {
        let apply = Apply { revision: 1, providers: self.providers() };
        EdgeMessage::Welcome(Welcome {
            generation: GENERATION,
            edge_time_ms: 0,
            idle_timeout_ms: 10_000,
            apply,
        })
    }

    pub(crate) fn providers(&self) -> Vec<ProviderSettings> {
        let openai = Adapter::OpenAi { endpoint: self.engine.endpoint() };
        vec![
            provider(TUNNEL, openai, SLOTS),
            provider(ECHO, Adapter::Echo { words: 3, word_interval_ms: 0 }, SLOTS),
        ]
    }

    /// What must be true after every attack: the node serves, holds nothing, has not failed and is hardly larger.
    pub(crate) async fn assert_serves(&mut self, side: &Side) {
        let (reply, body) = side.exchange(&tunnel(GENERATION, 2), b"{}").await;
        assert!(matches!(reply, RunReply::Response { status: 200, .. }), "{reply:?}");
        assert!(!body.is_empty());
        self.engine.wait_idle(DEADLINE).await;
        assert!(self.engine.peak() <= SLOTS as usize, "{} at once", self.engine.peak());
        let grown = memory_kib(self.node.id()).saturating_sub(self.memory_kib);
        println!("measured: node grown by {grown} KiB since its start");
        assert!(grown <= GROWTH_KIB, "the node has grown by {grown} KiB");
        assert_clean(&self.node.stderr());
    }

    /// Ends the node, which must end well.
    pub(crate) async fn stop(mut self) {
        self.node.signal(Signal::TERM);
        assert_eq!(self.node.wait_for_exit(DEADLINE).await.code(), Some(0));
        assert_clean(&self.node.stderr());
    }
}

pub(crate) fn provider(id: &str, adapter: Adapter, capacity: u32) -> ProviderSettings {
    ProviderSettings {
        id: id.to_owned(),
        adapter,
        capacity,
        api_key_env: None,
        headers: Vec::new(),
        connect_timeout_ms: 2000,
        first_byte_timeout_ms: 10_000,
        idle_timeout_ms: 10_000,
    }
}

/// The head of a chat through the tunnel.
pub(crate) fn tunnel(generation: u64, body_len: u64) -> RunHead {
    let request = TunnelRequest {
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        headers: vec![("content-type".to_owned(), Bytes::from_static(b"application/json"))],
    };
    RunHead {
        lease: 1,
        generation,
        provider: TUNNEL.to_owned(),
        request: RunRequest::Tunnel(request),
        body_len,
    }
}

pub(crate) fn encoded(head: &RunHead) -> Bytes {
    wire::encode(&[], head, RUN_HEAD_BYTES).expect("a head within the limit")
}

impl Side {
    pub(crate) async fn say(&mut self, message: &EdgeMessage) {
        self.send.send(message).await.expect("the control stream stands");
    }

    pub(crate) async fn hear(&mut self) -> NodeMessage {
        let heard = timeout(DEADLINE, self.recv.recv()).await.expect("a message in time");
        heard.expect("the control stream stands").expect("the control stream goes on")
    }

    /// A whole run.
    pub(crate) async fn exchange(&self, head: &RunHead, body: &[u8]) -> (RunReply, Vec<u8>) {
        let whole = async {
            let (mut send, mut recv) = self.connection.open_bi().await.expect("a stream");
            send.write_all(&[&encoded(head)[..], body].concat()).await.expect("it is written");
            let frame = wire::read_frame(&mut recv, RUN_HEAD_BYTES).await.expect("a reply").expect("a reply");
            let answer = recv.read_to_end(1 << 20).await.expect("a whole answer");
            send.reset(StreamCode::Done.wire()).expect("it is open");
            (wire::decode(&frame).expect("a good reply"), answer)
        };
        timeout(DEADLINE, whole).await.expect("an answer in time")
    }

    /// The code with which the node resets a run of these bytes, its stream left open or finished.
    pub(crate) async fn reset_of(&self, bytes: &[u8], finish: bool) -> StreamCode {
        let (mut send, mut recv) = self.connection.open_bi().await.expect("a stream");
        send.write_all(bytes).await.expect("it is written");
        if finish {
            send.finish().expect("it is open");
        }
        loop {
            match timeout(DEADLINE, recv.read_chunk(1 << 16, true)).await.expect("an end in time") {
                Ok(Some(_before)) => {}
                Err(quinn::ReadError::Reset(code)) => {
                    return StreamCode::from_wire(code).expect("a known code");
                }
                other => panic!("a reset is due: {other:?}"),
            }
        }
    }
}
