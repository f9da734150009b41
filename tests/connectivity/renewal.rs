//! Certificates that are replaced while edge and node run: who uses the new ones from when on, and what goes on untouched.

use crate::clients::{Client, call};
use crate::expiry::{DAY_SEC, LIFE_SEC, issue_for, old_deployment};
use crate::lab::{
    DEADLINE, IOP, MODEL, NODE, among_others, node_of, program, start_edge_again, stop_edge, usual,
    wait_at_rest, wait_said, wait_snapshot, welcomed,
};
use iop_certs::{Identity, Role};
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;
use iop_tests::http::Call;
use iop_tests::process::Signal;
use iop_transport::endpoint::{self, NODE_SOCKET_BYTES, QuicSettings};
use iop_transport::peer;
use iop_transport::tls::Credentials;
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// The edge's certificate in a handshake with the usual node's certificate.
async fn shown_by_the_edge(deployment: &Deployment) -> CertificateDer<'static> {
    let identity = load(deployment, "gpu-a.pem", Role::Node);
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let bound = endpoint::bind(local, NODE_SOCKET_BYTES).expect("a socket");
    let (socket, runtime) = endpoint::tokio_socket(bound).expect("a runtime");
    let endpoint = endpoint::node(socket, runtime, None).expect("an endpoint");
    let settings = QuicSettings { idle_timeout: DEADLINE, keep_alive: None, segmentation_offload: false };
    let credentials = Credentials { chain: identity.chain, key: identity.key, roots: identity.roots };
    let client = endpoint::node_config(credentials, settings).expect("settings");
    let connecting = endpoint.connect_with(client, deployment.quic, &identity.deployment).expect("a dial");
    let connection = timeout(DEADLINE, connecting).await.expect("in time").expect("a handshake");
    peer::certificates(&connection).swap_remove(0)
}

fn load(deployment: &Deployment, file: &str, role: Role) -> Identity {
    iop_certs::load_bundle(&deployment.path("pki").join(file), role).expect("a good bundle")
}

fn serial(snapshot: &Value) -> &str {
    snapshot["certificate"]["serial"].as_str().expect("the edge has a certificate")
}

// [certs]
#[tokio::test]
async fn a_new_certificate_of_the_edge_serves_new_handshakes_and_live_connections_go_on() {
    let _machine = among_others().await;
    let engine = Engine::start();
    engine.hold();
    let deployment = Deployment::start(IOP, usual(&engine, 2)).await;
    let before = deployment.snapshot().await;
    let old = load(&deployment, "edge.pem", Role::Edge);
    assert_eq!(serial(&before), old.serial);
    assert_eq!(shown_by_the_edge(&deployment).await, old.chain[0]);
    let running = Client::send(deployment.http, Call::chat(MODEL, true));
    engine.wait_held(1, DEADLINE).await;

    let pki = deployment.path("pki");
    iop_certs::issue_edge(&pki, 90, iop_certs::now()).expect("issued");
    wait_said(&deployment.edge, "a new certificate of the edge is in force", 1).await;
    let new = load(&deployment, "edge.pem", Role::Edge);
    let after = deployment.snapshot().await;
    assert_eq!(serial(&after), new.serial);
    assert_eq!(after["certificate"]["not_after"], new.not_after);
    assert_eq!(shown_by_the_edge(&deployment).await, new.chain[0]);

    fs::write(pki.join("edge.pem"), "garbage\n").expect("the file is ours");
    wait_said(&deployment.edge, "is not in force, the one before it still is", 1).await;
    let bad = deployment.snapshot().await;
    let error = bad["certificate"]["last_error"].as_str().expect("the snapshot says why");
    assert!(error.starts_with("pki/edge.pem: holds no private key"), "{error}");
    assert_eq!(serial(&bad), new.serial);
    assert_eq!(shown_by_the_edge(&deployment).await, new.chain[0]);

    engine.release_all();
    assert_eq!(running.answer().await.0.status, 200);
    let end = deployment.snapshot().await;
    for field in ["generation", "since"] {
        assert_eq!(node_of(&end, NODE)[field], node_of(&before, NODE)[field], "the node is still connected");
    }
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}

