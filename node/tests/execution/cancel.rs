//! A cancelled run, in every phase: the upstream connection is closed first, then the slot is free.

use super::lab::{
    CHAT, DEADLINE, Event, GENERATION, Lab, Outcome, STREAM, chunk, echo, normalized, openai, tunnel, within,
};
use bytes::Bytes;
use iop_node::{Connecting, Connector};
use iop_tests::engine::{Engine, Script, Then};
use iop_transport::codes::StreamCode;
use iop_transport::wire::{self, Operation, RUN_HEAD_BYTES, RunHead};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The connection was closed before the edge got the lease back.
fn assert_closed_first(lab: &Lab, lease: u64) {
    assert_eq!(lab.journal.events(), [Event::Opened, Event::Closed, Event::Returned(lease)]);
}

#[tokio::test]
async fn a_cancel_before_the_first_byte_closes_the_upstream_connection_first() {
    for body in [CHAT, STREAM] {
        let engine = Engine::start();
        let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
        engine.queue_scripts([Script::silence()]);
        let (lease, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), body).await;
        tokio::select! {
            reply = run.reply() => panic!("the engine is silent: {reply:?}"),
            () = engine.wait_received(1, DEADLINE) => {}
        }
        drop(run);
        lab.returned(lease).await;
        assert_closed_first(&lab, lease);
        engine.wait_closed(0, DEADLINE).await;
        assert_eq!(lab.chat("llama").await.answer().0, 200);
    }
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_the_answer_closes_the_upstream_connection_first() {
    for body in [CHAT, STREAM] {
        let engine = Engine::start();
        let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
        engine.queue_scripts([Script::answer().cut(1, Then::Hang)]);
        let (lease, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), body).await;
        within(run.reply()).await.expect("a head");
        chunk(&mut run).await.expect("the first piece");
        drop(run);
        lab.returned(lease).await;
        assert_closed_first(&lab, lease);
        assert!(engine.wait_closed(0, DEADLINE).await.broken_off());
        assert_eq!(lab.chat("llama").await.answer().0, 200);
    }
}

#[tokio::test]
async fn a_cancel_while_the_edge_does_not_read_closes_the_upstream_connection_first() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    engine.queue_scripts([Script::body(vec![7; 16 << 20])]);
    let (lease, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    within(run.reply()).await.expect("a head");
    drop(run);
    lab.returned(lease).await;
    assert_closed_first(&lab, lease);
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

/// Never connects, and tells when a connecting began and when the last one was given up.
struct Nowhere(watch::Sender<u32>);

struct Dialling<'a>(&'a watch::Sender<u32>);

impl Connector for Nowhere {
    fn connect<'a>(&'a self, _host: &'a str, _port: u16) -> Connecting<'a> {
        self.0.send_modify(|dialling| *dialling += 1);
        let dialling = Dialling(&self.0);
        Box::pin(async move {
            let _until_dropped = dialling;
            std::future::pending().await
        })
    }
}

impl Drop for Dialling<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|dialling| *dialling -= 1);
    }
}

#[tokio::test]
async fn a_cancel_while_connecting_gives_the_connecting_up() {
    let (dialling, mut seen) = watch::channel(0);
    let lab = Lab::start_with(Arc::new(Nowhere(dialling)), [openai("llama", "http://127.0.0.1:1", 1)]).await;
    for _ in 0..3 {
        let (lease, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
        tokio::select! {
            reply = run.reply() => panic!("nothing answers: {reply:?}"),
            found = within(seen.wait_for(|dialling| *dialling == 1)) => drop(found.expect("the connector lives")),
        }
        drop(run);
        lab.returned(lease).await;
        assert_eq!(*seen.borrow(), 0);
    }
}

/// A server that accepts connections and reads nothing.
async fn deaf_server() -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("a bound socket"));
    let server = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            accepted.push(stream);
        }
    });
    (endpoint, server)
}

#[tokio::test]
async fn a_cancel_is_seen_behind_an_upload_that_the_server_does_not_take() {
    let (endpoint, server) = deaf_server().await;
    let lab = Lab::start([openai("llama", &endpoint, 1)]).await;
    let body = vec![7; 48 << 20];
    let (lease, mut run) = lab.open("llama", tunnel("POST", "/v1/audio"), &body).await;
    let begun = std::time::Instant::now();
    tokio::select! {
        reply = run.reply() => panic!("nothing answers: {reply:?}"),
        () = lab.journal.wait_for(Event::Opened) => {}
    }
    // Long enough for every buffer on the way to be full.
    assert!(tokio::time::timeout(Duration::from_millis(300), run.reply()).await.is_err());
    drop(run);
    lab.returned(lease).await;
    assert_closed_first(&lab, lease);
    assert!(begun.elapsed() < Duration::from_secs(9), "not by the edge closing the connection");
    assert_eq!(lab.link.at_edge.close_reason(), None);
    server.abort();
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_the_request_body_ends_the_run() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    for (body_len, sent) in [(1000, 10), (4 << 20, 100_000)] {
        let (mut send, mut recv) = lab.link.at_edge.open_bi().await.expect("a stream");
        let request = tunnel("POST", "/v1/chat/completions");
        let head = RunHead { lease: 0, generation: GENERATION, provider: "llama".into(), request, body_len };
        let head = wire::encode(&[], &head, RUN_HEAD_BYTES).expect("a small head");
        send.write_all_chunks(&mut [head, Bytes::from(vec![7; sent])]).await.expect("an open stream");
        assert!(tokio::time::timeout(Duration::from_millis(20), recv.read_chunk(1, true)).await.is_err());
        send.reset(StreamCode::ClientGone.wire()).expect("an open stream");
        let end = within(recv.read_chunk(1, true)).await.expect_err("a reset");
        assert!(format!("{end:?}").contains(&format!("Reset({})", StreamCode::Cancelled.wire())), "{end:?}");
        assert_eq!(lab.chat("llama").await.answer().0, 200);
    }
}

#[tokio::test]
async fn a_cancelled_normalized_run_frees_its_place() {
    let lab = Lab::start([echo("echo", 9, 600_000, 1)]).await;
    for _ in 0..10 {
        let (lease, mut run) = lab.open("echo", normalized(Operation::Chat), CHAT).await;
        within(run.reply()).await.expect("the first word, while the second is far away");
        drop(run);
        lab.returned(lease).await;
    }
}

#[tokio::test]
async fn a_lost_connection_aborts_its_runs() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    engine.set_script(Script::silence());
    let (_, run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    let run = tokio::spawn(Outcome::of(run));
    engine.wait_received(1, DEADLINE).await;
    lab.link.at_node.close(0u8.into(), b"");
    engine.wait_closed(0, DEADLINE).await;
    run.await.expect("no panic").lost();
    assert_eq!(lab.journal.count(Event::Closed), 1);
}
