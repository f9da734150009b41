//! A node's renewal: what the edge issues for a request, and what the node makes of an answer.

use std::fs;

use iop_certs::{
    AuthorityError, Identity, LoadError, PeerNode, RenewalError, RenewalRequest, Revocations, Role,
    issue_node, load_bundle_at, peer_node, renew_node, revoke_bundle, revoke_node,
};
use rcgen::{
    CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _,
    SigningKey as _,
};
use rustls::pki_types::CertificateDer;

use crate::made::{DAY, NOW, OddAuthority, Pki, files, mode, node_id, text, uri};

/// When the certificates of `NOW` are due.
const LATER: i64 = NOW + 30 * DAY;

/// An authority, its edge and the certificate of a node.
struct Lab {
    pki: Pki,
    edge: Identity,
    node: Identity,
}

impl Lab {
    fn new() -> Self {
        let pki = Pki::new();
        let edge = load_bundle_at(&pki.edge(), Role::Edge, NOW).expect("it loads");
        let node = load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("it loads");
        Self { pki, edge, node }
    }

    fn peer(&self) -> PeerNode {
        peer_node(&self.node.chain[0], "edge.iop").expect("a node")
    }

    fn answer(&self, csr: &[u8], now: i64) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
        renew_node(&self.pki.dir, &self.edge, &self.peer(), csr, now)
    }

    /// Why the authority refuses a good request, nothing written.
    fn refusal(&self, now: i64) -> AuthorityError {
        let before = files(&self.pki.dir);
        let error = self.answer(request().csr(), now).expect_err("it is refused");
        assert_eq!(files(&self.pki.dir), before);
        error
    }
}

fn request() -> RenewalRequest {
    RenewalRequest::new().expect("a key")
}

// [certs]
#[test]
fn a_node_gets_a_certificate_for_its_new_key_and_as_long_a_life_and_trusts_whom_it_trusted() {
    let lab = Lab::new();
    let before = files(&lab.pki.dir);
    let request = request();
    let chain = lab.answer(request.csr(), LATER).expect("issued");
    assert_eq!(files(&lab.pki.dir), before, "the edge keeps nothing of it");
    let peer = peer_node(&chain[0], "edge.iop").expect("a node");
    assert_eq!(
        (peer.node_id, peer.not_before, peer.not_after),
        (node_id("gpu-a"), LATER - 600, LATER + 90 * DAY)
    );

    let bundle = request.complete(&lab.node, &chain, LATER).expect("it fits");
    let path = lab.pki.path("gpu-a.pem");
    bundle.replace(&path, &lab.node, LATER).expect("replaced");
    let new = load_bundle_at(&path, Role::Node, LATER).expect("it loads");
    assert_eq!(&new, bundle.identity());
    assert_eq!((&new.node, &new.roots, mode(&path)), (&lab.node.node, &lab.node.roots, 0o600));
    assert_eq!((new.chain.len(), &new.chain[0], &new.serial), (2, &chain[0], &peer.serial));
    assert!(new.key != lab.node.key && new.serial != lab.node.serial);
}

// [certs]
#[test]
fn names_and_uses_in_a_request_are_not_looked_at() {
    let lab = Lab::new();
    let mut params = CertificateParams::new(vec!["edge.iop".to_owned()]).expect("a good name");
    params.subject_alt_names.push(uri("spiffe://edge.iop/node/gpu-b"));
    params.distinguished_name.push(DnType::CommonName, "root CA");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let csr = params.serialize_request(&KeyPair::generate().expect("a key")).expect("a request");
    let chain = lab.answer(csr.der(), LATER).expect("issued");
    assert_eq!(peer_node(&chain[0], "edge.iop").expect("a node").node_id, node_id("gpu-a"));
    // Loaded as a node, it would be refused if it were a CA, or good for anything else.
    let text = [
        // The key of another request: only that is wrong with it.
        KeyPair::generate().expect("a key").serialize_pem(),
        chain.iter().map(crate::made::pem).collect(),
        text(&lab.pki.path("root.pem")),
    ];
    let path = crate::made::private(&lab.pki.path("other.pem"), text.concat());
    let error = load_bundle_at(&path, Role::Node, LATER).expect_err("the key is another's");
    assert!(matches!(error, LoadError::KeyMismatch { .. }), "{error}");
}

