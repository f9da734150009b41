//! Nodes that may not register: both sides say why, and the node's process ends with the code of its problem.

use crate::lab::{DEADLINE, IOP, Site, assert_failed, plan, wait_for_log};
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;

// [node-connectivity-supervision]
#[tokio::test]
async fn a_node_of_another_authority_ends_with_4_and_both_sides_say_why() {
    let engine = Engine::start();
    let iop = Deployment::start_edge(IOP, plan(&engine, 1)).await;
    // The same names, another root: what somebody has who ran `certs init` a second time.
    let other = Site::new().await;
    other.write_node(&iop.quic.to_string(), "pki/gpu-a.pem");
    let finished = other.run(&["node", "--config", "node.yaml"]).await;
    let edge = format!("the edge at {}", iop.quic);
    let words = [&edge, "a certificate that is not signed by this deployment's authority"];
    assert_failed(&finished, 4, &words);
    assert_failed(&finished, 4, &["giving up: the certificates do not work"]);
    wait_for_log(&iop.edge, &["a connection failed its handshake", "UnknownIssuer"], DEADLINE).await;
    assert_eq!(iop.snapshot().await["nodes"][0]["connected"], false);
    iop.shut_down().await;
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_node_that_the_edges_configuration_does_not_have_is_told_so_and_gives_up_after_its_attempts() {
    let engine = Engine::start();
    let iop = Deployment::start_edge(IOP, plan(&engine, 1)).await;
    iop.run(&["certs", "issue", "--dir", "pki", "--node", "gpu-x"]).await.expect_success("certs issue");
    let site = Site::empty();
    // Two attempts, no pause between them.
    site.write_node(&iop.quic.to_string(), &iop.path("pki/gpu-x.pem").display().to_string());
    let finished = site.run(&["node", "--config", "node.yaml"]).await;
    let edge = format!("the edge at {}", iop.quic);
    assert_failed(&finished, 3, &["not connected", &edge, "has no node of this name in its configuration"]);
    assert_failed(&finished, 3, &["giving up: reconnect.max_attempts is used up"]);
    let words = ["refused a registration", "UnknownNode", "the edge's configuration has no node `gpu-x`"];
    wait_for_log(&iop.edge, &words, DEADLINE).await;
    let refused = iop.edge.stderr().iter().filter(|line| line.contains("refused a registration")).count();
    assert_eq!(refused, 2, "exactly the attempts that the node's file allows");
    let snapshot = iop.snapshot().await;
    assert_eq!(snapshot["nodes"].as_array().map(Vec::len), Some(1), "{snapshot:#}");
    iop.shut_down().await;
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_node_whose_edge_is_not_there_gives_up_after_its_attempts_and_says_what_to_look_at() {
    let site = Site::new().await;
    // Bound and never read: nothing answers there, and nobody else takes the port.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("bound").to_string();
    site.write_node(&address, "pki/gpu-a.pem");
    let finished = site.run(&["node", "--config", "node.yaml"]).await;
    assert_failed(&finished, 3, &["no answer over UDP from", &address, "is the edge running"]);
}
