//! An edge that is started again under twenty nodes.

use crate::lab::{
    DEADLINE, INTERVAL, IOP, KEEP_ALIVE, MODEL, alone, figure, keep_ports, start_edge_again, stop_edge,
    wait_said, wait_snapshot, welcomed,
};
use crate::silence::Silence;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::Engine;
use iop_tests::process::{Process, Signal};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const NODES: usize = 20;

/// What the handshakes of all nodes may take, beyond the time until the nodes dial.
const HANDSHAKES: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 1000 });

fn plan(engine: &Engine) -> Plan {
    let names: Vec<String> = (0..NODES).map(|number| format!("gpu-{number}")).collect();
    let plan = names.iter().fold(Plan::new(), |plan, name| {
        plan.provider(name, "one", &engine.endpoint(), 1).node_value(name, "/keep_alive_ms", json!(1000))
    });
    let candidates: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "one")).collect();
    plan.model(MODEL, &candidates, "up")
}

async fn all_connected(deployment: &Deployment) -> Instant {
    let connected = |node: &Value| node["connected"] == true;
    wait_snapshot(deployment, "all nodes connected", |snapshot| {
        snapshot["nodes"].as_array().expect("a list").iter().filter(|node| connected(node)).count() == NODES
    })
    .await
}

/// Each node has registered once at this edge, and none was refused. A dial that was given up while nobody answered may
/// still say goodbye to the new process, which then sees a handshake that was not finished.
async fn assert_one_registration_each(deployment: &Deployment) {
    wait_said(&deployment.edge, "node connected", NODES).await;
    wait_said(&deployment.edge, "refused", 0).await;
}

/// Connections count as such when they have lasted longer than the interval; then the first dial is immediate.
async fn let_connections_last() {
    tokio::time::sleep(INTERVAL + Duration::from_millis(200)).await;
}

async fn all_say(nodes: &[Process], words: &str) {
    for node in nodes {
        wait_said(node, words, 1).await;
    }
}

// [node-connectivity-supervision]
#[tokio::test]
async fn twenty_nodes_are_back_soon_after_their_edge_and_dial_one_at_a_time() {
    let _machine = alone().await;
    let engine = Engine::start();
    let mut deployment = Deployment::start_edge(IOP, plan(&engine)).await;
    let mut nodes: Vec<Process> =
        (0..NODES).map(|number| deployment.launch_node(&format!("gpu-{number}"))).collect();
    for node in &mut nodes {
        welcomed(node).await;
    }
    keep_ports(&mut deployment);
    let_connections_last().await;

    stop_edge(&mut deployment, Signal::TERM).await;
    // In the edge's place for a while: counts what the nodes send, and answers nothing.
    let silence = Silence::at(deployment.quic.port());
    let dials = silence.listen_until(Duration::from_secs(4)).await;
    println!(
        "measured: dead edge, 20 nodes, 4 s: {} dials, most at once {}",
        dials.sources(),
        dials.most_at_once()
    );
    assert!((NODES..=3 * NODES).contains(&dials.sources()), "{} dials", dials.sources());
    assert!(dials.most_at_once() <= NODES, "one dial at a time for each node");
    drop(silence);
    let ready = start_edge_again(&mut deployment).await;
    let took = all_connected(&deployment).await.saturating_duration_since(ready);
    figure("edge stopped, away 4 s, started again: until all of 20 nodes are back", [took]);
    assert!(took <= INTERVAL + HANDSHAKES, "{took:?}");
    assert_one_registration_each(&deployment).await;
    all_say(&nodes, "is shutting down").await;
    let_connections_last().await;

    stop_edge(&mut deployment, Signal::KILL).await;
    let ready = start_edge_again(&mut deployment).await;
    let took = all_connected(&deployment).await.saturating_duration_since(ready);
    figure("edge killed and started again, keep-alive 1 s: until all of 20 nodes are back", [took]);
    assert!(took <= KEEP_ALIVE + HANDSHAKES, "{took:?}");
    assert_one_registration_each(&deployment).await;
    all_say(&nodes, "has restarted").await;

    for node in &mut nodes {
        node.signal(Signal::TERM);
    }
    for node in &mut nodes {
        assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(0));
    }
}
