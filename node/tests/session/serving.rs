//! A welcomed connection: settings, questions, draining, and runs that do not outlive it.

use crate::edge::{Edge, Guest, within};
use crate::node::{Plan, TestNode};
use crate::pki::Pki;
use iop_node::{ByteStream, Connecting, Connector, Exit};
use iop_transport::codes::CloseCode;
use iop_transport::tunnel::{EdgeRun, Patience};
use iop_transport::wire::{
    Adapter, Apply, EdgeMessage, NodeMessage, ProviderSettings, RunHead, RunRequest, TunnelRequest,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Inference servers in memory: each connection's far end is handed to the test.
struct Servers(mpsc::UnboundedSender<DuplexStream>);

impl Connector for Servers {
    fn connect<'a>(&'a self, _host: &'a str, _port: u16) -> Connecting<'a> {
        let (near, far) = tokio::io::duplex(64 << 10);
        self.0.send(far).expect("the test takes connections");
        Box::pin(async move { Ok(Box::new(near) as Box<dyn ByteStream>) })
    }
}

fn provider(capacity: u32) -> ProviderSettings {
    ProviderSettings {
        id: "llama".into(),
        adapter: Adapter::OpenAi { endpoint: "http://127.0.0.1:8081".into() },
        capacity,
        api_key_env: None,
        headers: Vec::new(),
        connect_timeout_ms: 60_000,
        first_byte_timeout_ms: 600_000,
        idle_timeout_ms: 600_000,
    }
}

/// A node whose inference servers the test plays.
fn start(plan: &Plan, pki: &Pki) -> (TestNode, mpsc::UnboundedReceiver<DuplexStream>) {
    let (servers, connections) = mpsc::unbounded_channel();
    let mut options = plan.options(&pki.bundle("gpu-a"));
    options.connector = Arc::new(Servers(servers));
    (TestNode::run(options), connections)
}

async fn open(guest: &Guest, generation: u64) -> EdgeRun<()> {
    let request = TunnelRequest { method: "GET".into(), path: "/v1/models".into(), headers: Vec::new() };
    let head = RunHead {
        lease: 1,
        generation,
        provider: "llama".into(),
        request: RunRequest::Tunnel(request),
        body_len: 0,
    };
    let patience = Patience { reply: Duration::from_secs(60), idle: Duration::from_secs(60) };
    EdgeRun::open(&guest.connection, &head, Vec::new(), (), patience).await.expect("the node gives a stream")
}

/// Waits until the run's request has arrived.
async fn request(connection: &mut DuplexStream) {
    let mut byte = [0];
    within(connection.read_exact(&mut byte)).await.expect("a request");
}

/// Whether the node has closed its end, without any waiting.
async fn is_closed(connection: &mut DuplexStream) -> bool {
    let mut rest = Vec::new();
    tokio::select! {
        biased;
        read = connection.read_to_end(&mut rest) => read.is_ok(),
        () = std::future::ready(()) => false,
    }
}

#[tokio::test]
async fn a_welcome_is_reported_once_its_providers_are_in_force() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let mut node = TestNode::start(&Plan::dial(edge.address), &pki);
    let mut guest = edge.guest().await;
    assert_eq!(guest.node(), "gpu-a");
    assert_eq!(guest.hello.instance, [1; 16]);
    assert!(guest.hello.software.starts_with("iop "), "{}", guest.hello.software);
    guest.welcome(41, vec![provider(2)]).await;
    let applied = guest.applied().await;
    assert_eq!((applied.revision, applied.refused), (1, Vec::new()));
    let welcomed = node.welcomed().await;
    assert_eq!((welcomed.node_id.as_str(), welcomed.edge, welcomed.generation), ("gpu-a", edge.address, 41));

    guest.send.send(&EdgeMessage::Ping { nonce: 99 }).await.expect("the node reads");
    assert_eq!(guest.message().await, NodeMessage::Pong { nonce: 99 });
    assert_eq!(node.stop().await, Exit::Stopped);
}

