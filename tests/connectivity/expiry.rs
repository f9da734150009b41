//! A certificate that ends while its connection lives.

use crate::clients::{Client, assert_unavailable, call};
use crate::lab::{
    DEADLINE, IOP, NODE, among_others, keep_ports, start_edge_again, stop_edge, usual, wait_at_rest,
    wait_said, welcomed,
};
use iop_certs::InitOptions;
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;
use iop_tests::process::Signal;
use std::time::{Duration, Instant};

pub(crate) const DAY_SEC: i64 = 24 * 60 * 60;

/// Life of the certificate when the node starts. Long enough to be welcomed on a busy machine.
pub(crate) const LIFE_SEC: i64 = 6;

/// An edge of the usual plan whose authority is of yesterday: certificates last whole days, so one that ends in some seconds
/// is of yesterday too.
pub(crate) async fn old_deployment(engine: &Engine) -> Deployment {
    let mut deployment = Deployment::start_edge(IOP, usual(engine, 1)).await;
    keep_ports(&mut deployment);
    stop_edge(&mut deployment, Signal::TERM).await;
    let pki = deployment.path("pki");
    std::fs::remove_dir_all(&pki).expect("the certificates are there");
    iop_certs::init(&pki, &InitOptions::default(), iop_certs::now() - DAY_SEC).expect("an authority");
    start_edge_again(&mut deployment).await;
    deployment
}

/// Issues the usual node a certificate that ends in so many seconds.
pub(crate) fn issue_for(deployment: &Deployment, seconds: i64) {
    let node_id = NODE.parse().expect("a node's id");
    let issued = iop_certs::now() - DAY_SEC + seconds;
    iop_certs::issue_node(&deployment.path("pki"), &node_id, 1, issued).expect("a certificate");
}

// [certs]
#[tokio::test]
async fn a_connection_ends_with_its_certificate_and_the_node_says_so() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let deployment = old_deployment(&engine).await;
    issue_for(&deployment, LIFE_SEC);
    // So that nobody issues a new one.
    std::fs::remove_file(deployment.path("pki/issuing.key")).expect("the key is there");
    let begun = Instant::now();
    let mut node = deployment.launch_node(NODE);
    welcomed(&mut node).await;
    let (answer, _) = Client::send(deployment.http, call("before", false)).answer().await;
    assert_eq!(answer.status, 200);

    assert_eq!(node.wait_for_exit(DEADLINE).await.code(), Some(4));
    let life = Duration::from_secs(LIFE_SEC.unsigned_abs());
    let lived = begun.elapsed();
    assert!(lived + Duration::from_secs(1) >= life && lived <= life + Duration::from_secs(3), "{lived:?}");
    let (answer, _) = Client::send(deployment.http, call("after", false)).answer().await;
    assert_unavailable(&answer);
    wait_said(&node, "closed the connection: this node's certificate has expired", 1).await;
    wait_said(&deployment.edge, "closing a node's connection code=CertificateExpired", 1).await;
    wait_at_rest(&deployment).await;
}