// [certs]
#[tokio::test]
async fn a_node_whose_certificate_expires_goes_on_with_the_new_file_by_itself() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let deployment = old_deployment(&engine).await;
    let (pki, node_id) = (deployment.path("pki"), NODE.parse().expect("a node's id"));
    let (bundle, next) = (pki.join("gpu-a.pem"), pki.join("next.pem"));
    iop_certs::issue_node(&pki, &node_id, 1, iop_certs::now()).expect("a certificate for later");
    fs::rename(&bundle, &next).expect("kept");
    issue_for(&deployment, LIFE_SEC);
    // So that nobody else issues a new one.
    fs::remove_file(pki.join("issuing.key")).expect("the key is there");
    let mut node = deployment.launch_node(NODE);
    let generation = welcomed(&mut node).await;
    fs::rename(&next, &bundle).expect("replaced");
    wait_snapshot(&deployment, "another generation", |snapshot| {
        node_of(snapshot, NODE)["generation"].as_u64().is_some_and(|now| now > generation)
    })
    .await;
    wait_said(&node, "closed the connection: this node's certificate has expired", 1).await;
    let (answer, _) = Client::send(deployment.http, call("later", false)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    node.signal(Signal::TERM);
    assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(0));
    deployment.shut_down().await;
}

/// Gives the edge a certificate of one day that ends in so many seconds.
fn issue_edge_for(deployment: &Deployment, seconds: i64) -> String {
    let issued = iop_certs::now() - DAY_SEC + seconds;
    iop_certs::issue_edge(&deployment.path("pki"), 1, issued).expect("issued").serial
}

// [certs]
#[tokio::test]
async fn the_edge_renews_its_certificate_when_a_third_of_its_life_is_over() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let mut deployment = old_deployment(&engine).await;
    issue_for(&deployment, DAY_SEC);
    let generation = deployment.start_node(NODE).await;
    let due = issue_edge_for(&deployment, DAY_SEC / 2);
    wait_said(&deployment.edge, &format!("a new certificate of the edge is in force serial=\"{due}\""), 1)
        .await;
    wait_said(&deployment.edge, "renewed the edge's certificate", 1).await;
    wait_said(&deployment.edge, "a new certificate of the edge is in force", 2).await;
    let new = load(&deployment, "edge.pem", Role::Edge);
    assert!((new.not_after - iop_certs::now() - DAY_SEC).abs() < 60, "it is good for a day again");
    assert_eq!(shown_by_the_edge(&deployment).await, new.chain[0]);
    let snapshot = deployment.snapshot().await;
    assert_eq!(serial(&snapshot), new.serial);
    assert_eq!(node_of(&snapshot, NODE)["generation"], generation);
    deployment.shut_down().await;
}

// [certs]
#[tokio::test]
async fn an_edge_without_the_authoritys_key_warns_and_takes_what_is_issued_for_it_elsewhere() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let deployment = old_deployment(&engine).await;
    let (here, elsewhere) = (deployment.path("pki"), deployment.path("authority"));
    fs::create_dir(&elsewhere).expect("a folder");
    for file in ["root.pem", "issuing.pem", "issuing.key"] {
        fs::copy(here.join(file), elsewhere.join(file)).expect("copied");
    }
    issue_edge_for(&deployment, DAY_SEC / 2);
    fs::remove_file(here.join("issuing.key")).expect("the key is there");
    wait_said(&deployment.edge, "a new certificate of the edge is in force", 1).await;
    let early = deployment.snapshot().await;
    assert_eq!(early["certificate"]["renewal_error"], Value::Null, "half of its life is left");

    // In the last third of its life.
    fs::copy(elsewhere.join("issuing.key"), here.join("issuing.key")).expect("copied");
    let last = issue_edge_for(&deployment, DAY_SEC / 4);
    fs::remove_file(here.join("issuing.key")).expect("the key is there");
    wait_said(&deployment.edge, "the edge's certificate is not renewed", 1).await;
    let late = deployment.snapshot().await;
    assert_eq!(serial(&late), last);
    let error = late["certificate"]["renewal_error"].as_str().expect("the snapshot says why");
    assert!(error.starts_with("pki/issuing.key: is not here"), "{error}");

    let issued = deployment.run(&["certs", "issue", "--edge", "--dir", "authority"]).await;
    let said = issued.expect_success("certs issue --edge").stdout;
    assert!(said[0].starts_with("made authority/edge.pem for the edge, valid until 20"), "{said:?}");
    fs::rename(elsewhere.join("edge.pem"), here.join("edge.pem")).expect("on one disk");
    let new = load(&deployment, "edge.pem", Role::Edge);
    wait_snapshot(&deployment, "the new certificate", |snapshot| serial(snapshot) == new.serial).await;
    let end = deployment.snapshot().await;
    assert_eq!(end["certificate"]["renewal_error"], Value::Null);
    wait_said(&deployment.edge, "the edge's certificate is not renewed", 1).await;
    deployment.shut_down().await;
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;

    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

