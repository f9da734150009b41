//! Which certificate is in force after what was seen in its file.

use super::super::{Issued, Looking, NodeRequest, Renewed, RevokedLook};
use super::*;
use iop_certs::{InitOptions, Role};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

/// Gives each look in turn, the last one for ever.
#[derive(Debug)]
struct Looks(Mutex<Vec<OwnLook>>);

impl Certificates for Looks {
    fn own(&self) -> Looking<'_, OwnLook> {
        let mut looks = self.0.lock().expect("nothing panics while it holds this");
        let last = looks.pop().expect("there is a last one");
        if looks.is_empty() {
            looks.push(again(&last));
        }
        Box::pin(std::future::ready(last))
    }

    fn renew_own(&self, _in_force: Identity) -> Looking<'_, Renewed> {
        unreachable!("nothing is renewed here")
    }

    fn renew_node(&self, _in_force: Identity, _request: NodeRequest) -> Looking<'_, Issued> {
        unreachable!("nothing is issued here")
    }

    fn revoked(&self) -> Looking<'_, RevokedLook> {
        unreachable!("only the edge's own certificate is looked at")
    }
}

/// The same, a second later by the clock.
fn again(look: &OwnLook) -> OwnLook {
    match look {
        Ok(identity) => Ok(identity.clone()),
        Err(LoadError::Expired { path, not_after, now }) => {
            Err(LoadError::Expired { path: path.clone(), not_after: *not_after, now: now + 1 })
        }
        Err(LoadError::NotFound { path }) => Err(LoadError::NotFound { path: path.clone() }),
        Err(error) => panic!("no case has {error}"),
    }
}

fn authority(edge_name: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let options = InitOptions { edge_name: edge_name.to_owned(), ..InitOptions::default() };
    iop_certs::init(folder.path(), &options, iop_certs::now()).expect("an authority");
    folder
}

fn load(folder: &Path) -> Identity {
    iop_certs::load_bundle(&folder.join("edge.pem"), Role::Edge).expect("a good bundle")
}

fn renewed(folder: &Path) -> Identity {
    iop_certs::issue_edge(folder, 90, iop_certs::now()).expect("issued");
    load(folder)
}

/// The serial numbers that were installed while these looks, and the last of them for a minute, were judged.
async fn installed(own: &Own, looks: Vec<OwnLook>) -> Vec<String> {
    let looks = Looks(Mutex::new(looks.into_iter().rev().collect()));
    let installed = Mutex::new(Vec::new());
    let install = |identity: &Identity| {
        installed.lock().expect("nothing panics while it holds this").push(identity.serial.clone());
        Ok(())
    };
    let watched = timeout(Duration::from_secs(60), own.watch(&looks, install)).await;
    assert!(watched.is_err(), "it runs until dropped");
    installed.into_inner().expect("nothing panicked")
}

// [certs]
#[tokio::test(start_paused = true)]
async fn a_changed_certificate_is_installed_once_when_two_looks_have_seen_it() {
    let pki = authority("edge.iop");
    let (first, second, third) = (load(pki.path()), renewed(pki.path()), renewed(pki.path()));
    let own = Own::new(first.clone());
    let looks = vec![Ok(first), Ok(second), Ok(third.clone()), Ok(third.clone())];
    assert_eq!(installed(&own, looks).await, [third.serial.as_str()]);
    let expected =
        OwnState { serial: third.serial, not_after: third.not_after, last_error: None, renewal_error: None };
    assert_eq!(own.state(), expected);
}

// [certs]
#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_used_leaves_the_certificate_before_in_force_and_the_snapshot_says_why() {
    let (pki, other) = (authority("edge.iop"), authority("other.iop"));
    let first = load(pki.path());
    let expired = |not_after| Err(LoadError::Expired { path: "edge.pem".into(), not_after, now: 1 });
    let bad: [(OwnLook, &str); 4] = [
        (Err(LoadError::NotFound { path: "edge.pem".into() }), "edge.pem: no such file"),
        (expired(5), "edge.pem: the certificate expired at 1970-01-01T00:00:05Z"),
        (expired(first.not_after), "edge.pem: the certificate expired at "),
        (Ok(load(other.path())), "it is of deployment `other.iop`"),
    ];
    for (look, words) in bad {
        let own = Own::new(first.clone());
        assert_eq!(installed(&own, vec![look]).await, [""; 0]);
        let OwnState { serial, last_error, .. } = own.state();
        assert_eq!(serial, first.serial);
        let error = last_error.expect("the snapshot says why");
        assert!(error.starts_with(words), "{error}");
        assert_eq!(installed(&own, vec![expired(7), Ok(first.clone())]).await, [""; 0], "it never changed");
        assert_eq!(installed(&own, vec![expired(7), expired(7), Ok(first.clone())]).await, [&*first.serial]);
        assert_eq!(own.state().last_error, None, "the same file is good again");
    }
}

#[test]
fn a_certificate_that_tls_refuses_is_not_in_force() {
    let pki = authority("edge.iop");
    let own = Own::new(load(pki.path()));
    let before = own.state();
    own.judge(&Ok(renewed(pki.path())), |_| Err("no such curve".to_owned()));
    assert_eq!(own.state(), OwnState { last_error: Some("no such curve".to_owned()), ..before });
}

#[test]
fn the_same_error_at_another_time_is_the_same_and_another_error_is_not() {
    let expired = |not_after, now| Err(LoadError::Expired { path: "edge.pem".into(), not_after, now });
    let early = |not_before, now| Err(LoadError::NotYetValid { path: "edge.pem".into(), not_before, now });
    assert!(is_same(&expired(1, 2), &expired(1, 3)) && is_same(&early(5, 2), &early(5, 3)));
    assert!(!is_same(&expired(1, 3), &expired(2, 3)) && !is_same(&early(5, 3), &early(6, 3)));
    assert!(!is_same(&expired(1, 0), &early(1, 0)));
}
