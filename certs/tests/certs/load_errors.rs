//! Every way a bundle is refused, each by a real file; and that the message names the file and a way out.

use std::path::Path;

use iop_certs::{EdgeNameError, IdentityError, LoadError, NameKind, NodeIdError, Role, load_bundle_at};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa};

use crate::made::{
    DAY, NOW, Odd, OddAuthority, Pki, dns, folder, params, pem, private, sections, set_mode, text, uri,
};

/// The refusal of a file, having checked what every message has.
fn refusal(path: &Path, role: Role) -> LoadError {
    refusal_at(path, role, NOW)
}

fn refusal_at(path: &Path, role: Role, now: i64) -> LoadError {
    let error = load_bundle_at(path, role, now).expect_err("a file that must not load");
    let message = error.to_string();
    assert!(message.starts_with(&path.display().to_string()), "{message} does not begin with the file");
    assert!(message.matches(": ").count() >= 2, "{message} lacks the trouble or the way out");
    error
}

/// The refusal of a file with this text.
fn refusal_of(text: &str, role: Role) -> LoadError {
    let folder = folder();
    refusal(&private(&folder.path().join("odd.pem"), text), role)
}

fn node_uri() -> Vec<rcgen::SanType> {
    vec![uri("spiffe://edge.iop/node/gpu-a")]
}

