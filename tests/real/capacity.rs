//! A llama.cpp server with two slots behind a provider of capacity 2: waiting happens in the edge, never in the server,
//! and a slot is free as soon as its client is gone.

use crate::lab::{DEADLINE, deploy, wait_for_no_lease, wait_for_queue};
use crate::llama::{Llama, SLOTS, Work};
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::http::{Call, Streaming, open, send};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Tokens nobody waits for: the tiny model takes minutes for them.
const ENDLESS_TOKENS: u32 = 30_000;
/// Tokens that take the tiny model about a second.
const MANY_TOKENS: u32 = 2_000;

/// A llama.cpp server looks after the client of a whole answer when nothing has happened in it for a second, and being
/// asked for its metrics counts as something.
const LOOK_INTERVAL: Duration = Duration::from_millis(1500);

fn chat(tokens: u32, stream: bool) -> Call {
    let messages = json!([{"role": "user", "content": "hello"}]);
    let body = json!({"model": "tiny", "stream": stream, "ignore_eos": true, "max_tokens": tokens,
        "messages": messages});
    Call::post("/v1/chat/completions", &body)
}

async fn start(llama: &Llama) -> Deployment {
    let plan = Plan::new().provider("gpu-a", "llama", &llama.endpoint(), 2);
    deploy(plan.model("tiny", &[("gpu-a", "llama")], "tiny")).await
}

async fn endless(server: SocketAddr) -> Streaming {
    let mut stream = open(server, chat(ENDLESS_TOKENS, true)).await.expect("the stream begins");
    assert_eq!(stream.status, 200);
    stream.next().await.expect("tokens flow").expect("the stream goes on");
    stream
}

/// The most that was at work and that waited inside the server while six requests at once were answered.
async fn six_at_once(llama: &Llama, server: SocketAddr) -> Work {
    let calls: Vec<_> = (0..6).map(|_| tokio::spawn(send(server, chat(MANY_TOKENS, false)))).collect();
    let (mut most, begun) = (Work { processing: 0, deferred: 0 }, Instant::now());
    while !calls.iter().all(tokio::task::JoinHandle::is_finished) {
        let now = llama.work().await;
        most.processing = most.processing.max(now.processing);
        most.deferred = most.deferred.max(now.deferred);
        assert!(begun.elapsed() < 3 * DEADLINE, "the calls do not end: {most:?}");
    }
    for call in calls {
        let answer = call.await.expect("the call ended").expect("an answer");
        assert_eq!(answer.json()["usage"]["completion_tokens"], MANY_TOKENS, "{answer:?}");
    }
    most
}

/// [provider-state] [queue-ownership] The control comes first: without iop the server queues, and its metrics say so.
#[tokio::test]
async fn six_requests_at_once_wait_in_the_edge_and_never_in_a_server_with_two_slots() {
    let llama = Llama::start().await;
    let direct = six_at_once(&llama, llama.address).await;
    assert!(direct.deferred > 0, "without iop requests wait inside the server: {direct:?}");

    let iop = start(&llama).await;
    let through = six_at_once(&llama, iop.http).await;
    assert_eq!(through, Work { processing: SLOTS, deferred: 0 });
    wait_for_no_lease(&iop).await;
    let leases = iop.snapshot().await["leases"].take();
    assert_eq!((&leases["acquired_total"], &leases["released_total"]), (&json!(6), &json!(6)));
    iop.shut_down().await;
}

/// [lease-lifecycle] [cross-group-wakeup]
#[tokio::test]
async fn a_cancelled_stream_frees_its_slot_for_the_request_that_waits() {
    let llama = Llama::start().await;
    let iop = start(&llama).await;
    let mut streams = vec![endless(iop.http).await, endless(iop.http).await];
    llama.wait_for_busy_slots(2).await;
    let third = tokio::spawn(endless(iop.http));
    wait_for_queue(&iop, 1).await;

    streams.pop();
    let third = third.await.expect("the third stream begins in the freed slot");
    llama.wait_for_busy_slots(2).await;
    assert_eq!(llama.work().await.deferred, 0);
    drop((streams, third));
    llama.wait_for_busy_slots(0).await;
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

/// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_hangs_up_before_its_answer_frees_its_slot() {
    let llama = Llama::start().await;
    let iop = start(&llama).await;
    let waiting = tokio::spawn(send(iop.http, chat(ENDLESS_TOKENS, false)));
    wait_until_async("one request at work", DEADLINE, async || {
        let work = llama.work().await;
        if work.processing == 1 { Ok(()) } else { Err(work) }
    })
    .await;
    waiting.abort();
    wait_for_no_lease(&iop).await;
    let begun = Instant::now();
    while llama.work().await.processing > 0 {
        assert!(begun.elapsed() < DEADLINE, "the slot is still taken");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    iop.shut_down().await;
}
