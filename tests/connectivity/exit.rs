//! A node's process ends while it runs one request and a hundred wait for it.

use crate::clients::{Client, assert_ran_at_most_once, assert_unavailable, begun, call};
use crate::events::Events;
use crate::lab::{
    DEADLINE, IDLE, IOP, NODE, SLOWNESS, alone, among_others, figure, node_of, quick, usual, wait_at_rest,
    wait_queue,
};
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script, Then};
use iop_tests::http::{Call, Streaming, send};
use iop_tests::process::Signal;
use std::time::{Duration, Instant};

const WAITERS: usize = 100;

/// Median time from the signal until the last waiter is resolved. The signal comes before the close.
const RESOLVED: Duration = Duration::from_millis(50);

/// Median time from the signal until the last client has its answer.
const ANSWERED: Duration = Duration::from_millis(50).saturating_mul(SLOWNESS);

/// A running request in the middle of its answer, and a hundred waiting ones.
async fn run_and_queue(
    deployment: &Deployment,
    engine: &Engine,
    stream: bool,
    round: &str,
) -> (Streaming, Vec<Client>) {
    engine.set_script(Script::stream(5, Duration::ZERO).cut(if stream { 2 } else { 1 }, Then::Hold));
    let (running, _) = begun(deployment.http, call(&format!("{round} running"), stream), "{").await;
    let waiters = Client::send_many(deployment.http, round, WAITERS);
    wait_queue(deployment, WAITERS).await;
    (running, waiters)
}

/// The client of the broken run gets an error and no clean end.
async fn assert_broken(mut running: Streaming, stream: bool) {
    let (events, end) = running.events().await;
    if !stream {
        assert!(end.is_err(), "a plain answer is cut, so that nobody takes it for complete");
        return;
    }
    let last = &events.last().expect("an error event").0;
    assert_eq!(last.json()["error"]["code"], "provider_disconnected", "{last:?}");
    assert!(events.iter().all(|(event, _)| event.data != "[DONE]"), "{events:?}");
}

// [disconnect-exclusion] [disconnect-queue-resolution] [offline-snapshot]
#[tokio::test]
async fn a_node_told_to_stop_is_fenced_and_its_waiters_are_resolved_at_once() {
    let _machine = alone().await;
    let engine = Engine::start();
    let mut deployment = Deployment::start(IOP, usual(&engine, 1)).await;
    let events = Events::subscribe(deployment.admin).await;
    let (mut fenced, mut resolved, mut answered) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = [(Signal::TERM, true), (Signal::INT, true), (Signal::TERM, false), (Signal::INT, false)];
    for (number, (signal, stream)) in rounds.into_iter().enumerate() {
        let round = format!("{signal:?} {stream}");
        let (running, waiters) = run_and_queue(&deployment, &engine, stream, &round).await;
        let told = Instant::now();
        deployment.node(NODE).signal(signal);
        let mut last = told;
        for waiter in waiters {
            let (answer, at) = waiter.answer().await;
            assert_unavailable(&answer);
            last = last.max(at);
        }
        fenced.push(events.wait("node_disconnected", number + 1).await - told);
        resolved.push(events.wait("request_refused", (number + 1) * WAITERS).await - told);
        answered.push(last - told);
        assert_broken(running, stream).await;
        assert_offline(&deployment).await;
        let status = deployment.node(NODE).wait_for_exit(DEADLINE).await;
        assert_eq!(status.code(), Some(0), "{round}");
        engine.wait_idle(DEADLINE).await;
        deployment.start_node(NODE).await;
    }
    figure("node told to stop: from the signal to its fence", fenced);
    let resolved = figure("node told to stop: from the signal to the last of 100 waiters resolved", resolved);
    let answered = figure("node told to stop: from the signal to the last of 100 answers", answered);
    assert!(resolved <= RESOLVED, "{resolved:?}");
    assert!(answered <= ANSWERED, "{answered:?}");
    assert_ran_at_most_once(&engine, &[]);
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}

/// The snapshot and the list of models show a configured node that is not there.
async fn assert_offline(deployment: &Deployment) {
    let snapshot = deployment.snapshot().await;
    let node = node_of(&snapshot, NODE);
    assert_eq!(
        (&node["connected"], &node["status"], &node["health"]),
        (&false.into(), &"unavailable".into(), &"offline".into())
    );
    let provider = &node["providers"][0];
    assert_eq!((&provider["status"], &provider["health"]), (&"unavailable".into(), &"offline".into()));
    for counter in ["effective_capacity", "in_flight", "long_in_flight", "queued", "long_queued"] {
        assert_eq!(provider[counter], 0, "{counter}: {provider}");
    }
    let models = send(deployment.http, Call::get("/v1/models")).await.expect("the edge answers");
    assert_eq!(models.json()["data"][0]["id"], "m", "an offline model is still listed");
}

// [disconnect-exclusion] [disconnect-queue-resolution]
#[tokio::test]
async fn a_killed_node_is_fenced_within_the_idle_timeout_and_a_second() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let mut deployment = Deployment::start(IOP, quick(usual(&engine, 1), &[NODE])).await;
    let events = Events::subscribe(deployment.admin).await;
    let (running, waiters) = run_and_queue(&deployment, &engine, true, "killed").await;
    let killed = Instant::now();
    assert_eq!(deployment.stop_node(NODE, Signal::KILL).await, None);
    let mut last = killed;
    for waiter in waiters {
        let (answer, at) = waiter.answer().await;
        assert_unavailable(&answer);
        last = last.max(at);
    }
    assert_broken(running, true).await;
    figure(
        "node killed, idle timeout 5 s: until it is fenced",
        [events.wait("node_disconnected", 1).await - killed],
    );
    let took = last - killed;
    figure("node killed, idle timeout 5 s: until the last of 100 answers", [took]);
    assert!(took <= IDLE + Duration::from_secs(1), "{took:?}");
    assert_offline(&deployment).await;
    wait_at_rest(&deployment).await;
}
