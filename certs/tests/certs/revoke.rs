//! Revoking: which certificates are refused afterwards, which are not, and what becomes of the list.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use iop_certs::{
    AuthorityError, LoadError, NodeId, PeerNode, Revocations, RevocationsError, RevokeError, Role,
    StoreError, issue_edge, issue_node, load_bundle_at, peer_node, revoke_bundle, revoke_node, revoke_serial,
};

use crate::made::{DAY, NOW, OddAuthority, Pki, files, folder, mode, node_id, params, private, text, uri};

const MINUTE: i64 = 60;

/// What the edge sees of a node whose certificate was issued at `now`.
fn issued(pki: &Pki, node: &str, now: i64) -> PeerNode {
    let report = issue_node(&pki.dir, &node_id(node), 90, now).expect("the authority issues");
    let identity = load_bundle_at(&report.path, Role::Node, now).expect("it can be used at once");
    let peer = peer_node(&identity.chain[0], "edge.iop").expect("a node of ours");
    assert_eq!(peer.serial, report.serial);
    peer
}

fn list(pki: &Pki) -> Revocations {
    Revocations::load(&pki.dir).expect("a good list").unwrap_or_default()
}

fn revoke(pki: &Pki, node: &str, now: i64) -> Vec<String> {
    revoke_node(&pki.dir, &node_id(node), now).expect("revoked").added
}

// [certs]
#[test]
fn every_certificate_of_the_node_until_now_is_revoked_and_nothing_else() {
    let pki = Pki::new();
    let old = issued(&pki, "gpu-a", NOW + DAY);
    let same_second = issued(&pki, "gpu-a", NOW + 2 * DAY);
    let other = issued(&pki, "gpu-b", NOW + 2 * DAY);
    assert_eq!(list(&pki), Revocations::default(), "no list revokes nobody");
    assert_eq!(revoke(&pki, "gpu-a", NOW + 2 * DAY), ["node gpu-a until 2027-01-17T08:00:00Z"]);
    let list = list(&pki);
    assert!(list.revokes(&old) && list.revokes(&same_second));
    assert!(!list.revokes(&other));
    assert_eq!((list.nodes(), list.serials()), (1, 0));
}

// [certs]
#[test]
fn what_is_issued_after_a_revocation_works_from_the_same_second_on() {
    let pki = Pki::new();
    let stolen = issued(&pki, "gpu-a", NOW);
    revoke(&pki, "gpu-a", NOW);
    for wait in [0, 0, 1, 5 * MINUTE, DAY] {
        let fresh = issued(&pki, "gpu-a", NOW + wait);
        assert!(!list(&pki).revokes(&fresh), "{wait} s later");
        assert!(list(&pki).revokes(&stolen));
    }
    let backdated = issued(&pki, "gpu-a", NOW + DAY);
    assert_eq!(backdated.not_before, NOW + DAY - 10 * MINUTE, "as without a revocation");
}

#[test]
fn a_second_revocation_revokes_what_was_issued_since_the_first_whatever_the_clock_does() {
    for step in [0, 1, -5 * MINUTE] {
        let pki = Pki::new();
        let first = issued(&pki, "gpu-a", NOW);
        revoke(&pki, "gpu-a", NOW);
        let second = issued(&pki, "gpu-a", NOW + step);
        fs::remove_file(pki.path("gpu-a.pem")).expect("it was moved to its machine");
        revoke(&pki, "gpu-a", NOW + step);
        assert!(list(&pki).revokes(&first) && list(&pki).revokes(&second), "clock moved by {step} s");
        let third = issued(&pki, "gpu-a", NOW + step);
        assert!(!list(&pki).revokes(&third), "clock moved by {step} s");
        let lines = text(&pki.path("revoked")).lines().filter(|line| line.starts_with("node ")).count();
        assert_eq!(lines, 1, "one entry says it all");
    }
}

#[test]
fn the_newest_certificate_is_revoked_even_if_the_clock_was_ahead_when_it_was_issued() {
    let pki = Pki::new();
    let ahead = issued(&pki, "gpu-a", NOW + DAY);
    let added = revoke(&pki, "gpu-a", NOW);
    assert_eq!(added, ["node gpu-a until 2027-01-15T08:00:00Z", &format!("serial {}", ahead.serial)]);
    assert!(list(&pki).revokes(&ahead));
    assert!(!list(&pki).revokes(&issued(&pki, "gpu-a", NOW)), "a new one works today");
}

