//! A node that is back: at once after it was killed, seconds after it went, and as the second candidate of a waiter.

use crate::clients::{
    Client, assert_one_at_a_time, assert_ran_at_most_once, assert_unavailable, begun, call, name_of,
};
use crate::events::Events;
use crate::lab::{
    DEADLINE, IDLE, INTERVAL, IOP, MODEL, NODE, alone, among_others, figure, node_of, quick, usual,
    wait_at_rest, wait_queue, wait_snapshot,
};
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::{Engine, Script, Then};
use iop_tests::http::send;
use iop_tests::process::Signal;
use std::time::{Duration, Instant};

/// From the kill, the start of the new process included.
const BACK: Duration = Duration::from_secs(2);

/// From the Welcome to a request at the engine.
const SERVED: Duration = Duration::from_millis(50);

// [disconnect-exclusion] [reconnect-candidate-recovery]
#[tokio::test]
async fn a_node_restarted_at_once_after_a_kill_is_in_service_long_before_the_idle_timeout() {
    let _machine = alone().await;
    let engine = Engine::start();
    engine.queue_scripts([Script::stream(5, Duration::ZERO).cut(2, Then::Hold)]);
    let mut deployment = Deployment::start(IOP, usual(&engine, 1)).await;
    let (mut running, _) = begun(deployment.http, call("broken", true), "{").await;
    let waiters = Client::send_many(deployment.http, "waiter", 5);
    wait_queue(&deployment, 5).await;

    let killed = Instant::now();
    assert_eq!(deployment.stop_node(NODE, Signal::KILL).await, None);
    let generation = deployment.start_node(NODE).await;
    let mut first = None;
    for waiter in waiters {
        // They outlive the old generation: the new one fenced it, and there was never no candidate.
        let (answer, at) = waiter.answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        first.get_or_insert(at);
    }
    let took = first.expect("there were waiters") - killed;
    figure("node killed and started at once: from the kill to a whole answer", [took]);
    assert!(took <= BACK, "{took:?}");

    let (events, _) = running.events().await;
    assert_eq!(events.last().expect("an error event").0.json()["error"]["code"], "provider_disconnected");
    assert_ran_at_most_once(&engine, &[]);
    let snapshot = deployment.snapshot().await;
    let node = node_of(&snapshot, NODE);
    assert_eq!((&node["status"], &node["generation"]), (&"available".into(), &generation.into()));
    assert!(generation > 1, "a generation of its own");
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}

