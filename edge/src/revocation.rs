//! The list of revoked certificates in force: read from its source again and again, and asked by every connection for as
//! long as it lives. What is on the list is `iop-certs`' business; closing a connection is `session`'s.

use crate::certificates::{Certificates, RevokedLook, watch};
use iop_certs::{PeerNode, Revocations};
use serde::Serialize;
use std::sync::{Arc, RwLock, RwLockReadGuard};
use tokio::sync::Notify;
use tracing::{error, info};

/// The list in force. Cheap to clone; every clone is the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revoked {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: RwLock<State>,
    /// Told when another list is in force.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    list: Revocations,
    last_error: Option<String>,
}

/// The list in force, for the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RevocationState {
    /// Nodes of which every certificate up to a time is revoked.
    pub(crate) nodes: usize,
    /// Certificates that are revoked one by one.
    pub(crate) serials: usize,
    /// Why the list as it was last read is not in force; `None` if it is.
    pub(crate) last_error: Option<String>,
}

impl Revoked {
    pub(crate) fn new(list: Revocations) -> Self {
        let state = RwLock::new(State { list, last_error: None });
        Self { inner: Arc::new(Inner { state, changed: Notify::new() }) }
    }

    /// What is in force, for the snapshot.
    pub(crate) fn state(&self) -> RevocationState {
        let State { list, last_error } = &*self.read();
        RevocationState { nodes: list.nodes(), serials: list.serials(), last_error: last_error.clone() }
    }

    /// Resolves when the list in force revokes this certificate: at once, if it does now.
    pub(crate) async fn revokes(&self, peer: &PeerNode) {
        loop {
            // Before the look, so that no change between the two is missed.
            let changed = self.inner.changed.notified();
            if self.read().list.revokes(peer) {
                return;
            }
            changed.await;
        }
    }

    /// Takes changes of the list over. Runs until dropped.
    pub(crate) async fn watch(&self, certificates: &dyn Certificates) {
        let in_force = Ok(Some(self.read().list.clone()));
        watch(in_force, || certificates.revoked(), RevokedLook::eq, |seen| self.judge(seen)).await;
    }

    /// Puts a list in force, or says why it is not. Either is said once.
    fn judge(&self, seen: &RevokedLook) {
        let mut state = self.inner.state.write().expect("no code panics while it holds the list");
        let problem = match seen {
            Ok(Some(list)) => {
                state.list = list.clone();
                None
            }
            Ok(None) if state.list == Revocations::default() => None,
            // Who wants to revoke nobody any more empties the list. One that is gone was more likely lost.
            Ok(None) => Some("it is gone: what it said stays in force until the edge is started again"),
            Err(error) => Some(&**error),
        };
        state.last_error = problem.map(str::to_owned);
        drop(state);
        self.inner.changed.notify_waiters();
        match (seen, problem) {
            (_, Some(error)) => {
                error!(%error, "the list of revoked certificates is not in force, the one before it still is");
            }
            (Ok(Some(list)), None) => {
                let (nodes, serials) = (list.nodes(), list.serials());
                info!(nodes, serials, "the list of revoked certificates is in force");
            }
            _ => {}
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.inner.state.read().expect("no code panics while it holds the list")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::{Issued, Looking, NodeRequest, OwnLook, Renewed};
    use iop_certs::Identity;
    use std::path::Path;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::time::{Instant, timeout};

    /// Gives each look in turn, the last one for ever.
    #[derive(Debug)]
    struct Looks(Mutex<Vec<RevokedLook>>);

    impl Looks {
        fn new(looks: &[RevokedLook]) -> Self {
            Self(Mutex::new(looks.iter().rev().cloned().collect()))
        }
    }

    impl Certificates for Looks {
        fn own(&self) -> Looking<'_, OwnLook> {
            unreachable!("only the list is looked at")
        }

        fn renew_own(&self, _in_force: Identity) -> Looking<'_, Renewed> {
            unreachable!("nothing is renewed here")
        }

        fn renew_node(&self, _in_force: Identity, _request: NodeRequest) -> Looking<'_, Issued> {
            unreachable!("nothing is issued here")
        }

