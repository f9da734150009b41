//! Why a node is not connected: one line that a person understands, once per change and not once per attempt.

use crate::lab::{
    DEADLINE, IOP, NODE, among_others, keep_ports, start_edge_again, stop_edge, usual, wait_said,
    wait_snapshot, welcomed,
};
use iop_tests::deadline::wait_until;
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;
use iop_tests::http::{Call, send};
use iop_tests::process::{Process, Signal};
use serde_json::json;
use std::time::{Duration, Instant};

const DAY_SEC: i64 = 24 * 60 * 60;

/// Longer than two attempts at the interval of one second.
const SOME_ATTEMPTS: Duration = Duration::from_millis(2500);

/// The lines about the connection, in order.
fn reasons(node: &Process) -> Vec<String> {
    let told = |line: &String| line.contains("connected") || line.contains("connection lost");
    node.stderr().into_iter().filter(told).collect()
}

fn assert_reasons(node: &Process, expected: &[&str]) {
    let lines = reasons(node);
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    assert_begins(&lines, expected);
}

fn assert_begins(lines: &[String], expected: &[&str]) {
    for (line, words) in lines.iter().zip(expected) {
        assert!(line.contains(words), "{words}: {lines:#?}");
    }
}

// [node-connectivity-supervision]
#[tokio::test]
async fn one_process_says_each_change_once_on_its_way_to_an_edge_that_did_not_know_it() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let mut deployment = Deployment::start_edge(IOP, usual(&engine, 1)).await;
    keep_ports(&mut deployment);
    let (mut nodes, mut models) = (json!([]), json!([]));
    deployment.rewrite_edge_config(|edge| {
        std::mem::swap(&mut edge["nodes"], &mut nodes);
        std::mem::swap(&mut edge["models"], &mut models);
    });
    stop_edge(&mut deployment, Signal::TERM).await;
    let mut node = deployment.launch_node(NODE);
    wait_said(&node, "no answer over UDP", 1).await;

    start_edge_again(&mut deployment).await;
    wait_said(&node, "has no node of this name", 1).await;
    let refused = |deployment: &Deployment| {
        deployment.edge.stderr().iter().filter(|line| line.contains("refused a registration")).count()
    };
    wait_until("a second refusal", DEADLINE, || match refused(&deployment) {
        count if count >= 2 => Ok(()),
        count => Err(count),
    })
    .await;
    deployment.rewrite_edge_config(|edge| {
        edge["nodes"] = nodes;
        edge["models"] = models;
    });
    let refreshed = send(deployment.admin, Call::post("/admin/v1/refresh", &json!({}))).await;
    assert_eq!(refreshed.expect("the edge answers").status, 200);
    welcomed(&mut node).await;
    // Longer than the interval, so that the connection counts as one.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    stop_edge(&mut deployment, Signal::TERM).await;
    wait_said(&node, "is shutting down", 1).await;
    // What follows depends on how long the edge takes to go: it refuses, and then there is no answer.
    assert_begins(
        &reasons(&node),
        &[
            "not connected: no answer over UDP from 127.0.0.1:",
            "has no node of this name in its configuration: add it there",
            "connected node=gpu-a",
            "connection lost: the edge at 127.0.0.1:",
        ],
    );
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_name_that_is_not_found_is_named_once() {
    let _machine = among_others().await;
    let plan = usual(&Engine::start(), 1)
        .node_value(NODE, "/edge/addresses", json!(["edge.invalid:7443"]))
        .node_value(NODE, "/reconnect", json!({"max_attempts": 3, "interval_sec": 1}));
    let deployment = Deployment::start_edge(IOP, plan).await;
    let mut node = deployment.launch_node(NODE);
    assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(3));
    assert_reasons(&node, &["not connected: the name in edge.invalid:7443 was not found: "]);
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_points_at_the_clock_and_a_good_one_is_taken_without_a_restart() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let deployment = Deployment::start_edge(IOP, usual(&engine, 1)).await;
    let node_id = NODE.parse().expect("a node's id");
    let issue = |now| iop_certs::issue_node(&deployment.path("pki"), &node_id, 30, now).expect("issued");
    issue(iop_certs::now() + DAY_SEC);
    let begun = Instant::now();
    let mut node = deployment.launch_node(NODE);
    wait_said(&node, "is the clock right?", 1).await;
    // A further attempt is not said, so there is nothing to wait for but its time.
    tokio::time::sleep(SOME_ATTEMPTS.saturating_sub(begun.elapsed())).await;
    assert_reasons(&node, &["not valid yet by this machine's clock: is the clock right?"]);
    issue(iop_certs::now());
    welcomed(&mut node).await;
    assert_reasons(&node, &["is the clock right?", "connected node=gpu-a"]);
    wait_snapshot(&deployment, "one connected node", |snapshot| snapshot["nodes"][0]["connected"] == true)
        .await;
}
