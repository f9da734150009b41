//! The node's own limit per provider, whatever the edge sends ([tunnel-guard]).

use super::lab::{CHAT, DEADLINE, Lab, Outcome, STREAM, chunk, echo, normalized, openai, tunnel, within};
use iop_tests::engine::{Engine, Script};
use iop_transport::wire::{Operation, RefusalReason, RunReply};

/// The refusal of a run that came to a full gate.
fn full(detail: &str) -> (RefusalReason, String) {
    (RefusalReason::GateFull, detail.to_owned())
}

async fn refused(outcome: impl Future<Output = Outcome>) -> (RefusalReason, String) {
    let refusal = outcome.await.refusal();
    (refusal.reason, refusal.detail)
}

/// [tunnel-guard]
#[tokio::test]
async fn the_second_tunnel_of_a_peer_that_bypasses_admission_is_refused_and_reaches_no_engine() {
    let engine = Engine::start();
    engine.hold();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let (_, first) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    let first = tokio::spawn(Outcome::of(first));
    engine.wait_held(1, DEADLINE).await;
    for _ in 0..3 {
        let refusal = refused(lab.chat("llama")).await;
        assert_eq!(refusal, full("provider llama on this node runs 1 of 1"));
    }
    engine.release_all();
    assert_eq!(first.await.expect("no panic").answer().0, 200);
    assert_eq!((engine.look(|log| log.requests.len()), engine.peak()), (1, 1));
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

/// [tunnel-guard]
#[tokio::test]
async fn tunnel_and_normalized_runs_of_one_provider_share_its_gate() {
    let engine = Engine::start();
    engine.hold();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1), echo("echo", 2, 600_000, 1)]).await;

    let (_, first) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    let first = tokio::spawn(Outcome::of(first));
    engine.wait_held(1, DEADLINE).await;
    let (_, second) = lab.open("llama", normalized(Operation::Chat), CHAT).await;
    assert_eq!(refused(Outcome::of(second)).await, full("provider llama on this node runs 1 of 1"));

    let (lease, mut first_said) = lab.open("echo", normalized(Operation::Chat), CHAT).await;
    assert_eq!(within(first_said.reply()).await, Ok(RunReply::Started));
    assert_eq!(refused(lab.chat("echo")).await, full("provider echo on this node runs 1 of 1"));

    // The gates are each provider's own, and open again with the run that filled them.
    drop(first_said);
    lab.returned(lease).await;
    assert_eq!(refused(lab.chat("echo")).await.0, RefusalReason::UnknownProvider);
    engine.release_all();
    assert_eq!(first.await.expect("no panic").answer().0, 200);
    let (_, second) = lab.open("llama", normalized(Operation::Chat), CHAT).await;
    assert_eq!(refused(Outcome::of(second)).await.0, RefusalReason::UnknownProvider);
}

#[tokio::test]
async fn capacity_changes_apply_to_the_gate_in_place() {
    let engine = Engine::start();
    engine.hold();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 2)]).await;
    let mut held = Vec::new();
    for count in 1..=2 {
        let (_, run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
        held.push(tokio::spawn(Outcome::of(run)));
        engine.wait_held(count, DEADLINE).await;
    }
    lab.apply([openai("llama", &engine.endpoint(), 1)]);
    assert_eq!(lab.providers.total_capacity(), 1);
    assert_eq!(refused(lab.chat("llama")).await, full("provider llama on this node runs 2 of 1"));
    lab.apply([openai("llama", &engine.endpoint(), 3)]);
    assert_eq!(lab.providers.total_capacity(), 3);
    let (_, run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    held.push(tokio::spawn(Outcome::of(run)));
    engine.wait_held(3, DEADLINE).await;
    engine.release_all();
    for run in held {
        assert_eq!(run.await.expect("no panic").answer().0, 200, "no change ends a run in flight");
    }
}

#[tokio::test]
async fn runs_of_a_provider_that_left_or_moved_end_by_themselves_and_go_on_counting() {
    let (old, new) = (Engine::start(), Engine::start());
    old.hold();
    let lab = Lab::start([openai("llama", &old.endpoint(), 1)]).await;
    let (_, first) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    let first = tokio::spawn(Outcome::of(first));
    old.wait_held(1, DEADLINE).await;

    lab.apply([]);
    assert_eq!(lab.providers.total_capacity(), 0);
    assert_eq!(refused(lab.chat("llama")).await.0, RefusalReason::UnknownProvider);
    lab.apply([openai("llama", &new.endpoint(), 1)]);
    assert_eq!(refused(lab.chat("llama")).await, full("provider llama on this node runs 1 of 1"));

    old.release_all();
    assert_eq!(first.await.expect("no panic").answer().0, 200);
    assert_eq!(lab.chat("llama").await.answer().0, 200);
    assert_eq!(new.look(|log| log.requests.len()), 1);
}

#[tokio::test]
async fn an_unchanged_provider_keeps_its_connections_when_the_list_is_applied_again() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    for capacity in [1, 1, 3, 2] {
        lab.apply([openai("llama", &engine.endpoint(), capacity)]);
        assert_eq!(lab.chat("llama").await.answer().0, 200);
    }
    assert_eq!(engine.look(|log| log.connections_opened), 1);
    lab.apply([]);
    engine.wait_until("no connection", DEADLINE, |log| log.connections_open == 0).await;
}

#[tokio::test]
async fn a_long_answer_holds_its_place_until_its_last_byte() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    engine.set_script(Script::answer().cut(1, iop_tests::engine::Then::Hold));
    let (_, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), STREAM).await;
    within(run.reply()).await.expect("a head");
    chunk(&mut run).await.expect("the first event");
    engine.wait_held(1, DEADLINE).await;
    assert_eq!(refused(lab.chat("llama")).await.0, RefusalReason::GateFull);
    engine.release_all();
    while chunk(&mut run).await.expect("the rest").is_some() {}
    engine.set_script(Script::answer());
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}