        fn revoked(&self) -> Looking<'_, RevokedLook> {
            let mut looks = self.0.lock().expect("nothing panics while it holds this");
            let look = if looks.len() > 1 { looks.pop() } else { looks.last().cloned() };
            Box::pin(std::future::ready(look.expect("there is a last one")))
        }
    }

    fn list(text: &str) -> RevokedLook {
        Ok(Some(Revocations::parse(Path::new("pki"), text.as_bytes()).expect("a good list")))
    }

    fn peer(serial: &str) -> PeerNode {
        let node_id = "gpu-a".parse().expect("a node id");
        PeerNode { node_id, not_before: 0, not_after: i64::MAX, serial: serial.to_owned() }
    }

    /// When these looks get the certificate `0a` revoked; `None`: not within a minute.
    async fn revoked_after(in_force: &str, looks: &[RevokedLook]) -> Option<Duration> {
        let revoked = Revoked::new(list(in_force).expect("good").expect("a list"));
        let source = Looks::new(looks);
        let begun = Instant::now();
        let peer = peer("0a");
        let waits = async {
            tokio::select! {
                biased;
                () = revoked.watch(&source) => unreachable!("it runs until dropped"),
                () = revoked.revokes(&peer) => begun.elapsed(),
            }
        };
        timeout(Duration::from_secs(60), waits).await.ok()
    }

    const NEXT_LOOK: Option<Duration> = Some(Duration::from_millis(1100));

    #[tokio::test(start_paused = true)]
    async fn a_certificate_is_revoked_at_once_or_when_the_list_says_so() {
        assert_eq!(revoked_after("serial 0a", &[list("serial 0a")]).await, Some(Duration::ZERO));
        assert_eq!(revoked_after("", &[list("serial 0a")]).await, NEXT_LOOK);
        assert_eq!(revoked_after("serial 0b", &[list("serial 0a")]).await, NEXT_LOOK);
        assert_eq!(revoked_after("", &[list(""), list("serial 0b")]).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_changes_between_two_looks_is_left_alone_until_it_is_whole() {
        let (half, whole) = (list("serial 0a"), list("serial 0b"));
        assert_eq!(revoked_after("", &[half.clone(), whole.clone()]).await, None);
        let settled = Some(Duration::from_millis(2200));
        assert_eq!(revoked_after("", &[whole, half.clone(), half]).await, settled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_bad_or_gone_leaves_the_one_before_in_force() {
        for (lost, words) in [(Err("line 1 is bad".to_owned()), "line 1 is bad"), (Ok(None), "it is gone")] {
            let revoked = Revoked::new(list("serial 0a").expect("good").expect("a list"));
            let source = Looks::new(&[lost]);
            let watched = timeout(Duration::from_secs(60), revoked.watch(&source)).await;
            assert!(watched.is_err(), "it runs until dropped");
            assert!(revoked.read().list.revokes(&peer("0a")));
            let RevocationState { nodes, serials, last_error } = revoked.state();
            assert_eq!((nodes, serials), (0, 1));
            assert!(last_error.expect("the snapshot says why").starts_with(words));
            revoked.judge(&list("serial 0a"));
            assert_eq!(revoked.state().last_error, None, "the same list is good again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_is_taken_out_lets_its_certificate_in_again() {
        for without in ["", "serial 0b"] {
            let revoked = Revoked::new(list("serial 0a").expect("good").expect("a list"));
            let source = Looks::new(&[list(without)]);
            let _runs_on = timeout(Duration::from_secs(60), revoked.watch(&source)).await;
            assert!(!revoked.read().list.revokes(&peer("0a")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_connection_that_waits_learns_of_a_change() {
        let revoked = Revoked::default();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let revoked = revoked.clone();
                tokio::spawn(async move { revoked.revokes(&peer("0a")).await })
            })
            .collect();
        tokio::task::yield_now().await;
        revoked.judge(&list("serial 0b"));
        tokio::task::yield_now().await;
        assert!(waiting.iter().all(|task| !task.is_finished()), "another certificate");
        revoked.judge(&list("serial 0a"));
        for task in waiting {
            timeout(Duration::from_secs(1), task).await.expect("told").expect("no panic");
        }
    }
}
