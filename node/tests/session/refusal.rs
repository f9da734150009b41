//! What the node does with each answer of the edge's, and with certificates that do not work.

use crate::edge::{Edge, within};
use crate::log::Log;
use crate::node::{Plan, Silence, TestNode};
use crate::pki::Pki;
use iop_node::Exit;
use iop_transport::codes::CloseCode;
use iop_transport::tls::Credentials;
use std::future::Future;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Whether the node gives up at this code when it comes in place of a Welcome.
fn is_terminal(code: CloseCode) -> bool {
    matches!(code, CloseCode::BadIdentity | CloseCode::CertificateExpired | CloseCode::CertificateRevoked)
}

/// Runs one case for each close code, all at once.
async fn for_each_code<F>(case: impl Fn(CloseCode) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut cases = JoinSet::new();
    for &code in CloseCode::ALL {
        cases.spawn(case(code));
    }
    assert!(cases.len() > 5, "the codes were found");
    while let Some(ended) = cases.join_next().await {
        ended.expect("the case holds");
    }
}

// [node-connectivity-supervision]
#[tokio::test(start_paused = true)]
async fn a_refused_registration_ends_the_node_or_is_tried_again_after_the_interval() {
    for_each_code(|code| async move {
        let pki = Pki::new();
        let edge = Edge::start(&pki);
        let mut node = TestNode::start(&Plan { interval_sec: 10, ..Plan::dial(edge.address) }, &pki);
        let first = edge.guest().await;
        assert_eq!(first.hello.dial, 1);
        first.close(code);
        let closed = Instant::now();
        if is_terminal(code) {
            assert_eq!(node.exit().await, Exit::Credentials, "{code:?}");
            return;
        }
        let second = edge.guest().await;
        assert_eq!(second.hello.dial, 2, "{code:?}: one dial, not several");
        assert_eq!(second.hello.instance, first.hello.instance);
        let pause = closed.elapsed().as_secs_f32().round();
        assert!(pause == 10.0, "{code:?}: dialed again after {pause} s");
        assert_eq!(node.unseen_welcomes(), 0, "{code:?}: only a Welcome counts");
        assert_eq!(node.stop().await, Exit::Stopped);
    })
    .await;
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_closed_connection_ends_the_node_or_is_dialed_again() {
    for_each_code(|code| async move {
        let pki = Pki::new();
        let edge = Edge::start(&pki);
        let mut node = TestNode::start(&Plan::dial(edge.address), &pki);
        let mut first = edge.guest().await;
        first.welcome(1, Vec::new()).await;
        first.applied().await;
        assert_eq!(node.welcomed().await.generation, 1);
        first.close(code);
        if code == CloseCode::BadIdentity {
            assert_eq!(node.exit().await, Exit::Credentials, "{code:?}");
            return;
        }
        let mut second = edge.guest().await;
        second.welcome(2, Vec::new()).await;
        second.applied().await;
        assert_eq!(node.welcomed().await.generation, 2, "{code:?}");
        assert_eq!(node.stop().await, Exit::Stopped);
    })
    .await;
}

// [node-connectivity-supervision]
#[tokio::test]
async fn an_edge_of_another_deployment_ends_the_node_with_the_code_for_credentials() {
    let log = Log::capture();
    let (ours, theirs) = (Pki::new(), Pki::new());
    let edge = Edge::start(&theirs);
    let node = TestNode::start(&Plan::dial(edge.address), &ours);
    let exit = tokio::select! {
        exit = node.exit() => exit,
        () = edge.handshakes_only() => unreachable!("the edge is open"),
    };
    assert_eq!(exit, Exit::Credentials);
    assert_eq!(exit.code(), 4);
    log.expect_one("not signed by this deployment's authority");
}

#[tokio::test]
async fn a_certificate_that_the_edge_refuses_ends_the_node_although_its_handshake_seemed_to_succeed() {
    let log = Log::capture();
    let (ours, theirs) = (Pki::new(), Pki::new());
    let Credentials { chain, key, .. } = ours.edge();
    let roots = theirs.edge().roots;
    let edge = Edge::start_at("127.0.0.1:0".parse().expect("an address"), Credentials { chain, key, roots });
    let mut node = TestNode::start(&Plan::dial(edge.address), &ours);
    assert_eq!(node.unseen_welcomes(), 0);
    let exit = tokio::select! {
        exit = node.exit() => exit,
        () = edge.handshakes_only() => unreachable!("the edge is open"),
    };
    assert_eq!(exit, Exit::Credentials);
    log.expect_one("refuses this node's certificate: it is not signed by the edge's authority");
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_missing_certificate_ends_the_node_before_any_dial() {
    let log = Log::capture();
    let pki = Pki::new();
    let edge = Silence::new();
    let node = TestNode::run(Plan::dial(edge.address()).options(&pki.bundle("gpu-z")));
    assert_eq!(node.exit().await, Exit::Credentials);
    log.expect_one("gpu-z.pem: no such file");
    assert!(edge.is_untouched(), "nothing was sent");
}

#[tokio::test]
async fn the_certificate_file_is_read_afresh_for_every_dial_and_a_broken_one_changes_nothing() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let bundle = pki.directory().join("mine.pem");
    let replace = |with: &[u8]| {
        // The mode of the bundle that iop wrote comes along.
        std::fs::copy(pki.bundle("gpu-a"), pki.directory().join("new.pem")).expect("a copy");
        std::fs::write(pki.directory().join("new.pem"), with).expect("a new file");
        std::fs::rename(pki.directory().join("new.pem"), &bundle).expect("the new file in its place");
    };
    let read = |node: &str| std::fs::read(pki.bundle(node)).expect("a bundle");

    replace(&read("gpu-a"));
    let node = TestNode::run(Plan::dial(edge.address).options(&bundle));
    for (contents, expected) in [
        (read("gpu-b"), "gpu-a"),
        (b"no certificate".to_vec(), "gpu-b"),
        (read("gpu-a"), "gpu-b"),
        (read("gpu-a"), "gpu-a"),
    ] {
        let guest = edge.guest().await;
        assert_eq!(guest.node(), expected);
        replace(&contents);
        guest.close(CloseCode::UnknownNode);
    }
    assert_eq!(node.stop().await, Exit::Stopped);
}

#[tokio::test]
async fn a_second_welcome_is_a_violation_that_costs_the_edge_its_connection() {
    let pki = Pki::new();
    let edge = Edge::start(&pki);
    let mut node = TestNode::start(&Plan::dial(edge.address), &pki);
    let mut guest = edge.guest().await;
    guest.welcome(1, Vec::new()).await;
    guest.applied().await;
    node.welcomed().await;
    guest.welcome(2, Vec::new()).await;
    let closed = within(guest.connection.closed()).await;
    let iop_transport::ConnectionError::ApplicationClosed(close) = closed else {
        panic!("closed by the node, not {closed:?}")
    };
    assert_eq!(CloseCode::from_wire(close.error_code), Some(CloseCode::ProtocolViolation));
    assert_eq!(edge.guest().await.hello.dial, 2, "it dials again");
    assert_eq!(node.unseen_welcomes(), 0);
    assert_eq!(node.stop().await, Exit::Stopped);
}

#[tokio::test]
async fn a_stranger_at_the_first_address_does_not_keep_the_node_from_the_second() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let (stranger, edge) = (Edge::start(&theirs), Edge::start(&ours));
    let addresses = vec![stranger.address.to_string(), edge.address.to_string()];
    let mut node = TestNode::start(&Plan { addresses, max_attempts: 1, interval_sec: 1 }, &ours);
    let welcoming = async {
        let mut guest = edge.guest().await;
        guest.welcome(1, Vec::new()).await;
        guest.applied().await;
        node.welcomed().await
    };
    let welcomed = tokio::select! {
        welcomed = welcoming => welcomed,
        () = stranger.handshakes_only() => unreachable!("the stranger is open"),
    };
    assert_eq!(welcomed.edge, edge.address);
    assert_eq!(node.stop().await, Exit::Stopped);
}
