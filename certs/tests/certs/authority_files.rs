//! An authority whose files are missing, open to others, mixed up or damaged issues nothing and says why.

use std::fs;

use iop_certs::{AuthorityError, IdentityError, LoadError, Role, issue_node, load_bundle_at};

use crate::made::{NOW, OddAuthority, Pki, dns, files, node_id, params, pem, private, set_mode, text, uri};

#[test]
fn a_missing_or_open_file_of_the_authority_is_named() {
    for name in ["root.pem", "issuing.pem", "issuing.key"] {
        let pki = Pki::new();
        fs::remove_file(pki.path(name)).expect("it was there");
        let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("a file is missing");
        let path = pki.path(name);
        assert!(
            matches!(&error, AuthorityError::Load(LoadError::NotFound { path: found }) if *found == path),
            "{error}"
        );
    }
    let pki = Pki::new();
    set_mode(&pki.path("issuing.key"), 0o640);
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("the group may read the key");
    assert!(matches!(error, AuthorityError::Load(LoadError::Permissions { mode: 0o640, .. })), "{error}");
}

#[test]
fn the_roots_key_may_be_kept_elsewhere() {
    let pki = Pki::new();
    fs::remove_file(pki.path("root.key")).expect("it was there");
    load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("it issues without");
}

#[test]
fn every_root_of_root_pem_goes_into_bundles() {
    let (pki, older) = (Pki::new(), Pki::new());
    private(&pki.path("root.pem"), text(&older.path("root.pem")) + &text(&pki.path("root.pem")));
    let node = load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("any of its roots will do");
    assert_eq!(node.roots.len(), 2);
}

#[test]
fn files_of_two_authorities_mixed_up_issue_nothing() {
    let (pki, other) = (Pki::new(), Pki::new());
    fs::copy(other.path("root.pem"), pki.path("root.pem")).expect("a copy");
    let before = files(&pki.dir);
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("the root is another's");
    assert!(matches!(error, AuthorityError::Unusable { reason: LoadError::BadChain { .. } }), "{error}");
    assert_eq!(files(&pki.dir), before);

    fs::copy(other.path("issuing.key"), pki.path("issuing.key")).expect("a copy");
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("the key is another's");
    assert!(
        matches!(&error, AuthorityError::Load(LoadError::KeyMismatch { path }) if *path == pki.path("issuing.key")),
        "{error}"
    );
}

#[test]
fn damaged_files_of_an_authority_are_refused() {
    let refusal = |name: &str, bytes: &str| {
        let pki = Pki::new();
        private(&pki.path(name), bytes);
        match issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("a damaged file") {
            AuthorityError::Load(error) => error,
            other => panic!("{other}"),
        }
    };
    assert!(matches!(refusal("root.pem", ""), LoadError::NoCertificate { .. }));
    assert!(matches!(refusal("issuing.pem", "nothing"), LoadError::NoCertificate { .. }));
    assert!(matches!(refusal("issuing.key", ""), LoadError::NoKey { .. }));
    let section = |tag: &str| format!("-----BEGIN {tag}-----\nAAAA\n-----END {tag}-----\n");
    assert!(matches!(refusal("issuing.pem", &section("CERTIFICATE")), LoadError::Malformed { .. }));
    assert!(matches!(refusal("issuing.key", &section("PRIVATE KEY")), LoadError::Malformed { .. }));
    let key = rcgen::KeyPair::generate().expect("a key");
    let nameless = params("no name").self_signed(&key).expect("a certificate").pem();
    assert!(matches!(
        refusal("issuing.pem", &nameless),
        LoadError::BadIdentity { reason: IdentityError::NoName { .. }, .. }
    ));
    let odd = OddAuthority::new().issue(vec![uri("spiffe://edge.iop/node/a")], &[]);
    assert!(matches!(
        refusal("issuing.pem", &pem(&odd.certificate)),
        LoadError::BadIdentity { reason: IdentityError::Path { .. }, .. }
    ));
    let odd = OddAuthority::new().issue(vec![dns("edge.iop")], &[]);
    assert!(matches!(
        refusal("issuing.pem", &pem(&odd.certificate)),
        LoadError::BadIdentity { reason: IdentityError::NoName { .. }, .. }
    ));
}
