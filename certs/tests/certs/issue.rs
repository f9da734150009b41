//! Issuing leaves: what is in them, what their files hold, and what stops it.

use std::collections::BTreeSet;
use std::fs;

use iop_certs::{AuthorityError, Role, StoreError, issue_edge, issue_node, load_bundle_at};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::made::{DAY, NOW, Pki, files, mode, node_id, sections, text};

/// Looks at the certificates of a file, in its order.
fn look<T>(text: &str, at: impl Fn(&X509Certificate<'_>) -> T) -> Vec<T> {
    let read = |der: CertificateDer<'_>| at(&X509Certificate::from_der(&der).expect("a certificate").1);
    CertificateDer::pem_slice_iter(text.as_bytes()).map(|der| read(der.expect("PEM"))).collect()
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject_alternative_name().expect("readable").expect("present");
    names.value.general_names.iter().map(GeneralName::to_string).collect()
}

// [certs]
#[test]
fn a_node_file_holds_key_leaf_issuing_ca_and_root_and_loads() {
    let pki = Pki::new();
    let report = issue_node(&pki.dir, &node_id("gpu-a"), 30, NOW).expect("the authority issues");
    assert_eq!(
        (report.path.clone(), report.replaced, report.not_after),
        (pki.path("gpu-a.pem"), false, NOW + 30 * DAY)
    );
    assert_eq!(mode(&report.path), 0o600);

    let file = text(&report.path);
    let parts = sections(&file);
    assert_eq!(parts.len(), 4);
    assert!(parts[0].starts_with("-----BEGIN PRIVATE KEY-----\n"), "{}", parts[0]);
    assert_eq!(parts[2], text(&pki.path("issuing.pem")));
    assert_eq!(parts[3], text(&pki.path("root.pem")));

    let node = load_bundle_at(&report.path, Role::Node, NOW).expect("its file loads");
    assert_eq!(node.role(), Role::Node);
    assert_eq!(node.node, Some(node_id("gpu-a")));
    assert_eq!(node.deployment, "edge.iop");
    assert_eq!((node.not_before, node.not_after), (NOW - 600, NOW + 30 * DAY));
    assert_eq!((node.chain.len(), node.roots.len()), (2, 1));
}

// [certs]
#[test]
fn every_certificate_has_one_name_and_only_the_uses_of_its_place() {
    let pki = Pki::new();
    let (node, edge) = (text(&pki.node("gpu-a")), text(&pki.edge()));
    let authority = "URI(spiffe://edge.iop)";
    assert_eq!(look(&node, names), [["URI(spiffe://edge.iop/node/gpu-a)"], [authority], [authority]]);
    assert_eq!(look(&edge, names), [["DNSName(edge.iop)"], [authority], [authority]]);

    let uses = |certificate: &X509Certificate<'_>| {
        let uses = certificate.extended_key_usage().expect("readable").map(|found| found.value.clone());
        uses.map(|uses| (uses.server_auth, uses.client_auth, uses.any, uses.other.len()))
    };
    assert_eq!(look(&node, uses), [Some((false, true, false, 0)), None, None]);
    assert_eq!(look(&edge, uses), [Some((true, false, false, 0)), None, None]);

    let authority = |certificate: &X509Certificate<'_>| {
        let found = certificate.basic_constraints().expect("readable").expect("present");
        (found.value.ca, found.value.path_len_constraint)
    };
    assert_eq!(look(&node, authority), [(false, None), (true, Some(0)), (true, Some(1))]);
    let signs = |certificate: &X509Certificate<'_>| {
        let usage = certificate.key_usage().expect("readable").expect("present").value;
        (usage.digital_signature(), usage.key_cert_sign(), usage.crl_sign())
    };
    let (leaf, ca) = ((true, false, false), (false, true, true));
    assert_eq!(look(&node, signs), [leaf, ca, ca]);
}

#[test]
fn lifetimes_are_nested_and_backdated() {
    let pki = Pki::new();
    let times = |certificate: &X509Certificate<'_>| {
        let validity = certificate.validity();
        (validity.not_before.timestamp() - NOW, (validity.not_after.timestamp() - NOW) / DAY)
    };
    let file = text(&pki.node("gpu-a"));
    assert_eq!(look(&file, times), [(-600, 90), (-600, 5 * 365), (-600, 10 * 365)]);
}

