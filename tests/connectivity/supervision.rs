//! [node-connectivity-supervision] as a person sees it from outside: how often it dials, when it gives up, exit codes.

use crate::lab::{
    DEADLINE, IOP, NODE, among_others, keep_ports, node_of, program, start_edge_again, stop_edge, usual,
    wait_said, wait_snapshot, welcomed,
};
use crate::silence::Silence;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::Engine;
use iop_tests::process::{Finished, Process, Signal};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A node's process with nothing to finish ends within this.
const STOPPING: Duration = Duration::from_millis(1500);

fn dialing(addresses: &[String], reconnect: Value) -> Plan {
    usual(&Engine::start(), 1).node_value(NODE, "/edge/addresses", json!(addresses)).node_value(
        NODE,
        "/reconnect",
        reconnect,
    )
}

async fn ended(mut node: Process) -> (Option<i32>, Vec<String>) {
    let status = node.wait_for_exit(DEADLINE).await;
    (status.code(), node.stderr())
}

fn said(lines: &[String], words: &str) -> usize {
    lines.iter().filter(|line| line.contains(words)).count()
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_bounded_policy_dials_exactly_as_often_as_it_says_and_ends_with_code_3() {
    let _machine = among_others().await;
    let silence = Silence::new();
    let plan = dialing(&[silence.address().to_string()], json!({"max_attempts": 2, "interval_sec": 1}));
    let deployment = Deployment::start_edge(IOP, plan).await;
    let (code, lines) = ended(deployment.launch_node(NODE)).await;
    assert_eq!(code, Some(3), "{lines:#?}");
    assert_eq!(silence.dials_so_far().await, 2);
    assert_eq!(said(&lines, "no answer over UDP from 127.0.0.1"), 1, "once for two attempts: {lines:#?}");
    assert_eq!(said(&lines, "reconnect.max_attempts is used up"), 1, "{lines:#?}");
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_configuration_that_cannot_work_ends_with_code_2_before_any_dial() {
    let _machine = among_others().await;
    let silence = Silence::new();
    let address = [silence.address().to_string()];
    let wrong = [
        (json!({"max_attempts": -1}), "max_attempts"),
        (json!({"max_attempts": 0, "interval_sec": 0}), "interval_sec"),
        (json!({"max_atempts": 3}), "max_atempts"),
    ];
    for (reconnect, word) in wrong {
        let deployment = Deployment::start_edge(IOP, dialing(&address, reconnect)).await;
        let (code, lines) = ended(deployment.launch_node(NODE)).await;
        assert_eq!(code, Some(2), "{word}: {lines:#?}");
        assert!(said(&lines, word) > 0, "{word}: {lines:#?}");
    }
    assert_eq!(silence.dials_so_far().await, 0);
}

// [node-connectivity-supervision]
#[tokio::test]
async fn certificates_that_do_not_work_end_with_code_4() {
    let _machine = among_others().await;
    let deployment = Deployment::start_edge(IOP, usual(&Engine::start(), 1)).await;
    for args in
        [&["certs", "init", "--dir", "other"][..], &["certs", "issue", "--dir", "other", "--node", NODE]]
    {
        deployment.run(args).await.expect_success(&args.join(" "));
    }
    let run = async |bundle: &str| {
        let file = json!({"edge": {"addresses": [deployment.quic.to_string()]}, "certs": {"bundle": bundle}});
        std::fs::write(deployment.path("wrong.yaml"), file.to_string()).expect("the file is written");
        let Finished { status, stderr, .. } =
            program(&deployment, &["node", "--config", "wrong.yaml"]).run(DEADLINE).await;
        assert_eq!(status.code(), Some(4), "{bundle}: {stderr:#?}");
        stderr
    };
    assert_eq!(said(&run("pki/nobody.pem").await, "nobody.pem: no such file"), 1);
    let lines = run(&format!("other/{NODE}.pem")).await;
    assert_eq!(said(&lines, "not signed by this deployment's authority"), 1, "{lines:#?}");
    let lines = run("pki/edge.pem").await;
    assert_eq!(said(&lines, "this node's certificate does not work"), 1, "{lines:#?}");
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_stop_interrupts_a_dial_and_a_pending_wait_and_ends_with_code_0() {
    let _machine = among_others().await;
    let silence = Silence::new();
    let plan = dialing(&[silence.address().to_string()], json!({"max_attempts": 0, "interval_sec": 3600}));
    let deployment = Deployment::start_edge(IOP, plan).await;
    let stop = async |mut node: Process, signal: Signal, what: &str| {
        let told = Instant::now();
        node.signal(signal);
        let status = node.wait_for_exit(DEADLINE).await;
        assert_eq!(status.code(), Some(0), "{what}: {:#?}", node.stderr());
        assert!(told.elapsed() <= STOPPING, "{what}: {:?}", told.elapsed());
    };
    let node = deployment.launch_node(NODE);
    silence.dialed().await;
    stop(node, Signal::INT, "dialing").await;

    let node = deployment.launch_node(NODE);
    wait_said(&node, "not connected", 1).await;
    stop(node, Signal::TERM, "waiting for an hour").await;
}

// [node-connectivity-supervision]
#[tokio::test]
async fn an_edge_started_after_a_bounded_policy_gave_up_gets_one_registration_of_the_unbounded_process() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let bounded = json!({"max_attempts": 3, "interval_sec": 1});
    let plan = usual(&engine, 1).provider("gpu-bounded", "one", &engine.endpoint(), 1).node_value(
        "gpu-bounded",
        "/reconnect",
        bounded,
    );
    let mut deployment = Deployment::start_edge(IOP, plan).await;
    keep_ports(&mut deployment);
    stop_edge(&mut deployment, Signal::TERM).await;
    let mut patient = deployment.launch_node(NODE);
    let (code, lines) = ended(deployment.launch_node("gpu-bounded")).await;
    assert_eq!(code, Some(3), "{lines:#?}");

    start_edge_again(&mut deployment).await;
    assert_eq!(welcomed(&mut patient).await, 1, "its first registration");
    wait_said(&deployment.edge, "node connected", 1).await;
    wait_said(&deployment.edge, "refused a registration", 0).await;
    wait_said(&patient, "not connected", 1).await;
}

// [node-connectivity-supervision]
#[tokio::test]
async fn of_two_addresses_the_first_is_dead_and_ipv6_is_dialed_like_ipv4() {
    let _machine = among_others().await;
    let silence = Silence::new();
    let engine = Engine::start();
    let mut deployment = Deployment::start_edge(IOP, usual(&engine, 1)).await;
    let mut families = vec!["127.0.0.1"];
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        families.push("[::1]");
    } else {
        eprintln!("this machine has no IPv6; nothing to show about it");
    }
    let bundle = deployment.path(&format!("pki/{NODE}.pem"));
    for family in families {
        let edge = format!("{family}:{}", deployment.quic.port());
        let addresses = [silence.address().to_string(), edge.clone()];
        let file = json!({
            "edge": {"addresses": addresses}, "certs": {"bundle": bundle}, "reconnect": {"max_attempts": 1},
        });
        std::fs::write(deployment.path("two.yaml"), file.to_string()).expect("the file is written");
        let mut node = program(&deployment, &["node", "--config", "two.yaml"]).start();
        let ready = node.wait_for_ready(DEADLINE).await;
        assert_eq!(ready["edge"], edge);
        assert_eq!(silence.dials_so_far().await, 1, "the dead address was tried");
        node.signal(Signal::TERM);
        assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(0));
        wait_snapshot(&deployment, "the node gone", |snapshot| node_of(snapshot, NODE)["connected"] == false)
            .await;
    }
    stop_edge(&mut deployment, Signal::TERM).await;
}