#[test]
fn a_clock_far_behind_a_revocation_issues_nothing_and_says_why() {
    let pki = Pki::new();
    revoke(&pki, "gpu-a", NOW + DAY);
    let before = files(&pki.dir);
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("it would be revoked");
    let until = NOW + DAY;
    assert!(
        matches!(&error, AuthorityError::RevokedUntil { until: found, now: NOW, .. } if *found == until),
        "{error}"
    );
    assert!(error.to_string().contains("2027-01-16T08:00:00Z"), "{error}");
    assert_eq!(files(&pki.dir), before);
    issue_node(&pki.dir, &node_id("gpu-b"), 90, NOW).expect("another node's is not touched");
    issue_edge(&pki.dir, 90, NOW).expect("nor is the edge's");
}

// [certs]
#[test]
fn one_certificate_is_revoked_by_its_number_or_its_file_and_the_others_of_the_node_stay_good() {
    let pki = Pki::new();
    let first = issued(&pki, "gpu-a", NOW);
    let kept = folder();
    let copy = kept.path().join("old.pem");
    fs::copy(pki.path("gpu-a.pem"), &copy).expect("a copy");
    let second = issued(&pki, "gpu-a", NOW);
    let third = issued(&pki, "gpu-a", NOW);

    let report = revoke_bundle(&pki.dir, &copy, NOW).expect("revoked");
    assert_eq!(report.added, [format!("serial {}", first.serial)]);
    assert_eq!(report.node, Some(node_id("gpu-a")));
    let as_others_show_it = format!("00:{}", second.serial.to_uppercase());
    revoke_serial(&pki.dir, as_others_show_it.parse().expect("a number"), NOW).expect("revoked");
    let list = list(&pki);
    assert!(list.revokes(&first) && list.revokes(&second) && !list.revokes(&third));
    assert_eq!((list.nodes(), list.serials()), (0, 2));

    let before = files(&pki.dir);
    let again = revoke_bundle(&pki.dir, &copy, NOW + DAY).expect("that is no error");
    assert_eq!(again.added, [""; 0]);
    assert_eq!(files(&pki.dir), before);
}

