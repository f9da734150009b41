//! Edges that are absent, late, silent or somewhere else, and a shutdown in the middle of it.

use crate::edge::Edge;
use crate::log::Log;
use crate::node::{Names, Plan, Silence, TestNode};
use crate::pki::Pki;
use iop_node::Exit;
use iop_transport::codes::CloseCode;
use iop_transport::endpoint;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest that a node may take to end. Nothing here has anything to drain.
const STOPPING: Duration = Duration::from_millis(1500);

fn named(max_attempts: u32, interval_sec: u32) -> Plan {
    Plan { addresses: vec!["edge.test:7443".into()], max_attempts, interval_sec }
}

fn start(plan: &Plan, pki: &Pki, names: &Arc<Names>) -> TestNode {
    let mut options = plan.options(&pki.bundle("gpu-a"));
    options.resolver = Arc::clone(names) as Arc<_>;
    TestNode::run(options)
}

// [node-connectivity-supervision]
#[tokio::test(start_paused = true)]
async fn an_absent_edge_is_dialed_exactly_as_often_as_allowed_at_the_interval() {
    let pki = Pki::new();
    let silence = Silence::new();
    for (attempts, interval_sec) in [(1, 10), (3, 10), (10, 10), (4, 0)] {
        let names = Names::new([Some(vec![silence.address()])]);
        let started = Instant::now();
        let node = start(&named(attempts, interval_sec), &pki, &names);
        let exit = node.late_exit().await;
        assert_eq!((exit, exit.code()), (Exit::Exhausted, 3));
        assert_eq!(names.asked(), attempts as usize);
        let least = Duration::from_secs(u64::from((attempts - 1) * interval_sec));
        let took = started.elapsed();
        assert!(took >= least && took < least + Duration::from_secs(15), "{attempts} attempts in {took:?}");
    }
}

// [node-connectivity-supervision]
#[tokio::test(start_paused = true)]
async fn a_name_that_resolves_long_after_a_bounded_policy_had_given_up_is_found_and_registered_once() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let unknown = std::iter::repeat_n(None, 50);
    let names = Names::new(unknown.chain([Some(vec![edge.address])]));
    let mut node = start(&named(0, 10), &pki, &names);
    let started = Instant::now();
    let mut guest = edge.late_guest().await;
    assert_eq!(names.asked(), 51);
    assert!(started.elapsed() >= Duration::from_secs(500), "{:?}", started.elapsed());
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    node.welcomed().await;
    assert_eq!(guest.hello.dial, 1, "the edge has heard of one dial");
    assert_eq!((node.unseen_welcomes(), names.asked()), (0, 51), "and there is no other");
    assert_eq!(node.stop().await, Exit::Stopped);
}

// [node-connectivity-supervision]
#[tokio::test(start_paused = true)]
async fn an_edge_that_starts_long_after_the_node_gets_exactly_one_registration() {
    let pki = Pki::new();
    let silence = Silence::new();
    let address = silence.address();
    let names = Names::new([Some(vec![address])]);
    let mut node = start(&named(0, 10), &pki, &names);
    tokio::time::sleep(Duration::from_secs(603)).await;
    assert!(names.asked() >= 60, "{} dials in ten minutes", names.asked());
    drop(silence);
    let edge = Edge::start_at(address, pki.edge());
    let mut guest = edge.guest().await;
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    node.welcomed().await;
    assert_eq!((guest.hello.dial, node.unseen_welcomes()), (1, 0));
    assert_eq!(node.stop().await, Exit::Stopped);
}

// [node-connectivity-supervision]
#[tokio::test(start_paused = true)]
async fn of_two_addresses_the_first_is_dead_and_the_second_serves() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let silence = Silence::new();
    let plan = Plan {
        addresses: vec![silence.address().to_string(), edge.address.to_string()],
        max_attempts: 1,
        interval_sec: 10,
    };
    let mut node = TestNode::start(&plan, &pki);
    let mut guest = edge.guest().await;
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    assert_eq!(node.welcomed().await.edge, edge.address);

    // The address that served is tried first from then on.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let closed = Instant::now();
    guest.close(CloseCode::EdgeShutdown);
    edge.guest().await;
    assert!(closed.elapsed() < Duration::from_secs(1), "{:?}", closed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn of_two_addresses_of_one_name_the_first_is_dead_and_the_second_serves() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let silence = Silence::new();
    let names = Names::new([Some(vec![silence.address(), edge.address])]);
    let mut node = start(&named(1, 10), &pki, &names);
    let mut guest = edge.guest().await;
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    assert_eq!(node.welcomed().await.edge, edge.address);
    assert_eq!(names.asked(), 1);
}

