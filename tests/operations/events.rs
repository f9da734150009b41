//! The stream of events: what it tells, and that nobody waits for who does not read it.

use crate::lab::{DEADLINE, Lab, MODELS, NODE, PROVIDER, chat, plan};
use crate::subscriber::{Stalled, Subscriber};
use iop_tests::engine::Engine;
use iop_tests::http::Connection;
use iop_tests::process::Signal;
use serde_json::json;

// [lease-lifecycle] [snapshot-source]
#[tokio::test]
async fn the_stream_tells_each_lease_and_each_wait_in_the_order_of_the_decisions() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1)).await;
    let mut events = Subscriber::open(&lab).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let first = events.next().await;
    let acquired = |lease: u64, ticket: u64, model: &str| {
        json!({"event": "lease_acquired", "lease": lease, "ticket": ticket, "model": model, "node": NODE,
            "provider": PROVIDER, "long": false})
    };
    let number = |name: &str| first[name].as_u64().expect("a number");
    let (lease, ticket) = (number("lease"), number("ticket"));
    assert_eq!(first, acquired(lease, ticket, MODELS[0]));

    let waits = lab.enqueue(chat(MODELS[1], "waits")).await;
    let leaves = lab.enqueue(chat(MODELS[1], "leaves")).await;
    leaves.give_up();
    lab.wait_for_queue(1).await;
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    assert_eq!(waits.answer().await.status, 200);
    for expected in [
        json!({"event": "request_queued", "ticket": ticket + 1}),
        json!({"event": "request_queued", "ticket": ticket + 2}),
        json!({"event": "request_cancelled", "ticket": ticket + 2}),
        json!({"event": "lease_released", "lease": lease}),
        acquired(lease + 1, ticket + 1, MODELS[1]),
        json!({"event": "lease_released", "lease": lease + 1}),
    ] {
        assert_eq!(events.next().await, expected);
    }
}

/// Requests that pass while nobody reads.
const REQUESTS: u64 = 1_000;
/// Clients that send them, one after the other each.
const CLIENTS: u64 = 10;

// [lease-lifecycle] [snapshot-source]
#[tokio::test]
async fn subscribers_that_read_nothing_slow_nothing_change_nothing_and_are_told_what_they_missed() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 4)).await;
    let mut stalled = [Stalled::open(&lab).await, Stalled::open(&lab).await, Stalled::open(&lab).await];
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let http = lab.http;
        clients.push(tokio::spawn(async move {
            let mut connection = Connection::open(http).await.expect("connected");
            for number in 0..REQUESTS / CLIENTS {
                let model = MODELS[((client + number) % 2) as usize];
                let answer = connection.send(chat(model, "passes")).await.expect("an answer");
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        }));
    }
    for client in clients {
        tokio::time::timeout(3 * DEADLINE, client)
            .await
            .expect("in time")
            .expect("every request is answered");
    }
    let rest = lab.wait_for_rest().await;
    let leases =
        json!({"active": 0, "acquired_total": REQUESTS, "released_total": REQUESTS, "fenced_total": 0});
    assert_eq!(rest["leases"], leases);
    assert!(engine.peak() <= 4, "{}", engine.peak());

    for stalled in &mut stalled {
        let missed = stalled.missed().await["missed"].as_u64().expect("a count");
        // Of at least two events for each request the edge keeps the last 1024.
        assert!(missed >= 2 * REQUESTS - 1024, "{missed}");
    }
}

// [lease-lifecycle] [disconnect-queue-resolution]
#[tokio::test]
async fn a_node_that_leaves_with_a_full_subscriber_leaves_no_lease_and_no_waiter_behind() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 2)).await;
    let mut stalled = Stalled::open(&lab).await;
    let mut connection = Connection::open(lab.http).await.expect("connected");
    for _ in 0..1_100 {
        let refused = connection.send(chat("no-such-model", "fills the ring")).await.expect("an answer");
        assert_eq!(refused.status, 404);
    }
    engine.hold();
    let running =
        [lab.occupy(&engine, chat(MODELS[0], "0")).await, lab.occupy(&engine, chat(MODELS[1], "1")).await];
    let waiting = lab.enqueue(chat(MODELS[0], "2")).await;
    assert_eq!(lab.stop_node(NODE, Signal::TERM).await, Some(0));
    assert_eq!(waiting.answer().await.status, 503, "nobody is left to run it");
    for running in running {
        assert!(running.answer().await.status.is_server_error());
    }
    lab.wait_for_rest().await;
    let missed = stalled.missed().await["missed"].as_u64().expect("a count");
    assert!(missed >= 1_100 - 1024, "{missed}");
}
