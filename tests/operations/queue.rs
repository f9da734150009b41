//! The one queue in front of all providers, and its policy.

use crate::lab::{DEADLINE, Lab, MODELS, NODE, PROVIDER, chat, code, plan, provider, texts};
use iop_tests::engine::Engine;
use serde_json::json;
use std::time::{Duration, Instant};

/// A queue timeout that no test waits for.
const NEVER_MS: u64 = 600_000;

// [provider-state] [cross-group-wakeup]
#[tokio::test]
async fn fifty_requests_of_two_models_on_one_slot_run_one_at_a_time_in_the_order_of_their_arrival() {
    let engine = Engine::start();
    // The second model has a second candidate, which is off: so the models' requests are no equals, and still keep one order.
    let plan = plan(&engine, 1)
        .provider(NODE, "off", &engine.endpoint(), 1)
        .edge_value("/nodes/0/providers/1/enabled", json!(false));
    let candidates = [PROVIDER, "off"].map(|provider| json!({"node": NODE, "provider": provider}));
    let lab = Lab::start(plan.edge_value("/models/1/candidates", json!(candidates))).await;
    engine.hold();
    let mut sent = vec![lab.occupy(&engine, chat(MODELS[0], "0")).await];
    for number in 1..50 {
        sent.push(lab.enqueue(chat(MODELS[number % 2], &number.to_string())).await);
    }
    let full = lab.wait_for_queue(49).await;
    assert_eq!(provider(&full, NODE, PROVIDER)["in_flight"], 1);
    engine.release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    assert_eq!(engine.peak(), 1, "most requests at the engine at one moment");
    let expected: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(texts(&engine), expected);
    let rest = lab.wait_for_rest().await;
    assert_eq!(rest["leases"]["acquired_total"], 50);
    assert_eq!(rest["leases"]["released_total"], 50);
}

// [queue-ownership]
#[tokio::test]
async fn with_a_max_queue_of_0_a_request_that_cannot_run_is_refused_at_once() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1).edge_value("/provider_pool/max_queue", json!(0))).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let refused = lab.send(chat(MODELS[1], "refused")).answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (429, "queue_full"));
    assert!(refused.header("retry-after-ms").parse::<u64>().expect("milliseconds") > 0, "{refused:?}");
    assert!(refused.text().contains("provider_pool.max_queue"), "{refused:?}");
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    assert_eq!(lab.send(chat(MODELS[1], "free again")).answer().await.status, 200);
    assert_eq!(texts(&engine), ["runs", "free again"]);
}

// [queue-ownership] [refresh-consistency]
#[tokio::test]
async fn a_max_queue_below_the_queues_length_drops_nobody_and_lets_nobody_in() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let mut sent = vec![lab.occupy(&engine, chat(MODELS[0], "runs")).await];
    for number in 0..3 {
        sent.push(lab.enqueue(chat(MODELS[number % 2], &number.to_string())).await);
    }
    lab.reconfigure(|edge| edge["provider_pool"]["max_queue"] = json!(1)).await;
    let snapshot = lab.snapshot().await;
    assert_eq!((&snapshot["queue"]["length"], &snapshot["queue"]["max"]), (&json!(3), &json!(1)));
    let refused = lab.send(chat(MODELS[0], "late")).answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (429, "queue_full"));
    engine.release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    assert_eq!(texts(&engine), ["runs", "0", "1", "2"]);
}

// [queue-ownership]
#[tokio::test]
async fn a_queue_timeout_comes_by_itself_when_nothing_else_happens() {
    const TIMEOUT: Duration = Duration::from_millis(700);
    let engine = Engine::start();
    let timeout = json!(TIMEOUT.as_millis() as u64);
    let lab = Lab::start(plan(&engine, 1).edge_value("/provider_pool/queue_timeout_ms", timeout)).await;
    engine.hold();
    let _running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let begun = Instant::now();
    let refused = lab.send(chat(MODELS[1], "waits")).answer().await;
    assert!(begun.elapsed() >= TIMEOUT, "{:?}", begun.elapsed());
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (503, "queue_timeout"));
    assert!(refused.header("retry-after-ms").parse::<u64>().expect("milliseconds") > 0, "{refused:?}");
    let snapshot = lab.snapshot().await;
    assert_eq!((&snapshot["queue"]["length"], &snapshot["leases"]["active"]), (&json!(0), &json!(1)));
}

// [queue-ownership] [refresh-consistency]
#[tokio::test]
async fn a_shorter_queue_timeout_ends_the_wait_of_those_that_wait_already() {
    let engine = Engine::start();
    let mut lab =
        Lab::start(plan(&engine, 1).edge_value("/provider_pool/queue_timeout_ms", json!(NEVER_MS))).await;
    engine.hold();
    let _running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let first = lab.enqueue(chat(MODELS[1], "first")).await;
    let second = lab.enqueue(chat(MODELS[0], "second")).await;
    lab.reconfigure(|edge| edge["provider_pool"]["queue_timeout_ms"] = json!(1)).await;
    for sent in [first, second] {
        let refused = sent.answer().await;
        assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (503, "queue_timeout"));
    }
}

// [queue-ownership] [refresh-consistency]
#[tokio::test]
async fn a_longer_queue_timeout_lets_those_that_wait_already_wait_on() {
    const SHORT_MS: u64 = 3_000;
    let engine = Engine::start();
    let mut lab =
        Lab::start(plan(&engine, 1).edge_value("/provider_pool/queue_timeout_ms", json!(SHORT_MS))).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let waiting = lab.enqueue(chat(MODELS[1], "waits")).await;
    lab.reconfigure(|edge| edge["provider_pool"]["queue_timeout_ms"] = json!(NEVER_MS)).await;
    lab.wait_for("a wait past the old timeout", |snapshot| {
        snapshot["queue"]["oldest_wait_ms"].as_u64().expect("milliseconds") > SHORT_MS + 500
    })
    .await;
    assert!(waiting.is_pending());
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    assert_eq!(waiting.answer().await.status, 200);
    lab.wait_for_rest().await;
}

// [lease-lifecycle]
#[tokio::test]
async fn two_hundred_requests_at_once_on_one_slot_are_all_answered_and_leave_nothing_behind() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1)).await;
    let sent: Vec<_> = (0..200).map(|number| lab.send(chat(MODELS[number % 2], "at once"))).collect();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    assert_eq!(engine.peak(), 1);
    engine.wait_idle(DEADLINE).await;
    assert_eq!(lab.wait_for_rest().await["leases"]["acquired_total"], 200);
}