#[test]
fn serials_are_long_random_and_never_repeat() {
    let pki = Pki::new();
    let mut seen = BTreeSet::new();
    let mut count = 0;
    for path in (0..20).map(|number| pki.node(&format!("node-{}", number % 2))) {
        let node = load_bundle_at(&path, Role::Node, NOW).expect("its file loads");
        assert_eq!(node.serial.len(), 32, "{}", node.serial);
        assert!(
            node.serial.starts_with(['4', '5', '6', '7']),
            "{} may vary in length or be negative",
            node.serial
        );
        seen.insert(node.serial);
        count += 1;
    }
    assert_eq!(seen.len(), count);
}

#[test]
fn issuing_again_replaces_the_file_and_says_so() {
    let pki = Pki::new();
    let before = load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("the first loads");
    let report =
        issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW + 60 * DAY).expect("the authority issues again");
    assert!(report.replaced);
    let after = load_bundle_at(&report.path, Role::Node, NOW + 60 * DAY).expect("the second loads");
    assert_ne!(before.serial, after.serial);
    assert_ne!(before.key.secret_der(), after.key.secret_der());
    assert_eq!(after.not_after, NOW + 150 * DAY);

    let report = issue_edge(&pki.dir, 45, NOW).expect("the edge's too");
    assert_eq!((report.path, report.replaced, report.not_after), (pki.edge(), true, NOW + 45 * DAY));
    load_bundle_at(&pki.edge(), Role::Edge, NOW).expect("the edge's new file loads");
    let expected = ["edge.pem", "gpu-a.pem", "issuing.key", "issuing.pem", "root.key", "root.pem"];
    assert_eq!(files(&pki.dir).into_keys().collect::<Vec<_>>(), expected);
}

#[test]
fn a_leaf_never_outlives_its_issuer() {
    let pki = Pki::new();
    let end = NOW + 5 * 365 * DAY;
    let report = issue_node(&pki.dir, &node_id("gpu-a"), u32::MAX, NOW).expect("a long life is cut");
    assert_eq!(report.not_after, end);
    let report = issue_node(&pki.dir, &node_id("gpu-a"), 90, end).expect("at the last second");
    assert_eq!(report.not_after, end);

    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, end + 1).expect_err("the issuing CA is over");
    assert!(
        matches!(&error, AuthorityError::Expired { not_after, now, .. } if (*not_after, *now) == (end, end + 1)),
        "{error}"
    );
    assert!(error.to_string().contains("issuing.pem"), "{error}");
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW - 601).expect_err("it has not begun");
    assert!(matches!(error, AuthorityError::NotYetValid { .. }), "{error}");
    let early = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW - 600).expect("at its first second");
    let early = load_bundle_at(&early.path, Role::Node, NOW).expect("it loads");
    assert_eq!(early.not_before, NOW - 600);
}

#[test]
fn ids_of_the_authoritys_own_files_and_zero_days_are_refused() {
    let pki = Pki::new();
    let before = files(&pki.dir);
    for id in ["root", "issuing", "edge"] {
        let error = issue_node(&pki.dir, &node_id(id), 90, NOW).expect_err("the name is taken");
        assert!(matches!(&error, AuthorityError::ReservedNodeId { node } if node.as_str() == id), "{error}");
    }
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 0, NOW).expect_err("no days");
    assert!(matches!(error, AuthorityError::NoDays), "{error}");
    let error = issue_edge(&pki.dir, 90, 0).expect_err("a clock at 1970");
    assert!(matches!(error, AuthorityError::Clock { now: 0 }), "{error}");
    assert_eq!(files(&pki.dir), before);
    issue_node(&pki.dir, &node_id("edge-2"), 90, NOW).expect("other names that begin alike are free");
}

#[test]
fn a_file_that_cannot_be_put_in_place_leaves_nothing_behind() {
    let pki = Pki::new();
    let blocked = pki.path("gpu-a.pem");
    fs::create_dir(&blocked).expect("a folder in its place");
    let names = || {
        let entries = fs::read_dir(&pki.dir).expect("the folder can be read");
        entries.map(|entry| entry.expect("an entry").file_name()).collect::<BTreeSet<_>>()
    };
    let before = names();
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("it is blocked");
    assert!(
        matches!(&error, AuthorityError::Store(StoreError::Io { path, .. }) if *path == blocked),
        "{error}"
    );
    assert_eq!(names(), before);
}