#[test]
fn a_missing_file_is_not_found() {
    let folder = folder();
    let error = refusal(&folder.path().join("gpu-a.pem"), Role::Node);
    assert!(matches!(error, LoadError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains("iop certs issue"), "{error}");
}

#[test]
fn what_is_no_regular_file_is_unreadable() {
    let folder = folder();
    for path in [folder.path(), Path::new("/dev/zero")] {
        let error = refusal(path, Role::Node);
        assert!(matches!(error, LoadError::Unreadable { .. }), "{error}");
    }
}

#[test]
fn a_file_open_to_others_is_refused_with_the_command_that_closes_it() {
    let pki = Pki::new();
    for mode in [0o644, 0o640, 0o604, 0o620, 0o777] {
        set_mode(&pki.edge(), mode);
        let error = refusal(&pki.edge(), Role::Edge);
        assert!(matches!(error, LoadError::Permissions { mode: found, .. } if found == mode), "{error}");
        let command = format!("chmod 600 '{}'", pki.edge().display());
        assert!(error.to_string().contains(&command), "{error}");
    }
    set_mode(&pki.edge(), 0o600);
    load_bundle_at(&pki.edge(), Role::Edge, NOW).expect("closed again");
}

#[test]
fn a_huge_file_is_not_read() {
    let error = refusal_of(&"x".repeat(256 * 1024 + 1), Role::Node);
    assert!(matches!(error, LoadError::TooLarge { limit_bytes: 262_144, .. }), "{error}");
}

#[test]
fn damaged_parts_are_malformed_and_the_message_quotes_none_of_them() {
    let pki = Pki::new();
    let whole = text(&pki.node("gpu-a"));
    let parts = sections(&whole);
    let secret = parts[0].lines().nth(1).expect("a line of the key");
    let broken_key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\n";
    let broken_certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let cut = whole.trim_end().strip_suffix("-----END CERTIFICATE-----").expect("it ends so");
    let damaged = [
        cut,
        &whole.replace(secret, &format!("{}*", &secret[1..])),
        &whole.replacen("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY", 1),
        &whole.replace(&parts[0], broken_key),
        &whole.replace(&parts[1], broken_certificate),
        &whole.replace(&parts[3], broken_certificate),
    ];
    for text in damaged {
        let error = refusal_of(text, Role::Node);
        assert!(matches!(error, LoadError::Malformed { .. }), "{error}");
        assert!(!error.to_string().contains(&secret[1..20]), "{error} shows the key");
    }
    // Without its end line the key runs on into the next section, and so is no key at all.
    let error = refusal_of(&whole.replace("-----END PRIVATE KEY-----\n", ""), Role::Node);
    assert!(matches!(error, LoadError::NoKey { .. }), "{error}");
}

#[test]
fn exactly_one_key_is_needed() {
    let pki = Pki::new();
    let parts = sections(&text(&pki.node("gpu-a")));
    let error = refusal_of(&parts[1..].concat(), Role::Node);
    assert!(matches!(error, LoadError::NoKey { .. }), "{error}");
    let error = refusal_of("", Role::Node);
    assert!(matches!(error, LoadError::NoKey { .. }), "{error}");
    let two = text(&pki.edge()) + &parts[0];
    let error = refusal_of(&two, Role::Node);
    assert!(matches!(error, LoadError::SeveralKeys { count: 2, .. }), "{error}");
}

#[test]
fn a_key_alone_or_with_authorities_only_has_no_certificate() {
    let pki = Pki::new();
    let parts = sections(&text(&pki.node("gpu-a")));
    for without_leaf in [parts[0].clone(), [&*parts[0], &parts[2], &parts[3]].concat()] {
        let error = refusal_of(&without_leaf, Role::Node);
        assert!(matches!(error, LoadError::NoCertificate { .. }), "{error}");
    }
}

#[test]
fn a_key_of_another_certificate_is_a_mismatch() {
    let pki = Pki::new();
    let (ours, theirs) = (sections(&text(&pki.node("gpu-a"))), sections(&text(&pki.node("gpu-b"))));
    let error = refusal_of(&[&*theirs[0], &ours[1..].concat()].concat(), Role::Node);
    assert!(matches!(error, LoadError::KeyMismatch { .. }), "{error}");
}

#[test]
fn expired_and_not_yet_valid_tell_both_times_and_ask_about_the_clock() {
    let pki = Pki::new();
    let path = pki.node("gpu-a");
    let late = NOW + 90 * DAY + 1;
    let error = refusal_at(&path, Role::Node, late);
    assert!(
        matches!(error, LoadError::Expired { not_after, now, .. } if (not_after, now) == (late - 1, late)),
        "{error}"
    );
    let early = NOW - 601;
    let other = refusal_at(&path, Role::Node, early);
    assert!(
        matches!(other, LoadError::NotYetValid { not_before, now, .. } if (not_before, now) == (early + 1, early)),
        "{other}"
    );
    let messages = [
        (error.to_string(), ["2027-04-15T08:00:00Z", "2027-04-15T08:00:01Z", "is the clock right"]),
        (other.to_string(), ["2027-01-15T07:50:00Z", "2027-01-15T07:49:59Z", "is the clock right"]),
    ];
    for (message, parts) in messages {
        for part in parts {
            assert!(message.contains(part), "{part} is not in {message}");
        }
    }
    assert!(matches!(refusal_at(&path, Role::Node, i64::MIN), LoadError::NotYetValid { .. }));
    assert!(matches!(refusal_at(&path, Role::Node, i64::MAX), LoadError::Expired { .. }));
}

#[test]
fn a_certificate_of_the_other_role_is_refused() {
    let pki = Pki::new();
    let error = refusal(&pki.node("gpu-a"), Role::Edge);
    assert!(
        matches!(&error, LoadError::WrongRole { wanted: Role::Edge, found, .. } if found == "clientAuth"),
        "{error}"
    );
    let error = refusal(&pki.edge(), Role::Node);
    assert!(
        matches!(&error, LoadError::WrongRole { wanted: Role::Node, found, .. } if found == "serverAuth"),
        "{error}"
    );
}

#[test]
fn a_certificate_for_more_than_its_role_or_for_nothing_is_refused() {
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, Other, ServerAuth};
    let authority = OddAuthority::new();
    let cases: [(&[_], _); 5] = [
        (&[ServerAuth, ClientAuth], "serverAuth and clientAuth"),
        (&[ClientAuth, Any], "any use and clientAuth"),
        (&[CodeSigning], "codeSigning"),
        (&[ClientAuth, Other(vec![1, 2, 3])], "clientAuth and other uses"),
        (&[], "any use"),
    ];
    for (uses, expected) in cases {
        let error = refusal_of(&authority.bundle(&authority.issue(node_uri(), uses)), Role::Node);
        assert!(matches!(&error, LoadError::WrongRole { found, .. } if found == expected), "{error}");
    }
}

