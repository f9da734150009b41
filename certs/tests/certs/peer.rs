//! Which node a peer's certificate names, and every way it can fail to name one.

use iop_certs::{IdentityError, NameKind, NodeIdError, Role, load_bundle_at, peer_node};
use rcgen::{CustomExtension, SanType};
use rustls::pki_types::CertificateDer;

use crate::made::{DAY, NOW, OddAuthority, Pki, dns, node_id, params, uri};

const OID_SUBJECT_ALT_NAME: [u64; 4] = [2, 5, 29, 17];

fn refusal(names: Vec<SanType>) -> IdentityError {
    let leaf = OddAuthority::new().issue(names, &[]).certificate;
    peer_node(&leaf, "edge.iop").expect_err("no node of ours")
}

fn refusal_of_uri(text: &str) -> IdentityError {
    refusal(vec![uri(text)])
}

// [certs]
#[test]
fn an_issued_node_is_recognised() {
    let pki = Pki::new();
    let ours = load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("it loads");
    let peer = peer_node(&ours.chain[0], "edge.iop").expect("a node of ours");
    assert_eq!(peer.node_id, node_id("gpu-a"));
    assert_eq!((peer.not_after, peer.serial), (NOW + 90 * DAY, ours.serial));
}

#[test]
fn a_serial_number_has_one_spelling() {
    let authority = OddAuthority::new();
    for (bytes, expected) in [(vec![0x80, 0x01], "8001"), (vec![0x0a], "0a"), (vec![0x7f, 0x00], "7f00")] {
        let mut params = params("odd leaf");
        params.subject_alt_names = vec![uri("spiffe://edge.iop/node/gpu-a")];
        params.serial_number = Some(bytes.into());
        let peer = peer_node(&authority.sign(&params).certificate, "edge.iop").expect("a node");
        assert_eq!(peer.serial, expected);
    }
}

#[test]
fn the_longest_id_of_the_longest_deployment_is_recognised() {
    let deployment = format!("{}.{}", "d".repeat(63), "e".repeat(63));
    let id = "x".repeat(63);
    let leaf = OddAuthority::new().issue(vec![uri(&format!("spiffe://{deployment}/node/{id}"))], &[]);
    assert_eq!(peer_node(&leaf.certificate, &deployment).expect("a node").node_id, node_id(&id));
}

#[test]
fn the_edges_and_an_authoritys_certificate_name_no_node() {
    let pki = Pki::new();
    let edge = load_bundle_at(&pki.edge(), Role::Edge, NOW).expect("it loads");
    let wrong = |certificate| peer_node(certificate, "edge.iop").expect_err("no node");
    assert_eq!(wrong(&edge.chain[0]), IdentityError::NoName { wanted: NameKind::Uri });
    let expected = IdentityError::Path { path: String::new(), expected: "/node/<node id>" };
    assert_eq!(wrong(&edge.chain[1]), expected);
    assert_eq!(wrong(&edge.roots[0]), expected);
}

#[test]
fn a_node_of_another_deployment_is_refused() {
    let pki = Pki::new();
    let leaf = load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("it loads").chain.swap_remove(0);
    for expected in ["other.iop", "EDGE.IOP", "edge.iop.", "edge.io", "iop", ""] {
        let error = peer_node(&leaf, expected).expect_err("not this deployment");
        let trust_domain =
            IdentityError::TrustDomain { found: "edge.iop".to_owned(), expected: expected.to_owned() };
        assert_eq!(error, trust_domain);
    }
    for domain in ["Edge.iop", "edge.iop:443", "user@edge.iop", "edge.iop.", "", "edge.iop?x", "edge.iop#x"] {
        let error = refusal_of_uri(&format!("spiffe://{domain}/node/gpu-a"));
        let trust_domain =
            IdentityError::TrustDomain { found: domain.to_owned(), expected: "edge.iop".to_owned() };
        assert_eq!(error, trust_domain);
    }
}

#[test]
fn no_name_several_names_and_other_names_are_refused() {
    let ours = || uri("spiffe://edge.iop/node/gpu-a");
    let wanted = NameKind::Uri;
    assert_eq!(refusal(vec![]), IdentityError::NoName { wanted });
    assert_eq!(refusal(vec![dns("gpu-a")]), IdentityError::NoName { wanted });
    assert_eq!(refusal(vec![ours(), ours()]), IdentityError::SeveralNames { wanted, count: 2 });
    let three = vec![uri("https://a"), ours(), dns("a"), uri("https://b")];
    assert_eq!(refusal(three), IdentityError::SeveralNames { wanted, count: 3 });
    let others = [
        (dns("gpu-a"), "DNS name"),
        (SanType::IpAddress([10, 0, 0, 1].into()), "IP address"),
        (SanType::Rfc822Name("a@b".try_into().expect("ASCII")), "e-mail address"),
        (SanType::OtherName((vec![1, 2, 3], "x".into())), "other name"),
    ];
    for (other, found) in others {
        let expected = IdentityError::OtherName { wanted, found };
        assert_eq!(refusal(vec![ours(), other.clone()]), expected);
        assert_eq!(refusal(vec![other, ours()]), expected);
    }
}