#[tokio::test]
async fn both_address_families_are_dialed() {
    let pki = Pki::new();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let address: SocketAddr = address.parse().expect("an address");
        if address.is_ipv6() && endpoint::bind(address, 1 << 16).is_err() {
            eprintln!("this machine has no IPv6; nothing to show about it");
            continue;
        }
        let edge = Edge::start_at(address, pki.edge());
        let mut node = TestNode::start(&Plan::dial(edge.address), &pki);
        let mut guest = edge.guest().await;
        guest.welcome(1, Vec::new()).await;
        guest.applied().await;
        assert_eq!(node.welcomed().await.edge, edge.address);
        assert_eq!(node.stop().await, Exit::Stopped);
    }
}

#[tokio::test(start_paused = true)]
async fn an_edge_that_never_welcomes_is_given_up_after_some_seconds_and_dialed_again() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let mut node = TestNode::start(&Plan::dial(edge.address), &pki);
    let started = Instant::now();
    let first = edge.guest().await;
    let second = edge.guest().await;
    assert_eq!((first.hello.dial, second.hello.dial), (1, 2));
    assert!(first.connection.close_reason().is_some(), "one connection at a time");
    assert!((5..10).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    assert_eq!(node.unseen_welcomes(), 0);
}

// [node-connectivity-supervision]
#[tokio::test]
async fn shutdown_interrupts_a_wait_a_dial_and_a_connection_at_once() {
    let log = Log::capture();
    let pki = Pki::new();
    let plan = |address| Plan { interval_sec: 3600, ..Plan::dial(address) };

    let edge = Edge::start(&pki);
    let waiting = TestNode::start(&plan(edge.address), &pki);
    let guest = edge.guest().await;
    guest.close(CloseCode::UnknownNode);
    log.wait_for("has no node of this name").await;

    let silence = Silence::new();
    let dialing = TestNode::start(&plan(silence.address()), &pki);
    silence.dialed().await;

    let welcoming = Edge::start(&pki);
    let mut serving = TestNode::start(&plan(welcoming.address), &pki);
    let mut guest = welcoming.guest().await;
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    serving.welcomed().await;

    for (node, what) in [(waiting, "waiting"), (dialing, "dialing"), (serving, "serving")] {
        let told = Instant::now();
        assert_eq!(node.stop().await, Exit::Stopped, "{what}");
        assert!(told.elapsed() < STOPPING, "{what}: {:?}", told.elapsed());
    }
    let Some(iop_transport::ConnectionError::ApplicationClosed(close)) = guest.connection.close_reason()
    else {
        panic!("the node closes its connection before it ends: {:?}", guest.connection.close_reason())
    };
    assert_eq!(CloseCode::from_wire(close.error_code), Some(CloseCode::NodeShutdown));
}

#[tokio::test(start_paused = true)]
async fn the_reason_is_logged_once_per_change_and_not_once_per_attempt() {
    let log = Log::capture();
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let silence = Silence::new();
    let unknown = std::iter::repeat_n(None, 5);
    let silent = std::iter::repeat_n(Some(vec![silence.address()]), 5);
    let names = Names::new(unknown.chain(silent).chain([Some(vec![edge.address])]));
    let node = start(&named(0, 10), &pki, &names);
    let mut guest = edge.late_guest().await;
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    guest.close(CloseCode::EdgeShutdown);
    edge.guest().await.close(CloseCode::EdgeShutdown);
    assert_eq!(node.stop().await, Exit::Stopped);

    let expected = [
        "not connected: the name in edge.test:7443 was not found: there is no host edge.test",
        "not connected: no answer over UDP from edge.test:7443 (127.0.0.1:",
        "connected node=gpu-a",
        "connection lost: the edge at edge.test:7443 (127.0.0.1:",
    ];
    let lines = log.lines_with("connect");
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, words) in lines.iter().zip(expected) {
        assert!(line.contains(words), "{words}: {line}");
    }
}
