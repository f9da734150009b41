//! Renewing the edge's certificate: for how long, whom it must satisfy, and what leaves the old one in place.

use std::fs;

use iop_certs::{
    AuthorityError, Identity, InitOptions, Role, init, is_renewal_due, issue_edge, load_bundle_at, renew_edge,
};

use crate::made::{DAY, NOW, Pki, files, folder, mode, text};

fn edge(pki: &Pki, now: i64) -> Identity {
    load_bundle_at(&pki.edge(), Role::Edge, now).expect("the edge's bundle loads")
}

#[test]
fn a_renewal_is_due_when_a_third_of_the_life_is_over() {
    let table = [
        (0, 90, 29, false),
        (0, 90, 30, true),
        (0, 90, 90, true),
        (0, 90, 1000, true),
        (100, 190, 129, false),
        (100, 190, 130, true),
        (0, i64::MAX, NOW, false),
        (i64::MIN, i64::MAX, NOW, true),
        (5, 5, 4, false),
        (5, 5, 5, true),
    ];
    for (not_before, not_after, now, due) in table {
        assert_eq!(is_renewal_due(not_before, not_after, now), due, "{not_before} {not_after} {now}");
    }
}

// [certs]
#[test]
fn the_edge_gets_a_new_certificate_with_a_new_key_for_as_many_days_as_before() {
    let pki = Pki::new();
    issue_edge(&pki.dir, 30, NOW).expect("issued");
    let old = edge(&pki, NOW);
    let later = NOW + 10 * DAY;
    let report = renew_edge(&pki.dir, &old, later).expect("renewed");
    let new = edge(&pki, later);
    assert_eq!((report.path, report.replaced), (pki.edge(), true));
    assert_eq!((report.not_after, new.not_after), (later + 30 * DAY, later + 30 * DAY));
    assert_eq!((&report.serial, &new.roots), (&new.serial, &old.roots));
    assert_eq!(new.deployment, old.deployment);
    assert!(new.serial != old.serial && new.key != old.key);
    assert_eq!(mode(&pki.edge()), 0o600);
}

/// Renewing fails, and the folder is as it was.
fn refused(pki: &Pki, old: &Identity, now: i64) -> AuthorityError {
    let before = files(&pki.dir);
    let error = renew_edge(&pki.dir, old, now).expect_err("nothing is to be renewed");
    assert_eq!(files(&pki.dir), before, "{error}");
    error
}

// [certs]
#[test]
fn an_authority_that_is_not_there_is_told_from_one_that_is_bad() {
    for missing in ["issuing.key", "issuing.pem", "root.pem"] {
        let pki = Pki::new();
        let old = edge(&pki, NOW);
        fs::remove_file(pki.path(missing)).expect("it is there");
        let error = refused(&pki, &old, NOW + 30 * DAY);
        assert!(
            matches!(&error, AuthorityError::Elsewhere { path } if *path == pki.path(missing)),
            "{error}"
        );
    }
    let pki = Pki::new();
    let old = edge(&pki, NOW);
    fs::write(pki.path("issuing.key"), "garbage").expect("it is ours");
    let error = refused(&pki, &old, NOW + 30 * DAY);
    assert!(matches!(error, AuthorityError::Load(_)), "{error}");
}

// [certs]
#[test]
fn a_certificate_that_those_who_trust_the_old_one_would_refuse_is_not_put_in_its_place() {
    let (pki, other) = (Pki::new(), Pki::new());
    let error = refused(&pki, &edge(&other, NOW), NOW + 30 * DAY);
    assert!(matches!(error, AuthorityError::OtherRoot { .. }), "{error}");

    let elsewhere = folder();
    let named = InitOptions { edge_name: "other.iop".to_owned(), ..InitOptions::default() };
    init(&elsewhere.path().join("pki"), &named, NOW).expect("an authority");
    let bundle = elsewhere.path().join("pki/edge.pem");
    let other = load_bundle_at(&bundle, Role::Edge, NOW).expect("it loads");
    let error = refused(&pki, &other, NOW + 30 * DAY);
    assert!(matches!(error, AuthorityError::OtherDeployment { .. }), "{error}");
}

#[test]
fn roots_that_the_authority_has_gained_are_trusted_after_the_renewal() {
    let (pki, other) = (Pki::new(), Pki::new());
    let old = edge(&pki, NOW);
    let both = text(&pki.path("root.pem")) + &text(&other.path("root.pem"));
    fs::write(pki.path("root.pem"), both).expect("it is ours");
    renew_edge(&pki.dir, &old, NOW + 30 * DAY).expect("renewed");
    assert_eq!(edge(&pki, NOW + 30 * DAY).roots.len(), 2);
}

// [certs]
#[test]
fn near_the_end_of_the_issuing_ca_nothing_is_renewed_that_gains_nothing() {
    let pki = Pki::new();
    let end = NOW + 5 * 365 * DAY;
    issue_edge(&pki.dir, 90, end - 60 * DAY).expect("issued");
    let old = edge(&pki, end - 60 * DAY);
    assert_eq!(old.not_after, end, "no certificate outlives it");
    for now in [end - 40 * DAY, end - 1] {
        let error = refused(&pki, &old, now);
        assert!(
            matches!(error, AuthorityError::NothingGained { authority, .. } if authority == end),
            "{error}"
        );
    }
    let error = refused(&pki, &old, end + 1);
    assert!(matches!(error, AuthorityError::Expired { .. }), "{error}");
}