// [certs]
#[tokio::test]
async fn a_node_renews_its_certificate_over_its_connection_and_outlives_the_old_one() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let mut deployment = old_deployment(&engine).await;
    issue_for(&deployment, LIFE_SEC);
    let bundle = deployment.path("pki/gpu-a.pem");
    let old = load(&deployment, "gpu-a.pem", Role::Node);
    let generation = deployment.start_node(NODE).await;
    wait_said(deployment.node(NODE), "renewed this node's certificate; the next dial uses it", 1).await;
    wait_said(&deployment.edge, "renewed a node's certificate", 1).await;
    let new = load(&deployment, "gpu-a.pem", Role::Node);
    assert!((new.not_after - iop_certs::now() - DAY_SEC).abs() < 60, "it is good for a day again");
    assert_eq!((&new.node, &new.roots, mode(&bundle)), (&old.node, &old.roots, 0o600));
    assert!(new.key != old.key, "the key is new");
    assert_eq!(
        node_of(&deployment.snapshot().await, NODE)["generation"],
        generation,
        "the connection goes on"
    );

    wait_snapshot(&deployment, "the next connection", |snapshot| {
        node_of(snapshot, NODE)["generation"].as_u64().is_some_and(|now| now > generation)
    })
    .await;
    wait_said(&deployment.edge, "closing a node's connection code=CertificateExpired", 1).await;
    let (answer, _) = Client::send(deployment.http, call("later", false)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(load(&deployment, "gpu-a.pem", Role::Node), new, "that one is not due");
    wait_said(deployment.node(NODE), "renewed this node's certificate", 1).await;
    // What was renewed can be revoked like any other.
    let revoked = deployment.run(&["certs", "revoke", "--node", NODE]).await;
    revoked.expect_success("certs revoke");
    assert_eq!(deployment.node(NODE).wait_for_exit(DEADLINE).await.code(), Some(4));
}

// [certs]
#[tokio::test]
async fn a_node_that_gets_no_certificate_or_cannot_keep_it_says_so_once_and_works_on() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let mut deployment = old_deployment(&engine).await;
    issue_for(&deployment, DAY_SEC / 2);
    let (bundle, key) = (deployment.path("pki/gpu-a.pem"), deployment.path("pki/issuing.key"));
    let file = fs::read(&bundle).expect("the node's file");
    fs::rename(&key, deployment.path("issuing.key")).expect("the key is there");
    let mut node = deployment.launch_node(NODE);
    welcomed(&mut node).await;
    wait_said(&node, "the edge refuses it: the authority's key is not on the edge", 1).await;
    wait_said(&deployment.edge, "a node's certificate is not renewed error=pki/issuing.key: is not here", 1)
        .await;
    let (answer, _) = Client::send(deployment.http, call("later", false)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // Another connection is no reason to ask again.
    stop_edge(&mut deployment, Signal::TERM).await;
    fs::rename(deployment.path("issuing.key"), &key).expect("the key is there");
    start_edge_again(&mut deployment).await;
    wait_snapshot(&deployment, "the node again", |snapshot| node_of(snapshot, NODE)["connected"] == true)
        .await;
    let (answer, _) = Client::send(deployment.http, call("later", false)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    wait_said(&node, "this node's certificate is not renewed", 1).await;
    node.signal(Signal::TERM);
    assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(0));
    assert_eq!(fs::read(&bundle).expect("the node's file"), file);

    // A name so long that there is none for a new file beside it stands for a folder that cannot be written.
    let long = format!("{}.pem", "x".repeat(240));
    fs::rename(&bundle, deployment.path(&long)).expect("renamed");
    let config = fs::read_to_string(deployment.path("gpu-a.yaml")).expect("the node's configuration");
    fs::write(deployment.path("long.yaml"), config.replace("pki/gpu-a.pem", &long)).expect("written");
    let mut node = program(&deployment, &["node", "--config", "long.yaml"]).named("long").start();
    welcomed(&mut node).await;
    wait_said(&node, "cannot be created", 1).await;
    wait_said(&node, "this node's certificate is not renewed; the one in use stays", 1).await;
    let (answer, _) = Client::send(deployment.http, call("later", false)).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(fs::read(deployment.path(&long)).expect("the node's file"), file);
}
