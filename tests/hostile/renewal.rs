//! What nodes may ask when they ask for certificates, and what edges may answer.

use crate::fake_edge::{FakeEdge, Side};
use crate::fake_node::{Dialer, Node, assert_closed};
use crate::site::{DEADLINE, HOSTILE, Site};
use bytes::Bytes;
use iop_certs::{Identity, RenewalRequest, Role, load_bundle, peer_node, renew_node};
use iop_tests::deadline::wait_until;
use iop_transport::codes::CloseCode;
use iop_transport::wire::{CSR_BYTES, EdgeMessage, NodeMessage};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, SanType};
use std::fs;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// A terminal's orders, and a line end that would forge a line.
const NASTY: &str = "\u{1b}[2J\u{7}\nforged line\u{9b}31m";

/// A site at a time when a new certificate for the hostile node gains something: the second of the first one's issue is over.
async fn site() -> (Site, Dialer) {
    let site = Site::start().await;
    let bundle = site.deployment.path("pki/hostile.pem");
    let identity = load_bundle(&bundle, Role::Node).expect("it loads");
    let issued = identity.not_before + 10 * 60;
    wait_until("the next second", DEADLINE, || {
        let now = iop_certs::now();
        if now > issued { Ok(()) } else { Err(now) }
    })
    .await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    (site, dialer)
}

fn csr() -> Bytes {
    Bytes::copy_from_slice(RenewalRequest::new().expect("a key").csr())
}

async fn ask(node: &mut Node, csr: Bytes) {
    node.send.send(&NodeMessage::Renew { csr }).await.expect("the control stream stands");
}

async fn answer(node: &mut Node) -> EdgeMessage {
    let heard = timeout(DEADLINE, node.recv.recv()).await.expect("an answer in time");
    heard.expect("the control stream stands").expect("the control stream goes on")
}

async fn refusal(node: &mut Node, csr: Bytes) -> String {
    ask(node, csr).await;
    match answer(node).await {
        EdgeMessage::RenewalRefused { reason } => reason,
        other => panic!("a refusal is due: {other:?}"),
    }
}

// [certs]
#[tokio::test]
async fn a_certificate_names_the_node_of_the_connection_whatever_the_request_says() {
    let (site, dialer) = site().await;
    let mut node = dialer.serve(1).await;
    let mut params = CertificateParams::new(vec!["edge.iop".to_owned()]).expect("a good name");
    let honest = "spiffe://edge.iop/node/honest".try_into().expect("ASCII");
    params.subject_alt_names.push(SanType::URI(honest));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let request = params.serialize_request(&KeyPair::generate().expect("a key")).expect("a request");
    ask(&mut node, Bytes::copy_from_slice(request.der())).await;
    let chain = match answer(&mut node).await {
        EdgeMessage::Renewed { chain } => chain,
        other => panic!("a certificate is due: {other:?}"),
    };
    let leaf = CertificateDer::from(chain[0].to_vec());
    let peer = peer_node(&leaf, iop_certs::DEFAULT_EDGE_NAME).expect("a node's certificate");
    assert_eq!((peer.node_id.as_str(), chain.len()), (HOSTILE, 2));
    node.connection.close(0_u32.into(), b"");
    site.assert_unharmed().await;
}