// [refresh-consistency]
#[tokio::test]
async fn raised_capacity_has_its_streams_before_it_is_confirmed() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let (node, mut connections) = start(&Plan::dial(edge.address), &pki);
    let mut guest = edge.guest().await;
    guest.welcome(1, vec![provider(1)]).await;
    guest.applied().await;
    let apply = Apply { revision: 2, providers: vec![provider(200)] };
    guest.send.send(&EdgeMessage::Apply(apply)).await.expect("the node reads");
    assert_eq!(guest.applied().await.revision, 2);
    let mut runs = Vec::new();
    for _ in 0..200 {
        runs.push(open(&guest, 1).await);
    }
    // The head of a run is sent when the run is polled.
    let replies = runs.into_iter().map(|mut run| tokio::spawn(async move { run.reply().await.is_ok() }));
    let replies: Vec<_> = replies.collect();
    for _ in 0..replies.len() {
        within(connections.recv()).await.expect("every run reaches the inference server");
    }
    assert_eq!(node.stop().await, Exit::Stopped);
}

#[tokio::test]
async fn a_drained_node_keeps_its_runs_and_takes_those_that_were_granted_before() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let (node, mut connections) = start(&Plan::dial(edge.address), &pki);
    let mut guest = edge.guest().await;
    guest.welcome(1, vec![provider(4)]).await;
    guest.applied().await;
    let mut old = open(&guest, 1).await;
    let old = tokio::spawn(async move { old.reply().await });
    let mut server = within(connections.recv()).await.expect("the run reaches the inference server");
    request(&mut server).await;

    guest.send.send(&EdgeMessage::Drain).await.expect("the node reads");
    guest.send.send(&EdgeMessage::Ping { nonce: 1 }).await.expect("the node reads");
    assert_eq!(guest.message().await, NodeMessage::Pong { nonce: 1 });
    let mut late = open(&guest, 1).await;
    let _late = tokio::spawn(async move { late.reply().await });
    within(connections.recv()).await.expect("the run that was on its way reaches the inference server");
    assert!(!old.is_finished() && !is_closed(&mut server).await, "the old run goes on");
    assert_eq!(node.stop().await, Exit::Stopped);
}

// [disconnect-exclusion]
#[tokio::test]
async fn every_run_has_ended_before_the_node_registers_again() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let (node, mut connections) = start(&Plan::dial(edge.address), &pki);
    let mut guest = edge.guest().await;
    guest.welcome(1, vec![provider(4)]).await;
    guest.applied().await;
    let mut servers = Vec::new();
    for _ in 0..4 {
        let mut run = open(&guest, 1).await;
        tokio::spawn(async move { run.reply().await });
        let mut server = within(connections.recv()).await.expect("the run reaches the inference server");
        request(&mut server).await;
        servers.push(server);
    }
    guest.close(CloseCode::EdgeShutdown);
    edge.guest().await;
    for server in &mut servers {
        assert!(is_closed(server).await, "the upstream connection is closed before the next Hello");
    }
    assert_eq!(node.stop().await, Exit::Stopped);
}

#[tokio::test]
async fn shutdown_ends_a_run_that_waits_for_its_inference_server() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let (node, mut connections) = start(&Plan::dial(edge.address), &pki);
    let mut guest = edge.guest().await;
    guest.welcome(1, vec![provider(1)]).await;
    guest.applied().await;
    let mut run = open(&guest, 1).await;
    let reply = tokio::spawn(async move { run.reply().await });
    let mut server = within(connections.recv()).await.expect("the run reaches the inference server");
    request(&mut server).await;
    let told = Instant::now();
    assert_eq!(node.stop().await, Exit::Stopped);
    assert!(told.elapsed() < Duration::from_millis(1500), "{:?}", told.elapsed());
    assert!(is_closed(&mut server).await);
    assert!(within(reply).await.expect("no panic").is_err(), "the client gets an error, not a clean end");
}

#[tokio::test]
async fn an_edge_that_stops_in_good_order_is_dialed_at_once_if_the_connection_has_lasted() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let mut node = TestNode::start(&Plan::dial(edge.address), &pki);
    let mut guest = edge.guest().await;
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    node.welcomed().await;
    // Longer than the interval of one second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let address = edge.address;
    edge.stop().await;
    drop(guest);
    let edge = Edge::start_again_at(address, pki.edge()).await;
    let restarted = Instant::now();
    let mut guest = edge.guest().await;
    guest.welcome(2, Vec::new()).await;
    guest.applied().await;
    assert_eq!(node.welcomed().await.generation, 2);
    assert!(restarted.elapsed() < Duration::from_secs(2), "{:?}", restarted.elapsed());
    assert_eq!(node.stop().await, Exit::Stopped);
}