#[test]
fn a_chain_that_leads_nowhere_is_refused() {
    let (pki, other) = (Pki::new(), Pki::new());
    let parts = sections(&text(&pki.node("gpu-a")));
    let foreign_root = text(&other.path("root.pem"));
    let second_leaf = sections(&text(&pki.node("gpu-b"))).swap_remove(1);
    let cases = [
        (parts[..3].concat(), "no root certificate"),
        ([&*parts[0], &parts[1], &parts[3]].concat(), "does not lead to a root"),
        ([&parts[..3].concat(), &*foreign_root].concat(), "does not lead to a root"),
        ([&parts.concat(), &*second_leaf].concat(), "2 leaf certificates"),
    ];
    for (text, expected) in cases {
        let error = refusal_of(&text, Role::Node);
        assert!(matches!(&error, LoadError::BadChain { reason, .. } if reason.contains(expected)), "{error}");
    }
}

#[test]
fn a_root_of_the_right_name_and_the_wrong_key_is_no_root() {
    let (real, forged) = (OddAuthority::new(), OddAuthority::new());
    let leaf = real.issue(node_uri(), &[ExtendedKeyUsagePurpose::ClientAuth]);
    let error = refusal_of(&forged.bundle(&leaf), Role::Node);
    assert!(matches!(error, LoadError::BadChain { .. }), "{error}");
}

#[test]
fn an_expired_issuing_ca_is_expired_not_a_bad_chain() {
    let authority = OddAuthority::new();
    let mut issuing = params("odd issuing");
    issuing.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    issuing.not_after = time::OffsetDateTime::from_unix_timestamp(NOW - 1).expect("a date");
    let issuing: Odd = authority.sign(&issuing);
    let leaf = authority.issue(node_uri(), &[ExtendedKeyUsagePurpose::ClientAuth]);
    let error = refusal_of(&(authority.bundle(&leaf) + &pem(&issuing.certificate)), Role::Node);
    assert!(matches!(error, LoadError::Expired { not_after, .. } if not_after == NOW - 1), "{error}");
}

#[test]
fn names_that_are_none_of_ours_are_a_bad_identity() {
    let authority = OddAuthority::new();
    let reason = |names: Vec<rcgen::SanType>, role| {
        let uses = match role {
            Role::Edge => ExtendedKeyUsagePurpose::ServerAuth,
            Role::Node => ExtendedKeyUsagePurpose::ClientAuth,
        };
        match refusal_of(&authority.bundle(&authority.issue(names, &[uses])), role) {
            LoadError::BadIdentity { reason, .. } => reason,
            other => panic!("{other}"),
        }
    };
    assert_eq!(reason(vec![], Role::Node), IdentityError::NoName { wanted: NameKind::Uri });
    assert_eq!(
        reason(vec![uri("spiffe://edge.iop")], Role::Edge),
        IdentityError::NoName { wanted: NameKind::Dns }
    );
    assert_eq!(
        reason(vec![dns("edge.iop"), dns("edge-2.iop")], Role::Edge),
        IdentityError::SeveralNames { wanted: NameKind::Dns, count: 2 }
    );
    assert_eq!(
        reason(vec![dns("edge.iop"), uri("spiffe://edge.iop")], Role::Edge),
        IdentityError::OtherName { wanted: NameKind::Dns, found: "URI" }
    );
    assert_eq!(
        reason(vec![dns("*.iop")], Role::Edge),
        IdentityError::EdgeName { name: "*.iop".to_owned(), reason: EdgeNameError::Character { found: '*' } }
    );
    assert_eq!(
        reason(vec![uri("spiffe://Edge.iop/node/a")], Role::Node),
        IdentityError::EdgeName {
            name: "Edge.iop".to_owned(),
            reason: EdgeNameError::Character { found: 'E' }
        }
    );
    assert_eq!(
        reason(vec![uri("spiffe://edge.iop/node/")], Role::Node),
        IdentityError::NodeId { id: String::new(), reason: NodeIdError::Empty }
    );
}
