//! Making an authority: what it writes, and that it never touches one that is there.

use std::fs;
use std::path::PathBuf;
use std::thread;

use iop_certs::{
    Authority, AuthorityError, DEFAULT_EDGE_NAME, EdgeNameError, InitOptions, Role, StoreError, init,
    issue_node, load_bundle_at,
};

use crate::made::{DAY, NOW, Pki, files, folder, mode, node_id, private, set_mode};

const FILES: [&str; 5] = ["edge.pem", "issuing.key", "issuing.pem", "root.key", "root.pem"];

fn named(edge_name: &str) -> InitOptions {
    InitOptions { edge_name: edge_name.to_owned(), ..InitOptions::default() }
}

// [certs]
#[test]
fn init_makes_five_private_files_in_a_private_folder_and_reports_them() {
    let folder = folder();
    let dir = folder.path().join("deep").join("pki");
    let report = init(&dir, &InitOptions::default(), NOW).expect("a new authority");

    assert_eq!(files(&dir).into_keys().collect::<Vec<_>>(), FILES);
    let mut reported = report.files.clone();
    reported.sort();
    assert_eq!(reported, FILES.map(|name| dir.join(name)));
    assert_eq!(mode(&dir), 0o700);
    for path in &report.files {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    assert_eq!(report.edge_name, DEFAULT_EDGE_NAME);
    assert_eq!(report.edge_not_after, NOW + 90 * DAY);
    let edge = load_bundle_at(&dir.join("edge.pem"), Role::Edge, NOW).expect("the edge's own file loads");
    assert_eq!((edge.deployment.as_str(), edge.not_after), ("edge.iop", report.edge_not_after));
}

#[test]
fn the_chosen_name_is_in_every_certificate() {
    let folder = folder();
    let dir = folder.path().join("pki");
    let options = InitOptions { edge_name: "lab.example.com".to_owned(), days: 7 };
    let report = init(&dir, &options, NOW).expect("a new authority");
    assert_eq!((report.edge_name.as_str(), report.edge_not_after), ("lab.example.com", NOW + 7 * DAY));
    assert_eq!(Authority::load(&dir).expect("it loads").edge_name(), "lab.example.com");
    let node = issue_node(&dir, &node_id("gpu-a"), 90, NOW).expect("it issues");
    let node = load_bundle_at(&node.path, Role::Node, NOW).expect("the node's file loads");
    assert_eq!(node.deployment, "lab.example.com");
}

#[test]
fn any_file_of_an_authority_makes_init_refuse_and_name_it() {
    for name in FILES {
        let folder = folder();
        private(&folder.path().join(name), "precious");
        let before = files(folder.path());
        let error = init(folder.path(), &InitOptions::default(), NOW).expect_err("the file is in the way");
        let path = folder.path().join(name);
        assert!(
            matches!(&error, AuthorityError::Store(StoreError::Exists { path: found }) if *found == path),
            "{error}"
        );
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(files(folder.path()), before);
    }
}

#[test]
fn a_second_init_leaves_the_authority_as_it_is() {
    let pki = Pki::new();
    let before = files(&pki.dir);
    init(&pki.dir, &InitOptions::default(), NOW).expect_err("an authority is there");
    assert_eq!(files(&pki.dir), before);
}

#[test]
fn an_interrupted_init_is_told_from_a_finished_one() {
    let folder = folder();
    let left = private(&folder.path().join(".root.key.tmp"), "");
    let error = init(folder.path(), &InitOptions::default(), NOW).expect_err("another may be at work");
    assert!(
        matches!(&error, AuthorityError::Store(StoreError::UnderWay { path }) if *path == left),
        "{error}"
    );
    assert_eq!(files(folder.path()).into_keys().collect::<Vec<_>>(), [".root.key.tmp"]);
}

#[test]
fn of_many_inits_at_once_one_makes_a_whole_authority_and_the_others_refuse() {
    for _round in 0..8 {
        let folder = folder();
        let dir = folder.path().join("pki");
        let run = || init(&dir, &InitOptions::default(), NOW);
        let results: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        for error in results.into_iter().filter_map(Result::err) {
            let refused = matches!(
                error,
                AuthorityError::Store(StoreError::Exists { .. } | StoreError::UnderWay { .. })
            );
            assert!(refused, "{error}");
        }
        assert_eq!(files(&dir).into_keys().collect::<Vec<_>>(), FILES);
        issue_node(&dir, &node_id("gpu-a"), 90, NOW).expect("the files belong together");
    }
}

#[test]
fn an_empty_folder_is_closed_and_a_used_one_only_checked() {
    let empty = folder();
    set_mode(empty.path(), 0o755);
    init(empty.path(), &InitOptions::default(), NOW).expect("an empty folder will do");
    assert_eq!(mode(empty.path()), 0o700);

    let used = folder();
    fs::write(used.path().join("notes"), "mine").expect("a file");
    set_mode(used.path(), 0o777);
    let error = init(used.path(), &InitOptions::default(), NOW).expect_err("others may write there");
    assert!(matches!(error, AuthorityError::Store(StoreError::OpenFolder { mode: 0o777, .. })), "{error}");
    assert!(error.to_string().contains("chmod 700"), "{error}");
    set_mode(used.path(), 0o755);
    init(used.path(), &InitOptions::default(), NOW).expect("others may only look");
    assert_eq!(mode(used.path()), 0o755);
}

#[test]
fn a_file_in_the_folders_place_is_refused() {
    let folder = folder();
    let path = private(&folder.path().join("pki"), "a file");
    let error = init(&path, &InitOptions::default(), NOW).expect_err("not a folder");
    assert!(
        matches!(&error, AuthorityError::Store(StoreError::Io { path: found, .. }) if *found == path),
        "{error}"
    );
}

#[test]
fn wrong_options_are_refused_before_anything_is_made() {
    let folder = folder();
    let dir = folder.path().join("pki");
    let refusal = |options: &InitOptions, now| init(&dir, options, now).expect_err("wrong options");

    let error = refusal(&named("Edge.iop"), NOW);
    assert!(
        matches!(&error, AuthorityError::EdgeName { reason: EdgeNameError::Character { found: 'E' }, .. }),
        "{error}"
    );
    let error = refusal(&named("10.0.0.1"), NOW);
    assert!(
        matches!(&error, AuthorityError::EdgeName { reason: EdgeNameError::Numeric { .. }, .. }),
        "{error}"
    );
    let error = refusal(&InitOptions { days: 0, ..InitOptions::default() }, NOW);
    assert!(matches!(error, AuthorityError::NoDays), "{error}");
    for clock in [0, -1, 86_400, i64::MIN, i64::MAX, NOW * 1000] {
        let error = refusal(&InitOptions::default(), clock);
        assert!(matches!(error, AuthorityError::Clock { now } if now == clock), "{error}");
    }
    assert!(!dir.exists());
}

#[test]
fn an_authority_shows_itself_without_its_key() {
    let pki = Pki::new();
    let shown = format!("{:?}", Authority::load(&pki.dir).expect("it loads"));
    assert!(shown.contains("edge.iop"), "{shown}");
    assert!(shown.len() < 500, "no certificate and no key fits in {shown}");
    let path: PathBuf = pki.dir;
    assert!(shown.contains(&format!("{path:?}")), "{shown}");
}
