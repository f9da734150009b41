//! A node's certificate is revoked while the edge runs: its connection, its requests, its next dial, and everybody else.

use crate::clients::{Client, assert_unavailable, begun, call};
use crate::events::Events;
use crate::lab::{
    DEADLINE, IOP, MODEL, NODE, among_others, keep_ports, node_of, program, start_edge_again, stop_edge,
    wait_at_rest, wait_queue, wait_said, wait_snapshot,
};
use iop_tests::deployment::{Deployment, PROCESS_DEADLINE, Plan};
use iop_tests::engine::{Engine, Script, Then};
use iop_tests::http::Call;
use iop_tests::process::{Process, Signal};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// A second node, with a model of its own.
const OTHER: &str = "gpu-b";
const OTHER_MODEL: &str = "other";

/// From the end of the command. The edge looks at the list once a second, and a moment later again.
const TAKEN: Duration = Duration::from_secs(3);

fn plan(engine: &Engine, other: &Engine) -> Plan {
    Plan::new()
        .provider(NODE, "one", &engine.endpoint(), 1)
        .provider(OTHER, "one", &other.endpoint(), 1)
        .model(MODEL, &[(NODE, "one")], "up")
        .model(OTHER_MODEL, &[(OTHER, "one")], "up")
}

async fn certs(deployment: &Deployment, args: &[&str]) -> Vec<String> {
    let args = [&["certs"], args, &["--dir", "pki"]].concat();
    deployment.run(&args).await.expect_success(&args.join(" ")).stdout
}

/// Starts a node with another file of certificates than the usual one.
fn launch_with(deployment: &Deployment, bundle: &str) -> Process {
    let file =
        fs::read_to_string(deployment.path(&format!("{NODE}.yaml"))).expect("the node was started once");
    let mut config: Value = serde_json::from_str(&file).expect("the harness writes JSON");
    config["certs"]["bundle"] = bundle.into();
    fs::write(deployment.path("copy.yaml"), config.to_string()).expect("a file of our own");
    program(deployment, &["node", "--config", "copy.yaml"]).named(bundle).start()
}

/// The node is told that its certificate is revoked, and ends for that.
async fn assert_refused(mut node: Process) {
    assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(4));
    wait_said(&node, "refuses this node's certificate: it is revoked", 1).await;
    assert_eq!(node.stdout(), [""; 0], "it was never ready");
}

// [certs] [disconnect-queue-resolution]
#[tokio::test]
async fn a_revoked_node_is_cut_off_at_once_and_a_new_certificate_lets_it_in_again() {
    let _machine = among_others().await;
    let (engine, other) = (Engine::start(), Engine::start());
    engine.queue_scripts([Script::stream(5, Duration::ZERO).cut(2, Then::Hold)]);
    other.hold();
    let mut deployment = Deployment::start(IOP, plan(&engine, &other)).await;
    let before = deployment.snapshot().await;
    let events = Events::subscribe(deployment.admin).await;
    let (mut running, _) = begun(deployment.http, call("broken", true), "{").await;
    let waiters = Client::send_many(deployment.http, "waiter", 3);
    wait_queue(&deployment, 3).await;
    let undisturbed = Client::send(deployment.http, Call::chat(OTHER_MODEL, true));
    other.wait_held(1, DEADLINE).await;
    fs::copy(deployment.path("pki/gpu-a.pem"), deployment.path("stolen.pem")).expect("a copy");

    let said = certs(&deployment, &["revoke", "--node", NODE]).await;
    let revoked = Instant::now();
    assert!(said[0].starts_with("added to pki/revoked: node gpu-a until 20"), "{said:?}");
    let cut_off = events.wait("node_disconnected", 1).await;
    assert!(cut_off.saturating_duration_since(revoked) <= TAKEN, "{:?}", cut_off - revoked);
    for waiter in waiters {
        let (answer, at) = waiter.answer().await;
        assert_unavailable(&answer);
        assert!(
            at.saturating_duration_since(cut_off) < Duration::from_secs(1),
            "resolved with the connection"
        );
    }
    let (broken, _) = running.events().await;
    assert_eq!(broken.last().expect("an error event").0.json()["error"]["code"], "provider_disconnected");
    let node = deployment.node(NODE);
    assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(4));
    wait_said(node, "closed the connection: this node's certificate has been revoked", 1).await;
    wait_said(node, "refuses this node's certificate: it is revoked", 1).await;
    wait_said(&deployment.edge, "closing a node's connection code=CertificateRevoked", 1).await;
    wait_said(&deployment.edge, "refused a registration", 1).await;

    assert_refused(deployment.launch_node(NODE)).await;
    certs(&deployment, &["issue", "--node", NODE]).await;
    let generation = deployment.start_node(NODE).await;
    let (answer, _) = Client::send(deployment.http, call("later", false)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_refused(launch_with(&deployment, "stolen.pem")).await;

    let after = deployment.snapshot().await;
    assert_eq!(node_of(&after, NODE)["generation"], generation, "the stolen certificate has moved nothing");
    assert_eq!(node_of(&after, OTHER)["generation"], node_of(&before, OTHER)["generation"]);
    assert!(!undisturbed.is_answered());
    other.release_all();
    assert_eq!(undisturbed.answer().await.0.status, 200);
    assert_eq!(events.times("node_disconnected").len(), 1);
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}

