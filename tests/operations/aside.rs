//! An inference server that dies and comes back, beside one that lives: it draws no traffic because it looks idle, and the
//! snapshot does not call it healthy.

use crate::lab::{Lab, NODE, chat, code, provider};
use iop_tests::deployment::Plan;
use iop_tests::engine::Engine;
use serde_json::{Value, json};

const MODEL: &str = "on-both";

/// Node [`NODE`] with provider `first`, which is always preferred, and provider `other`; both run [`MODEL`].
fn plan(first: &Engine, other: &Engine) -> Plan {
    Plan::new()
        .provider(NODE, "first", &first.endpoint(), 4)
        .provider(NODE, "other", &other.endpoint(), 4)
        .edge_value("/nodes/0/providers/0/priority", json!(10))
        .model(MODEL, &[(NODE, "first"), (NODE, "other")], "upstream")
        .model("on-first", &[(NODE, "first")], "upstream")
}

fn served(engine: &Engine) -> usize {
    engine.look(|log| log.scripted().count())
}

fn health(snapshot: &Value) -> (&str, &str) {
    let view = provider(snapshot, NODE, "first");
    (view["status"].as_str().expect("a word"), view["health"].as_str().expect("a word"))
}

async fn ask(lab: &Lab, text: &str) {
    let answer = lab.send(chat(MODEL, text)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

// [cross-group-wakeup] [snapshot-source]
#[tokio::test]
async fn a_dead_server_is_not_asked_each_time_and_one_trial_brings_it_back() {
    let [first, other] = [Engine::start(), Engine::start()];
    let lab = Lab::start(plan(&first, &other)).await;
    ask(&lab, "the first is preferred").await;
    assert_eq!((served(&first), served(&other)), (1, 0));

    first.crash();
    for number in 0..30 {
        ask(&lab, &number.to_string()).await;
    }
    assert_eq!((served(&first), served(&other)), (1, 30), "every client was served");
    let snapshot = lab.wait_for_rest().await;
    assert_eq!(health(&snapshot), ("available", "unreachable"));
    let view = provider(&snapshot, NODE, "first");
    assert!(view["aside_ms"].is_u64(), "{view:#}");
    // Each attempt takes a lease: 31 have served, and the others were the failures. Eight would take two minutes.
    let attempts = snapshot["leases"]["acquired_total"].as_u64().expect("a count") - 31;
    assert_eq!(view["failures"], attempts, "{view:#}");
    assert!((1..8).contains(&attempts), "{attempts} attempts on a dead server");

    first.listen_again();
    first.hold();
    lab.wait_for("time for a trial", |snapshot| provider(snapshot, NODE, "first")["aside_ms"] == 0).await;
    let trial = lab.occupy(&first, chat(MODEL, "trial")).await;
    for number in 0..3 {
        ask(&lab, &format!("beside the trial {number}")).await;
    }
    assert_eq!((first.held(), served(&other)), (1, 33), "one trial at a time");
    first.release_all();
    assert_eq!(trial.answer().await.status, 200);
    let snapshot =
        lab.wait_for("the first back", |snapshot| health(snapshot) == ("available", "online")).await;
    let view = provider(&snapshot, NODE, "first");
    assert_eq!((&view["aside_ms"], &view["failures"]), (&Value::Null, &json!(0)));
    ask(&lab, "the first is preferred again").await;
    assert_eq!((served(&first), served(&other)), (3, 33));
}

// [disconnect-queue-resolution]
#[tokio::test]
async fn a_request_that_has_only_the_dead_server_fails_at_once_and_is_served_as_soon_as_it_is_back() {
    let [first, other] = [Engine::start(), Engine::start()];
    let lab = Lab::start(plan(&first, &other)).await;
    first.crash();
    for _ in 0..5 {
        let answer = lab.send(chat("on-first", "nobody")).answer().await;
        assert_eq!((answer.status.as_u16(), code(&answer).as_str()), (502, "provider_unreachable"));
    }
    assert_eq!(health(&lab.snapshot().await), ("available", "unreachable"));
    first.listen_again();
    let answer = lab.send(chat("on-first", "somebody")).answer().await;
    assert_eq!(answer.status, 200, "it does not wait for the time to end");
    lab.wait_for("the first back", |snapshot| health(snapshot) == ("available", "online")).await;
}

// The server's own node leaves and comes back meanwhile.
#[tokio::test]
async fn a_provider_set_aside_that_loses_its_node_is_offline_and_comes_back_online() {
    let [first, other] = [Engine::start(), Engine::start()];
    let mut lab = Lab::start(plan(&first, &other)).await;
    first.crash();
    ask(&lab, "goes to the other").await;
    assert_eq!(health(&lab.snapshot().await), ("available", "unreachable"));
    lab.stop_node(NODE, iop_tests::process::Signal::TERM).await;
    let is_offline = |snapshot: &Value| health(snapshot) == ("unavailable", "offline");
    let snapshot = lab.wait_for("the node offline", is_offline).await;
    let view = provider(&snapshot, NODE, "first");
    assert_eq!((&view["aside_ms"], &view["failures"]), (&Value::Null, &json!(0)));
    first.listen_again();
    lab.start_node(NODE).await;
    lab.wait_for("it is online", |snapshot| health(snapshot) == ("available", "online")).await;
}
