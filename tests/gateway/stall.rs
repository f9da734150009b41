//! Clients that stay connected and read nothing: their run ends after a while, its slot is free, and nobody else notices.

use crate::lab::{DEADLINE, MODEL, chat, connect, deploy, http2, plan, request, text, wait_for_rest};
use iop_tests::deadline::wait_until;
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Reply, Script};
use iop_tests::http::{Call, open};
use serde_json::json;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(1500);

/// More than all buffers on the way hold.
fn endless() -> Script {
    Script { reply: Reply::OpenAi { chunks: 1_000_000, chunk_bytes: 16 << 10 }, ..Script::answer() }
}

async fn start(engine: &Engine, limit: Duration) -> Deployment {
    let limit = json!(limit.as_millis() as u64);
    deploy(plan(engine, 2).edge_value("/http/write_stall_timeout_ms", limit)).await
}

/// A stream beside the stalled one keeps the pace at which it is made.
async fn assert_others_flow(iop: &Deployment, script: &Script) {
    let begun = Instant::now();
    let mut stream = open(iop.http, Call::chat(MODEL, true)).await.expect("the stream begins");
    let (events, end) = stream.events().await;
    end.expect("a clean end");
    let text: String = events.iter().map(|(event, _)| event.text()).collect();
    assert_eq!(text, script.text());
    let gaps = events.windows(2).map(|pair| pair[1].1.duration_since(pair[0].1));
    let longest = gaps.max().expect("several events");
    assert!(longest < Duration::from_millis(500), "a gap of {longest:?} in {:?}", begun.elapsed());
}

/// The edge knows why the run ended; it is not the same as a client that left.
async fn assert_noticed(iop: &Deployment) {
    wait_until("the edge to say why", DEADLINE, || {
        let lines = iop.edge.stderr();
        if lines.iter().any(|line| line.contains("the client stopped reading")) { Ok(()) } else { Err(lines) }
    })
    .await;
}

/// Memory of a process that is in RAM.
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process is there");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the system counts it");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of KiB")
}

// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_stops_reading_loses_its_run_and_no_other_stream_is_slowed() {
    let engine = Engine::start();
    let steady = Script::stream(20, Duration::from_millis(50));
    engine.queue_scripts([endless(), steady.clone()]);
    let mut iop = start(&engine, LIMIT).await;
    let mut stalled = open(iop.http, Call::chat(MODEL, true)).await.expect("the stream begins");
    stalled.next().await.expect("the stream flows").expect("a piece");
    assert_others_flow(&iop, &steady).await;
    for process in [iop.edge.id(), iop.node("gpu-a").id()] {
        let kib = resident_kib(process);
        assert!(kib < 128 << 10, "what nobody reads is not fetched: {kib} KiB");
    }
    engine.wait_closed(0, DEADLINE).await;
    assert_noticed(&iop).await;
    wait_for_rest(&iop).await;
    let (_pieces, end) = stalled.rest().await;
    end.expect_err("what it had not read is not taken for the whole answer");
    iop.shut_down().await;
}

#[tokio::test]
async fn a_client_that_stops_reading_one_stream_of_http2_keeps_the_others() {
    let engine = Engine::start();
    let steady = Script::stream(20, Duration::from_millis(50));
    engine.queue_scripts([endless(), steady.clone()]);
    let iop = start(&engine, LIMIT).await;
    let mut sender = http2(connect(iop.http).await, 64 << 10).await;
    let body = || chat(true).to_string();
    let stalled = request(&mut sender, "POST", "/v1/chat/completions", body()).await;
    assert_eq!(stalled.status(), 200);
    let answer = request(&mut sender, "POST", "/v1/chat/completions", body()).await;
    let received = text(answer).await;
    assert_eq!(received.matches("\"content\"").count(), 20, "{received}");
    engine.wait_closed(0, DEADLINE).await;
    assert_noticed(&iop).await;
    wait_for_rest(&iop).await;
    let answer = request(&mut sender, "POST", "/v1/chat/completions", body()).await;
    assert!(text(answer).await.ends_with("data: [DONE]\n\n"), "the connection goes on");
    drop(stalled);
    iop.shut_down().await;
}

#[tokio::test]
async fn a_silent_provider_is_no_stalled_client() {
    let engine = Engine::start();
    let slow = Script::stream(3, Duration::from_millis(1200));
    engine.set_script(slow.clone());
    let iop = start(&engine, Duration::from_millis(400)).await;
    let mut stream = open(iop.http, Call::chat(MODEL, true)).await.expect("the stream begins");
    let mut sender = http2(connect(iop.http).await, 64 << 10).await;
    let answer = request(&mut sender, "POST", "/v1/chat/completions", chat(true).to_string()).await;
    let (events, received) = tokio::join!(stream.events(), text(answer));
    events.1.expect("a clean end");
    assert!(received.ends_with("data: [DONE]\n\n"));
    iop.shut_down().await;
}

#[tokio::test]
async fn a_slow_reader_that_goes_on_reading_is_left_alone() {
    let engine = Engine::start();
    let length = 4 << 20;
    engine.set_script(Script::body(vec![b'x'; length]));
    let iop = start(&engine, Duration::from_secs(3)).await;
    let mut answer = open(iop.http, Call::chat(MODEL, false)).await.expect("the answer begins");
    let mut received = 0;
    while let Some(piece) = answer.next().await.expect("the answer goes on") {
        received += piece.bytes.len();
        // A pace of the client's, not a wait for anything.
        tokio::time::sleep(Duration::from_millis(20) * (piece.bytes.len() / 16384) as u32).await;
    }
    assert_eq!(received, length);
    iop.shut_down().await;
}