// [disconnect-queue-resolution] [reconnect-candidate-recovery]
#[tokio::test]
async fn a_node_that_is_back_after_three_seconds_serves_who_comes_then_and_nobody_twice() {
    let _machine = alone().await;
    let engine = Engine::start();
    engine.queue_scripts([Script::stream(5, Duration::ZERO).cut(2, Then::Hold)]);
    let mut deployment = Deployment::start(IOP, usual(&engine, 1)).await;
    let events = Events::subscribe(deployment.admin).await;
    let (mut running, read) = begun(deployment.http, call("broken", true), "{").await;
    let waiters = Client::send_many(deployment.http, "waiter", 20);
    wait_queue(&deployment, 20).await;

    let died = Instant::now();
    assert_eq!(deployment.stop_node(NODE, Signal::TERM).await, Some(0));
    let mut waited = Vec::new();
    for waiter in waiters {
        let (answer, at) = waiter.answer().await;
        assert_unavailable(&answer);
        waited.push(at - died);
    }
    let most = *waited.iter().max().expect("there were waiters");
    assert!(most <= SERVED, "{most:?}");
    let (rest, _) = running.rest().await;
    let text = String::from_utf8_lossy(&read).into_owned()
        + &rest.iter().map(|piece| String::from_utf8_lossy(&piece.bytes).into_owned()).collect::<String>();
    assert_eq!(text.matches("\"content\"").count(), 2, "the two chunks that were sent, once each: {text}");

    // The length of the outage is the case's own; nothing is waited for.
    tokio::time::sleep(Duration::from_secs(3).saturating_sub(died.elapsed())).await;
    let mut process = deployment.launch_node(NODE);
    let mut number = 0;
    let (served, answer) = loop {
        let answer =
            send(deployment.http, call(&format!("late {number}"), false)).await.expect("the edge answers");
        if answer.status == 200 {
            break (Instant::now(), answer);
        }
        assert_unavailable(&answer);
        assert!(died.elapsed() < DEADLINE, "the node is not back");
        number += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert!(number > 0, "requests came before the node was back");
    let welcome = events.wait("node_connected", 1).await;
    figure(
        "node back after 3 s: from the Welcome to a whole answer",
        [served.saturating_duration_since(welcome)],
    );
    assert!(served.saturating_duration_since(welcome) <= SERVED, "{answer:?}");
    crate::lab::welcomed(&mut process).await;
    assert_ran_at_most_once(&engine, &(0..20).map(|number| format!("waiter {number}")).collect::<Vec<_>>());
    wait_at_rest(&deployment).await;
}

// [reconnect-candidate-recovery]
#[tokio::test]
async fn a_waiter_whose_other_candidate_is_full_is_dispatched_by_the_reconnect_alone() {
    let _machine = among_others().await;
    let (full, empty) = (Engine::start(), Engine::start());
    full.hold();
    let plan = Plan::new()
        .provider("gpu-full", "one", &full.endpoint(), 1)
        .provider("gpu-late", "one", &empty.endpoint(), 1)
        .model(MODEL, &[("gpu-full", "one"), ("gpu-late", "one")], "up");
    let mut deployment = Deployment::start_edge(IOP, plan).await;
    deployment.start_node("gpu-full").await;
    let events = Events::subscribe(deployment.admin).await;
    let first = Client::send(deployment.http, call("first", true));
    full.wait_held(1, DEADLINE).await;
    let second = Client::send(deployment.http, call("second", true));
    wait_queue(&deployment, 1).await;

    deployment.start_node("gpu-late").await;
    let (answer, at) = second.answer().await;
    assert_eq!(answer.status, 200);
    let welcome = events.wait("node_connected", 1).await;
    figure(
        "waiter of a full and a returning node: from the Welcome to its answer",
        [at.saturating_duration_since(welcome)],
    );
    assert_eq!(name_of(&empty.request(0)), "second");
    assert!(!first.is_answered(), "nothing else has moved");
    full.release_all();
    assert_eq!(first.answer().await.0.status, 200);
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}

// [disconnect-exclusion] [disconnect-queue-resolution] [reconnect-candidate-recovery]
#[tokio::test]
async fn a_frozen_node_is_fenced_and_is_back_when_it_thaws() {
    let _machine = among_others().await;
    let engine = Engine::start();
    engine.queue_scripts([Script::stream(5, Duration::ZERO).cut(2, Then::Hold)]);
    let mut deployment = Deployment::start(IOP, quick(usual(&engine, 1), &[NODE])).await;
    let (mut running, _) = begun(deployment.http, call("broken", true), "{").await;
    let waiters = Client::send_many(deployment.http, "waiter", 3);
    wait_queue(&deployment, 3).await;
    let frozen = Instant::now();
    deployment.node(NODE).signal(Signal::STOP);
    for waiter in waiters {
        let (answer, at) = waiter.answer().await;
        assert_unavailable(&answer);
        assert!(at - frozen <= IDLE + Duration::from_secs(1), "{:?}", at - frozen);
    }
    let (events, _) = running.events().await;
    assert_eq!(events.last().expect("an error event").0.json()["error"]["code"], "provider_disconnected");
    assert!(!engine.request(0).broken_off(), "the frozen process still holds its upstream connection");

    let thawed = Instant::now();
    deployment.node(NODE).signal(Signal::CONT);
    let back =
        wait_snapshot(&deployment, "the node back", |snapshot| node_of(snapshot, NODE)["generation"] == 2);
    let back = back.await;
    figure("node frozen for longer than the idle timeout: from its thaw to its Welcome", [back - thawed]);
    assert!(back - thawed <= INTERVAL + Duration::from_secs(1), "{:?}", back - thawed);
    assert!(engine.request(0).broken_off(), "it has ended its old run before it registered");
    let (answer, _) = Client::send(deployment.http, call("later", true)).answer().await;
    assert_eq!(answer.status, 200);
    assert_one_at_a_time(&engine);
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}