#[test]
fn other_schemes_are_refused() {
    for text in [
        "https://edge.iop/node/gpu-a",
        "SPIFFE://edge.iop/node/gpu-a",
        "spiffe:/edge.iop/node/a",
        "",
        "gpu-a",
    ] {
        assert_eq!(refusal_of_uri(text), IdentityError::NotSpiffe { uri: text.to_owned() });
    }
}

#[test]
fn other_paths_are_refused() {
    let paths = [
        "",
        "/",
        "/node",
        "/Node/gpu-a",
        "/edge/gpu-a",
        "//node/gpu-a",
        "/node/gpu-a/",
        "/node/gpu-a/x",
        "/node//gpu-a",
        "/x/node/gpu-a",
        "/node/../node/gpu-a",
    ];
    for path in paths {
        let expected = IdentityError::Path { path: path.to_owned(), expected: "/node/<node id>" };
        assert_eq!(refusal_of_uri(&format!("spiffe://edge.iop{path}")), expected);
    }
}

#[test]
fn bad_node_ids_are_refused() {
    let character = |found| NodeIdError::Character { found };
    let cases = [
        ("", NodeIdError::Empty),
        ("GPU-A", character('G')),
        ("gpu_a", character('_')),
        ("gpu-a?x=1", character('?')),
        ("gpu-a#x", character('#')),
        ("gpu%2da", character('%')),
        (".", character('.')),
        ("gpu-a ", character(' ')),
    ];
    for (id, reason) in cases {
        let expected = IdentityError::NodeId { id: id.to_owned(), reason };
        assert_eq!(refusal_of_uri(&format!("spiffe://edge.iop/node/{id}")), expected);
    }
    let error = refusal_of_uri(&format!("spiffe://edge.iop/node/{}", "x".repeat(64)));
    assert!(
        matches!(error, IdentityError::NodeId { reason: NodeIdError::TooLong { length: 64 }, .. }),
        "{error}"
    );
}

#[test]
fn what_cannot_be_read_is_malformed() {
    let malformed = |der: &[u8]| match peer_node(&CertificateDer::from(der), "edge.iop") {
        Err(IdentityError::Malformed { reason }) => reason,
        other => panic!("{other:?}"),
    };
    malformed(b"");
    malformed(b"not a certificate");
    let leaf = OddAuthority::new().issue(vec![uri("spiffe://edge.iop/node/gpu-a")], &[]).certificate;
    malformed(&leaf[..leaf.len() - 1]);
    assert!(malformed(&[&leaf[..], b"x"].concat()).contains("1 bytes follow"));
}

#[test]
fn two_lists_of_names_or_an_unreadable_one_are_malformed() {
    let authority = OddAuthority::new();
    // A sequence with one URI, as the extension's content.
    let name = b"spiffe://edge.iop/node/gpu-a";
    let length = |bytes: usize| u8::try_from(bytes).expect("short");
    let list = [&[0x30, length(name.len() + 2), 0x86, length(name.len())][..], name].concat();
    let with = |contents: &[Vec<u8>]| {
        let mut params = params("odd leaf");
        let extension =
            |content: &Vec<u8>| CustomExtension::from_oid_content(&OID_SUBJECT_ALT_NAME, content.clone());
        params.custom_extensions = contents.iter().map(extension).collect();
        peer_node(&authority.sign(&params).certificate, "edge.iop")
    };
    with(std::slice::from_ref(&list)).expect("one such list is right");
    let twice = with(&[list.clone(), list.clone()]);
    assert!(matches!(twice, Err(IdentityError::Malformed { .. })), "{twice:?}");
    let cut = with(&[list[..list.len() - 1].to_vec()]);
    assert!(matches!(cut, Err(IdentityError::Malformed { .. })), "{cut:?}");
    let not_utf8 = with(&[vec![0x30, 4, 0x86, 2, 0xff, 0xfe]]);
    assert_eq!(not_utf8, Err(IdentityError::NoName { wanted: NameKind::Uri }));
}

#[test]
fn names_in_messages_are_escaped_and_cut() {
    let error = refusal_of_uri(&format!("https://\u{1b}[31m{}", "x".repeat(5000))).to_string();
    assert!(error.contains("\\u{1b}") && !error.contains('\u{1b}'), "{error}");
    assert!(error.len() < 300, "{error}");
}