// [certs]
#[test]
fn a_request_that_is_none_or_has_no_proof_of_its_key_is_refused() {
    let lab = Lab::new();
    let good = request().csr().to_vec();
    let forged = {
        let mut forged = good.clone();
        let last = forged.len() - 1;
        forged[last] ^= 1;
        forged
    };
    let of = |key: KeyPair| {
        CertificateParams::default().serialize_request(&key).expect("a request").der().to_vec()
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "not PKCS#10"),
        (vec![0xff; 4096], "not PKCS#10"),
        (good[..good.len() - 1].to_vec(), "not PKCS#10"),
        (lab.node.chain[0].to_vec(), "not PKCS#10"),
        ([&good[..], &[0]].concat(), "1 bytes follow it"),
        (forged, "not signed with its own key"),
        (of(KeyPair::generate_for(&PKCS_ED25519).expect("a key")), "not one for ECDSA with P-256"),
        (of(KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key")), "not one for ECDSA with P-256"),
    ];
    for (csr, words) in cases {
        let error = lab.answer(&csr, LATER).expect_err("it is refused").to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    for length in 0..good.len() {
        let _either = lab.answer(&good[..length], LATER);
        let mut other = good.clone();
        other[length] ^= 0x41;
        let _either = lab.answer(&other, LATER);
    }
}

// [certs]
#[test]
fn a_key_of_another_kind_that_says_it_is_one_for_p256_is_refused_although_it_has_signed() {
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    // Version 0, no name, id-ecPublicKey with prime256v1, an Ed25519 key, no attributes.
    let kind = b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    let before = [b"\x30\x41\x02\x01\x00\x30\x00\x30\x38", &kind[..], b"\x03\x21\x00"].concat();
    let info = [&before, key.der_bytes(), b"\xa0\x00"].concat();
    let signature = key.sign(&info).expect("a signature");
    let csr = [b"\x30\x81\x8d", &info[..], b"\x30\x05\x06\x03\x2b\x65\x70\x03\x41\x00", &signature].concat();

    let error = Lab::new().answer(&csr, LATER).expect_err("it is refused").to_string();
    assert!(error.contains("not signed with its own key"), "{error}");
}

// [certs]
#[test]
fn a_revoked_certificate_is_not_renewed() {
    let lab = Lab::new();
    revoke_bundle(&lab.pki.dir, &lab.pki.path("gpu-a.pem"), NOW).expect("revoked");
    let error = lab.refusal(LATER);
    assert!(matches!(error, AuthorityError::Revoked { .. }), "{error}");

    let lab = Lab::new();
    revoke_node(&lab.pki.dir, &node_id("gpu-a"), NOW + DAY).expect("revoked");
    let error = lab.refusal(LATER);
    assert!(matches!(error, AuthorityError::Revoked { .. }), "{error}");

    let lab = Lab::new();
    revoke_node(&lab.pki.dir, &node_id("gpu-b"), LATER).expect("revoked");
    lab.answer(request().csr(), LATER).expect("another node's revocation is not its own");
    fs::write(lab.pki.path("revoked"), "garbage").expect("the list is ours");
    let error = lab.refusal(LATER);
    assert!(matches!(error, AuthorityError::Revocations(_)), "{error}");
}

// [certs]
#[test]
fn a_certificate_that_was_issued_after_a_revocation_is_renewed_and_good() {
    let lab = Lab::new();
    revoke_node(&lab.pki.dir, &node_id("gpu-a"), LATER).expect("revoked");
    issue_node(&lab.pki.dir, &node_id("gpu-a"), 30, LATER).expect("a new one");
    let node = load_bundle_at(&lab.pki.path("gpu-a.pem"), Role::Node, LATER).expect("it loads");
    let lab = Lab { node, ..lab };
    let chain = lab.answer(request().csr(), LATER + DAY).expect("issued");
    let list = Revocations::load(&lab.pki.dir).expect("good").expect("a list");
    assert!(!list.revokes(&peer_node(&chain[0], "edge.iop").expect("a node")));
}

// [certs]
#[test]
fn an_edge_without_the_key_or_with_anothers_or_at_the_end_of_the_authority_refuses() {
    let lab = Lab::new();
    fs::remove_file(lab.pki.path("issuing.key")).expect("it is there");
    let error = lab.refusal(LATER);
    assert!(matches!(error, AuthorityError::Elsewhere { .. }), "{error}");

    let (lab, other) = (Lab::new(), Lab::new());
    let lab = Lab { pki: other.pki, ..lab };
    let error = lab.refusal(LATER);
    assert!(matches!(error, AuthorityError::OtherRoot { .. }), "{error}");

    let lab = Lab::new();
    let error = lab.refusal(NOW);
    assert!(matches!(error, AuthorityError::NothingGained { .. }), "{error}");
    let error = lab.refusal(NOW + 6 * 365 * DAY);
    assert!(matches!(error, AuthorityError::Expired { .. }), "{error}");
}

/// What the node says to an answer, and whether it is in place.
fn judged(lab: &Lab, request: RenewalRequest, chain: &[CertificateDer<'static>], now: i64) -> RenewalError {
    request.complete(&lab.node, chain, now).expect_err("it does not fit")
}

// [certs]
#[test]
fn an_answer_that_is_not_one_to_the_request_is_refused() {
    let (lab, other) = (Lab::new(), Lab::new());
    let theirs = lab.answer(request().csr(), LATER).expect("issued");
    let error = judged(&lab, request(), &theirs, LATER);
    assert!(matches!(error, RenewalError::Unusable(LoadError::KeyMismatch { .. })), "another key: {error}");

    let mine = request();
    let foreign = other.answer(mine.csr(), LATER).expect("issued");
    let error = judged(&lab, mine, &foreign, LATER);
    assert!(matches!(error, RenewalError::Unusable(LoadError::BadChain { .. })), "another root: {error}");

    let mine = request();
    let foreign = [other.answer(mine.csr(), LATER).expect("issued"), other.node.roots.clone()].concat();
    let error = judged(&lab, mine, &foreign, LATER);
    assert!(matches!(error, RenewalError::Root), "its root brought along: {error}");

    let mine = request();
    let named = load_bundle_at(&lab.pki.node("gpu-b"), Role::Node, NOW).expect("it loads");
    let peer = peer_node(&named.chain[0], "edge.iop").expect("a node");
    let chain = renew_node(&lab.pki.dir, &lab.edge, &peer, mine.csr(), LATER).expect("issued");
    let error = judged(&lab, mine, &chain, LATER);
    assert!(matches!(error, RenewalError::OtherIdentity { .. }), "another node: {error}");

    let mine = request();
    let chain = lab.answer(mine.csr(), LATER).expect("issued");
    let error = judged(&lab, mine, &chain[..1], LATER);
    assert!(matches!(error, RenewalError::Unusable(LoadError::BadChain { .. })), "half of it: {error}");

    let mine = request();
    let chain = lab.answer(mine.csr(), LATER).expect("issued");
    let error = judged(&lab, mine, &chain, LATER - DAY);
    assert!(matches!(error, RenewalError::Unusable(LoadError::NotYetValid { .. })), "clocks: {error}");

    let longer = {
        let mut longer = lab.node.clone();
        longer.not_after = LATER + 90 * DAY;
        longer
    };
    let mine = request();
    let chain = lab.answer(mine.csr(), LATER).expect("issued");
    let error = mine.complete(&longer, &chain, LATER).expect_err("no longer");
    assert!(matches!(error, RenewalError::NotLonger { .. }), "{error}");
}

#[test]
fn an_answer_that_is_garbage_or_too_much_is_refused() {
    let lab = Lab::new();
    let garbage = |length| vec![CertificateDer::from(vec![0x30; length])];
    for chain in [Vec::new(), garbage(0), garbage(5000)] {
        let error = judged(&lab, request(), &chain, LATER);
        assert!(matches!(error, RenewalError::Unusable(_)), "{error}");
    }
    for chain in [garbage(65_537), vec![lab.node.chain[0].clone(); 9]] {
        let error = judged(&lab, request(), &chain, LATER);
        assert!(matches!(error, RenewalError::Size { .. }), "{error}");
    }
    let odd = OddAuthority::new();
    let leaf =
        odd.issue(vec![uri("spiffe://edge.iop/node/gpu-a")], &[rcgen::ExtendedKeyUsagePurpose::ClientAuth]);
    let error = judged(&lab, request(), &[leaf.certificate, odd.root], LATER);
    assert!(matches!(error, RenewalError::Unusable(LoadError::KeyMismatch { .. })), "{error}");
}

// [certs]
#[test]
fn a_file_that_is_another_by_now_is_left_as_it_is() {
    let lab = Lab::new();
    let path = lab.pki.path("gpu-a.pem");
    let request = request();
    let chain = lab.answer(request.csr(), LATER).expect("issued");
    let bundle = request.complete(&lab.node, &chain, LATER).expect("it fits");
    for other in [text(&lab.pki.node("gpu-b")), "garbage".to_owned()] {
        fs::write(&path, &other).expect("the file is ours");
        let error = bundle.replace(&path, &lab.node, LATER).expect_err("it is another");
        assert!(matches!(error, RenewalError::Changed { .. }), "{error}");
        assert_eq!(text(&path), other);
    }
    fs::remove_file(&path).expect("the file is ours");
    let error = bundle.replace(&path, &lab.node, LATER).expect_err("it is gone");
    assert!(matches!(error, RenewalError::Lost { .. }) && !path.exists(), "{error}");
}

#[test]
fn where_the_path_is_a_link_the_file_behind_it_is_replaced() {
    let lab = Lab::new();
    let (path, link) = (lab.pki.path("gpu-a.pem"), lab.pki.path("link.pem"));
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let request = request();
    let chain = lab.answer(request.csr(), LATER).expect("issued");
    let bundle = request.complete(&lab.node, &chain, LATER).expect("it fits");
    bundle.replace(&link, &lab.node, LATER).expect("replaced");
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(&load_bundle_at(&path, Role::Node, LATER).expect("it loads"), bundle.identity());
}

#[test]
fn neither_request_nor_bundle_shows_its_key() {
    let lab = Lab::new();
    let request = request();
    let chain = lab.answer(request.csr(), LATER).expect("issued");
    assert_eq!(format!("{request:?}"), format!("RenewalRequest {{ csr: {}, .. }}", request.csr().len()));
    let bundle = request.complete(&lab.node, &chain, LATER).expect("it fits");
    let shown = format!("{bundle:?}");
    assert!(!shown.contains("PRIVATE") && !shown.contains("text"), "{shown}");
}