// [certs]
#[tokio::test]
async fn a_request_that_is_garbage_is_refused_and_the_connection_goes_on_but_not_if_it_asks_again_and_again()
{
    let (site, dialer) = site().await;
    for garbage in [Bytes::new(), Bytes::from(vec![0xff; CSR_BYTES]), csr().slice(..100)] {
        let mut node = dialer.serve(1).await;
        let reason = refusal(&mut node, garbage).await;
        assert_eq!(reason, "the request for a certificate is refused: it is not PKCS#10 in DER");
        assert_eq!(site.node(HOSTILE).await["connected"], true);
        ask(&mut node, csr()).await;
        assert_closed("again at once", &node.connection, CloseCode::ProtocolViolation).await;
    }
    let mut node = dialer.serve(1).await;
    ask(&mut node, Bytes::from(vec![0; CSR_BYTES + 1])).await;
    assert_closed("too long", &node.connection, CloseCode::ProtocolViolation).await;
    let mut node = dialer.serve(1).await;
    let request = csr();
    let mut sent = 0;
    while node.send.send(&NodeMessage::Renew { csr: request.clone() }).await.is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "a flood goes on for ever");
    }
    assert_closed("a flood", &node.connection, CloseCode::ProtocolViolation).await;
    for _ in 0..100 {
        let mut node = dialer.register(1).await.expect("a Welcome");
        ask(&mut node, request.clone()).await;
        node.connection.close(0_u32.into(), b"");
    }
    site.assert_unharmed().await;
}

// [certs]
#[tokio::test]
async fn a_node_that_is_not_configured_or_whose_certificate_is_revoked_gets_no_other() {
    let (mut site, dialer) = site().await;
    let pki = site.deployment.path("pki");
    fs::rename(pki.join("issuing.key"), pki.join("kept.key")).expect("it is there");
    let mut node = dialer.serve(1).await;
    let reason = refusal(&mut node, csr()).await;
    assert!(reason.starts_with("the authority's key is not on the edge"), "{reason}");
    fs::rename(pki.join("kept.key"), pki.join("issuing.key")).expect("it is there");

    let root = fs::read(pki.join("root.pem")).expect("it is there");
    fs::write(pki.join("root.pem"), "garbage").expect("it is ours");
    let mut node = dialer.serve(1).await;
    let reason = refusal(&mut node, csr()).await;
    assert_eq!(reason, "the edge could not issue a certificate, its log says why");
    let edge = load_bundle(&pki.join("edge.pem"), Role::Edge).expect("it loads");
    fs::write(pki.join("root.pem"), root).expect("it is ours");

    let mut node = dialer.serve(1).await;
    site.refresh(|edge| {
        edge["nodes"].as_array_mut().expect("a list").truncate(1);
        edge["models"].as_array_mut().expect("a list").truncate(1);
    })
    .await;
    ask(&mut node, csr()).await;
    let reason = loop {
        match answer(&mut node).await {
            EdgeMessage::Apply(apply) => assert!(apply.providers.is_empty(), "{apply:?}"),
            EdgeMessage::RenewalRefused { reason } => break reason,
            other => panic!("a refusal is due: {other:?}"),
        }
    };
    assert_eq!(reason, "the edge's configuration has no such node");

    let node = HOSTILE.parse().expect("a node's id");
    let identity = load_bundle(&pki.join("hostile.pem"), Role::Node).expect("it loads");
    let peer = peer_node(&identity.chain[0], &identity.deployment).expect("a node");
    iop_certs::revoke_node(&pki, &node, iop_certs::now()).expect("revoked");
    let error = renew_node(&pki, &edge, &peer, &csr(), iop_certs::now()).expect_err("it is refused");
    assert!(error.to_string().contains("is revoked"), "{error}");
    site.assert_unharmed().await;
}

/// A node whose certificate is due, and its request.
async fn asked() -> (FakeEdge, Side, Bytes, Vec<u8>) {
    let edge = FakeEdge::start_with_a_due_certificate();
    let mut side = edge.welcome().await;
    let NodeMessage::Renew { csr } = side.hear().await else { panic!("a request is due") };
    let file = fs::read(edge.pki().join("gpu.pem")).expect("the node's file");
    (edge, side, csr, file)
}

/// A chain that the deployment's own authority issues for this request, to this node.
fn issued(edge: &FakeEdge, node: &str, csr: &[u8]) -> Vec<Bytes> {
    let (pki, now) = (edge.pki(), iop_certs::now());
    let id = node.parse().expect("a node's id");
    if node != "gpu" {
        iop_certs::issue_node(&pki, &id, 1, now - 12 * 60 * 60).expect("issued");
    }
    let bundle = |file: &str, role| -> Identity { load_bundle(&pki.join(file), role).expect("it loads") };
    let identity = bundle(&format!("{node}.pem"), Role::Node);
    let peer = peer_node(&identity.chain[0], &identity.deployment).expect("a node");
    let chain = renew_node(&pki, &bundle("edge.pem", Role::Edge), &peer, csr, now).expect("issued");
    chain.iter().map(|certificate| Bytes::copy_from_slice(certificate)).collect()
}