// [certs]
#[tokio::test]
async fn a_node_whose_old_certificate_is_revoked_goes_on_with_the_new_one_by_itself() {
    let _machine = among_others().await;
    let (engine, other) = (Engine::start(), Engine::start());
    let mut deployment = Deployment::start(IOP, plan(&engine, &other)).await;
    fs::copy(deployment.path("pki/gpu-a.pem"), deployment.path("old.pem")).expect("a copy");
    certs(&deployment, &["issue", "--node", NODE]).await;
    certs(&deployment, &["revoke", "--bundle", "old.pem"]).await;
    wait_snapshot(&deployment, "another generation", |snapshot| {
        node_of(snapshot, NODE)["generation"].as_u64().is_some_and(|generation| generation > 2)
    })
    .await;
    wait_said(deployment.node(NODE), "this node's certificate has been revoked", 1).await;
    let (answer, _) = Client::send(deployment.http, call("later", false)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_refused(launch_with(&deployment, "old.pem")).await;
    deployment.shut_down().await;
}

// [certs]
#[tokio::test]
async fn a_list_that_is_bad_or_gone_changes_nothing_and_is_said_and_a_good_one_counts_again() {
    let _machine = among_others().await;
    let (engine, other) = (Engine::start(), Engine::start());
    let mut deployment = Deployment::start_edge(IOP, plan(&engine, &other)).await;
    keep_ports(&mut deployment);
    deployment.start_node(OTHER).await;
    certs(&deployment, &["revoke", "--node", NODE]).await;
    wait_said(&deployment.edge, "the list of revoked certificates is in force nodes=1 serials=0", 1).await;
    assert_refused(deployment.launch_node(NODE)).await;

    let list = deployment.path("pki/revoked");
    fs::write(&list, "garbage\n").expect("the list is ours");
    wait_said(
        &deployment.edge,
        "list of revoked certificates is not in force, the one before it still is",
        1,
    )
    .await;
    let revocations = &deployment.snapshot().await["revocations"];
    assert_eq!((&revocations["nodes"], &revocations["serials"]), (&json!(1), &json!(0)));
    let error = revocations["last_error"].as_str().expect("the snapshot says why");
    assert!(error.starts_with("pki/revoked: line 1: \"garbage\" is neither"), "{error}");
    assert_refused(deployment.launch_node(NODE)).await;
    fs::remove_file(&list).expect("the list is there");
    wait_said(&deployment.edge, "it is gone: what it said stays in force", 1).await;
    assert_refused(deployment.launch_node(NODE)).await;

    fs::write(&list, "# nobody\n").expect("the list is ours");
    wait_said(&deployment.edge, "the list of revoked certificates is in force nodes=0 serials=0", 1).await;
    deployment.start_node(NODE).await;
    let snapshot = deployment.snapshot().await;
    assert_eq!(snapshot["revocations"], json!({"nodes": 0, "serials": 0, "last_error": null}));
    assert_eq!(node_of(&snapshot, OTHER)["generation"], 1, "nothing of this has touched another node");
    deployment.stop_node(NODE, Signal::TERM).await;

    certs(&deployment, &["revoke", "--node", NODE]).await;
    stop_edge(&mut deployment, Signal::TERM).await;
    start_edge_again(&mut deployment).await;
    assert_refused(deployment.launch_node(NODE)).await;
    stop_edge(&mut deployment, Signal::TERM).await;
    fs::write(&list, "garbage\n").expect("the list is ours");
    let mut edge = program(&deployment, &["edge", "--config", "edge.yaml"]).start();
    assert_eq!(
        edge.wait_for_exit(PROCESS_DEADLINE).await.code(),
        Some(4),
        "it lets nobody in without its list"
    );
    wait_said(&edge, "pki/revoked: line 1", 1).await;
}
