//! Issued certificates before rustls' own verifiers, and in a handshake between both sides in memory.

use std::sync::Arc;
use std::time::Duration;

use iop_certs::{Identity, Role, load_bundle_at, now, peer_node};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
};

use crate::made::{NOW, OddAuthority, Pki, folder, node_id, uri};

fn roots(roots: &[CertificateDer<'static>]) -> Arc<RootCertStore> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).expect("a root that rustls takes");
    }
    Arc::new(store)
}

fn at(seconds: i64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).expect("after 1970")))
}

fn verify_client(chain: &[CertificateDer<'static>], by: &Identity, now: i64) -> Result<(), Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(&by.roots), provider).build().expect("a verifier");
    let (leaf, rest) = chain.split_first().expect("a chain");
    verifier.verify_client_cert(leaf, rest, at(now)).map(drop)
}

fn verify_server(chain: &[CertificateDer<'static>], by: &Identity, name: &str) -> Result<(), Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots(&by.roots), provider).build().expect("a verifier");
    let name = ServerName::try_from(name).expect("a name").to_owned();
    let (leaf, rest) = chain.split_first().expect("a chain");
    verifier.verify_server_cert(leaf, rest, &name, &[], at(NOW)).map(drop)
}

fn is_wrong_use(result: &Result<(), Error>) -> bool {
    matches!(
        result,
        Err(Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. }
        ))
    )
}

fn both(pki: &Pki) -> (Identity, Identity) {
    let edge = load_bundle_at(&pki.edge(), Role::Edge, NOW).expect("the edge loads");
    let node = load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("the node loads");
    (edge, node)
}

// [certs]
#[test]
fn the_edge_takes_a_node_as_client_and_not_another_edge() {
    let (edge, node) = both(&Pki::new());
    verify_client(&node.chain, &edge, NOW).expect("a node may dial");
    let posing = verify_client(&edge.chain, &edge, NOW);
    assert!(is_wrong_use(&posing), "{posing:?}");
}

// [certs]
#[test]
fn a_node_takes_the_edge_as_server_under_its_name_only_and_not_another_node() {
    let (edge, node) = both(&Pki::new());
    assert_eq!(node.deployment, "edge.iop");
    verify_server(&edge.chain, &node, &node.deployment).expect("the edge serves");
    let other = verify_server(&edge.chain, &node, "other.iop");
    assert!(
        matches!(
            other,
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
        ),
        "{other:?}"
    );
    let posing = verify_server(&node.chain, &node, &node.deployment);
    assert!(is_wrong_use(&posing), "{posing:?}");
}

// [certs]
#[test]
fn strangers_are_refused_by_both() {
    let (edge, node) = both(&Pki::new());
    let (other_edge, other_node) = both(&Pki::new());
    let unknown = |result: Result<(), Error>| {
        assert_eq!(result, Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)));
    };
    unknown(verify_client(&other_node.chain, &edge, NOW));
    unknown(verify_server(&other_edge.chain, &node, "edge.iop"));
    unknown(verify_client(&node.chain[..1], &edge, NOW));
}

#[test]
fn a_node_is_no_authority() {
    let pki = Pki::new();
    let (edge, node) = both(&pki);
    // A leaf signed by some other key, offered with the node's certificate as its issuer.
    let forged = OddAuthority::new()
        .issue(vec![uri("spiffe://edge.iop/node/gpu-b")], &[rcgen::ExtendedKeyUsagePurpose::ClientAuth]);
    let chain = [&[forged.certificate], &node.chain[..]].concat();
    verify_client(&chain, &edge, NOW).expect_err("a leaf signs nothing");
}

#[test]
fn nodes_are_refused_before_and_after_their_time() {
    let (edge, node) = both(&Pki::new());
    verify_client(&node.chain, &edge, node.not_before).expect("from the first second");
    verify_client(&node.chain, &edge, node.not_after).expect("to the last");
    verify_client(&node.chain, &edge, node.not_before - 1).expect_err("not yet");
    verify_client(&node.chain, &edge, node.not_after + 1).expect_err("no longer");
}

#[test]
fn names_of_one_part_and_of_full_length_work_too() {
    for name in ["edge", &format!("{0}.{0}.{0}.{1}", "x".repeat(63), "y".repeat(8))] {
        let folder = folder();
        let dir = folder.path().join("pki");
        let options = iop_certs::InitOptions { edge_name: name.to_owned(), days: 90 };
        iop_certs::init(&dir, &options, NOW).expect("an authority");
        let report = iop_certs::issue_node(&dir, &node_id(&"n".repeat(63)), 90, NOW).expect("a node");
        let node = load_bundle_at(&report.path, Role::Node, NOW).expect("the node loads");
        let edge = load_bundle_at(&dir.join("edge.pem"), Role::Edge, NOW).expect("the edge loads");
        verify_server(&edge.chain, &node, name).expect("the edge serves");
        verify_client(&node.chain, &edge, NOW).expect("the node may dial");
    }
}

// [certs]
#[test]
fn both_sides_shake_hands_and_the_edge_learns_which_node_it_is() {
    let folder = folder();
    let dir = folder.path().join("pki");
    // The handshake reads the machine's clock.
    iop_certs::init(&dir, &iop_certs::InitOptions::default(), now()).expect("an authority");
    let report = iop_certs::issue_node(&dir, &node_id("gpu-a"), 90, now()).expect("a node");
    let edge = iop_certs::load_bundle(&dir.join("edge.pem"), Role::Edge).expect("the edge loads");
    let node = iop_certs::load_bundle(&report.path, Role::Node).expect("the node loads");

    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(&edge.roots), Arc::clone(&provider))
        .build()
        .expect("a verifier");
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(edge.chain.clone(), edge.key.clone_key())
        .expect("the edge's key and chain");
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots(&node.roots))
        .with_client_auth_cert(node.chain.clone(), node.key.clone_key())
        .expect("the node's key and chain");
    let name = ServerName::try_from(node.deployment.clone()).expect("a name");
    let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
    let mut server = ServerConnection::new(Arc::new(server)).expect("a server");

    // A full handshake takes two turns; the bound is there so that a failure ends.
    for _turn in 0..8 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("memory takes everything");
        server.read_tls(&mut bytes.as_slice()).expect("memory gives everything");
        server.process_new_packets().expect("the edge accepts the node");
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).expect("memory takes everything");
        client.read_tls(&mut bytes.as_slice()).expect("memory gives everything");
        client.process_new_packets().expect("the node accepts the edge");
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let leaf = &server.peer_certificates().expect("the node showed its chain")[0];
    let peer = peer_node(leaf, &edge.deployment).expect("a node of this deployment");
    assert_eq!((peer.node_id, peer.serial), (node_id("gpu-a"), node.serial));
}