async fn wait_said(edge: &FakeEdge, words: &str) {
    wait_until(words, DEADLINE, || {
        let lines = edge.log();
        if lines.iter().any(|line| line.contains(words)) { Ok(()) } else { Err(lines) }
    })
    .await;
}

// [certs]
#[tokio::test]
async fn an_answer_with_anothers_certificate_or_garbage_changes_nothing_at_the_node() {
    type Answer = fn(&FakeEdge, &[u8]) -> EdgeMessage;
    let cases: [(&str, Answer); 6] = [
        ("is a certificate of node `other` of `edge.iop`, not of node `gpu`", |edge, csr| {
            EdgeMessage::Renewed { chain: issued(edge, "other", csr) }
        }),
        ("the private key does not belong to the certificate", |edge, _csr| EdgeMessage::Renewed {
            chain: issued(edge, "gpu", &csr()),
        }),
        ("the edge's answer: is damaged", |_, _| EdgeMessage::Renewed {
            chain: vec![Bytes::from_static(&[0x30; 3000])],
        }),
        ("the edge's answer: the certificate that belongs in this file is not there", |_, _| {
            EdgeMessage::Renewed { chain: Vec::new() }
        }),
        ("the edge's answer holds 1000 certificates", |_, _| EdgeMessage::Renewed {
            chain: vec![Bytes::from_static(&[0x30; 1000]); 1000],
        }),
        ("the edge refuses it: [2Jforged line31m", |_, _| EdgeMessage::RenewalRefused {
            reason: NASTY.into(),
        }),
    ];
    for (words, said) in cases {
        let (mut edge, mut side, csr, file) = asked().await;
        let said = said(&edge, &csr);
        side.say(&said).await;
        wait_said(&edge, words).await;
        wait_said(&edge, "this node's certificate is not renewed").await;
        assert_eq!(fs::read(edge.pki().join("gpu.pem")).expect("the node's file"), file, "{words}");
        edge.assert_serves(&side).await;
        edge.stop().await;
    }
}

// [certs]
#[tokio::test]
async fn an_answer_that_was_not_asked_for_or_comes_twice_ends_the_connection() {
    let mut edge = FakeEdge::start().await;
    for unasked in
        [EdgeMessage::Renewed { chain: Vec::new() }, EdgeMessage::RenewalRefused { reason: NASTY.into() }]
    {
        let mut side = edge.welcome().await;
        side.say(&unasked).await;
        assert_closed("not asked for", &side.connection, CloseCode::ProtocolViolation).await;
        let mut side = edge.accept().await;
        side.say(&unasked).await;
        assert_closed("in place of a Welcome", &side.connection, CloseCode::ProtocolViolation).await;
    }
    let side = edge.welcome().await;
    edge.assert_serves(&side).await;
    edge.stop().await;

    let (mut edge, mut side, csr, _file) = asked().await;
    let chain = issued(&edge, "gpu", &csr);
    side.say(&EdgeMessage::Renewed { chain: chain.clone() }).await;
    wait_said(&edge, "renewed this node's certificate").await;
    side.say(&EdgeMessage::Renewed { chain: chain.clone() }).await;
    assert_closed("twice", &side.connection, CloseCode::ProtocolViolation).await;
    let new = load_bundle(&edge.pki().join("gpu.pem"), Role::Node).expect("it loads");
    assert_eq!(&new.chain[0][..], &chain[0][..], "the first answer counts");
    let side = edge.welcome().await;
    edge.assert_serves(&side).await;
    edge.stop().await;
}