#[test]
fn a_file_without_exactly_one_certificate_of_a_node_revokes_nothing() {
    let pki = Pki::new();
    let refusal = |path: &Path| revoke_bundle(&pki.dir, path, NOW).expect_err("no node's bundle");
    for name in ["edge.pem", "root.pem"] {
        let error = refusal(&pki.path(name));
        assert!(matches!(error, RevokeError::NotOneNode { count: 0, .. }), "{name}: {error}");
    }
    let two = text(&pki.node("gpu-a")) + &text(&pki.node("gpu-b"));
    let error = refusal(&private(&pki.path("two.pem"), two));
    assert!(matches!(error, RevokeError::NotOneNode { count: 2, .. }), "{error}");
    let error = refusal(&pki.path("none.pem"));
    assert!(matches!(error, RevokeError::Bundle(LoadError::NotFound { .. })), "{error}");

    let odd = OddAuthority::new();
    let client = [rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let nameless = odd.issue(vec![uri("spiffe://edge.iop")], &client);
    let error = refusal(&private(&pki.path("odd.pem"), odd.bundle(&nameless)));
    assert!(matches!(error, RevokeError::BadIdentity { .. }), "{error}");
    let mut params = params("number zero");
    params.subject_alt_names = vec![uri("spiffe://edge.iop/node/gpu-a")];
    params.extended_key_usages = client.to_vec();
    params.serial_number = Some(vec![0].into());
    let error = refusal(&private(&pki.path("zero.pem"), odd.bundle(&odd.sign(&params))));
    assert!(matches!(error, RevokeError::Serial { .. }), "{error}");
    assert!(!pki.path("revoked").exists());
}

#[test]
fn a_folder_that_is_no_edges_gets_no_list() {
    let folder = folder();
    let error = revoke_node(folder.path(), &node_id("gpu-a"), NOW).expect_err("nothing of iop is there");
    assert!(matches!(error, RevokeError::OtherFolder { .. }), "{error}");
    assert!(files(folder.path()).is_empty());
    fs::copy(Pki::new().edge(), folder.path().join("edge.pem")).expect("a copy");
    revoke_node(folder.path(), &node_id("gpu-a"), NOW).expect("an edge's folder without any authority");
}

#[test]
fn the_list_is_private_and_keeps_what_people_wrote_in_it() {
    let pki = Pki::new();
    revoke(&pki, "gpu-a", NOW);
    assert_eq!(mode(&pki.path("revoked")), 0o600);
    let head = text(&pki.path("revoked"));
    assert!(head.starts_with("# Certificates that the edge refuses"), "{head}");
    let written =
        "# stolen from the lab\nserial 4F # its first\n\nnode gpu-b until 2020-01-01T00:00:00Z # sold";
    private(&pki.path("revoked"), written);
    revoke(&pki, "gpu-a", NOW);
    assert_eq!(text(&pki.path("revoked")), format!("{written}\nnode gpu-a until 2027-01-15T08:00:00Z\n"));
    revoke_serial(&pki.dir, "5e".parse().expect("a number"), NOW).expect("revoked");
    assert!(text(&pki.path("revoked")).ends_with("\nserial 5e # revoked 2027-01-15T08:00:00Z\n"));
    let names: Vec<String> = files(&pki.dir).into_keys().filter(|name| name.contains("revoked")).collect();
    assert_eq!(names, [".revoked.lock", "revoked"], "no temporary file is left");
}

#[test]
fn a_list_that_is_bad_is_neither_added_to_nor_issued_by() {
    let pki = Pki::new();
    private(&pki.path("revoked"), "garbage\n");
    let before = files(&pki.dir);
    let error = revoke_node(&pki.dir, &node_id("gpu-a"), NOW).expect_err("the list is bad");
    assert!(matches!(error, RevokeError::List(RevocationsError::Line { line: 1, .. })), "{error}");
    let error = issue_node(&pki.dir, &node_id("gpu-a"), 90, NOW).expect_err("the list is bad");
    assert!(matches!(error, AuthorityError::Revocations(RevocationsError::Line { .. })), "{error}");
    let mut after = files(&pki.dir);
    after.remove(".revoked.lock");
    assert_eq!(after, before);
}

#[test]
fn a_list_that_could_not_be_read_back_is_not_written() {
    let pki = Pki::new();
    let last = "node gpu-a until 9999-12-31T23:59:59Z\n";
    private(&pki.path("revoked"), last);
    let error = revoke_node(&pki.dir, &node_id("gpu-a"), NOW).expect_err("there is no later time");
    assert!(matches!(error, RevokeError::List(RevocationsError::Line { .. })), "{error}");
    let full = "#".repeat((1 << 20) - 10);
    private(&pki.path("revoked"), &full);
    let error = revoke_node(&pki.dir, &node_id("gpu-a"), NOW).expect_err("there is no room");
    assert!(matches!(error, RevokeError::List(RevocationsError::TooLarge { .. })), "{error}");
    assert_eq!(text(&pki.path("revoked")), full);
}

#[test]
fn who_changes_the_list_is_waited_for_and_not_for_ever() {
    let pki = Pki::new();
    let lock = fs::File::create(pki.path(".revoked.lock")).expect("a file beside the list");
    lock.lock().expect("nobody else has it");
    let error = revoke_node(&pki.dir, &node_id("gpu-a"), NOW).expect_err("another has the list");
    assert!(
        matches!(&error, RevokeError::Store(StoreError::Locked { path }) if *path == pki.path("revoked")),
        "{error}"
    );
    assert_eq!(list(&pki), Revocations::default());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| revoke(&pki, "gpu-a", NOW));
        lock.unlock().expect("it was ours");
        waits.join().expect("it gets its turn");
    });
    assert_eq!(list(&pki).nodes(), 1);
}

#[test]
fn revocations_at_the_same_time_all_count() {
    let pki = Pki::new();
    let nodes: Vec<NodeId> = (0..16).map(|number| node_id(&format!("gpu-{number}"))).collect();
    std::thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| revoke_node(&pki.dir, node, NOW).expect("revoked"));
        }
    });
    let written = text(&pki.path("revoked"));
    let listed: BTreeSet<&str> = written.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    for node in &nodes {
        assert!(listed.contains(node.as_str()), "{node} is lost:\n{written}");
    }
    assert_eq!(list(&pki).nodes(), nodes.len());
}
