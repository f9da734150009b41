//! The edge's own certificate in force: a changed file serves new handshakes, and connections that live go on. What is wrong
//! with a file is `iop-certs`' business.

#[cfg(test)]
mod tests;

use super::renewal::{Renewal, Said};
use super::{Certificates, OwnLook, watch};
use iop_certs::{Identity, LoadError, Utc};
use serde::Serialize;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{debug, error, info, warn};

/// How often it is asked whether the certificate is to be renewed. Timers stand still while a machine sleeps, and clocks are
/// set.
const RENEWAL_LOOK: Duration = Duration::from_secs(60);

/// The certificate in force. Cheap to clone; every clone is the same.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    state: Arc<RwLock<State>>,
    /// Told when another certificate is in force.
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    identity: Identity,
    last_error: Option<String>,
    renewal_error: Option<String>,
}

/// The certificate in force, for the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OwnState {
    pub(crate) serial: String,
    /// Its last good second, since 1970.
    pub(crate) not_after: i64,
    /// Why the file as it was last read is not in force; `None` if it is.
    pub(crate) last_error: Option<String>,
    /// Why it was not renewed, though it is time to look after that; else `None`.
    pub(crate) renewal_error: Option<String>,
}

impl Own {
    pub(crate) fn new(identity: Identity) -> Self {
        let state = State { identity, last_error: None, renewal_error: None };
        Self { state: Arc::new(RwLock::new(state)), changed: Arc::default() }
    }

    /// What is in force, for the snapshot.
    pub(crate) fn state(&self) -> OwnState {
        let State { identity, last_error, renewal_error } = &*self.read();
        OwnState {
            serial: identity.serial.clone(),
            not_after: identity.not_after,
            last_error: last_error.clone(),
            renewal_error: renewal_error.clone(),
        }
    }

    /// The certificate itself.
    pub(super) fn identity(&self) -> Identity {
        self.read().identity.clone()
    }

    /// Takes changes of the file over; `install` has new handshakes use a certificate. Runs until dropped.
    pub(crate) async fn watch(
        &self,
        certificates: &dyn Certificates,
        install: impl Fn(&Identity) -> Result<(), String>,
    ) {
        let in_force = Ok(self.identity());
        watch(in_force, || certificates.own(), is_same, |seen| self.judge(seen, &install)).await;
    }

    /// Has the certificate renewed when that is due; [`Own::watch`] then takes the new one over. Runs until dropped.
    pub(crate) async fn renew(&self, certificates: &dyn Certificates) {
        let mut renewal = Renewal::default();
        loop {
            let identity = self.identity();
            if renewal.begins(&identity, iop_certs::now()) {
                let not_after = Utc(identity.not_after);
                match (certificates.renew_own(identity).await, iop_certs::now()) {
                    (Ok(report), _) => {
                        info!(
                            serial = report.serial,
                            not_after = %Utc(report.not_after),
                            "renewed the edge's certificate"
                        );
                    }
                    (Err(error), now) => match renewal.failed(&error, now) {
                        Said::Nothing => debug!(%error, "the edge's certificate is not renewed yet"),
                        said => {
                            if said == Said::Now {
                                warn!(%not_after, %error, "the edge's certificate is not renewed");
                            }
                            self.write().renewal_error = Some(error.to_string());
                        }
                    },
                }
            }
            // The next one may have been made long ago.
            let _either = timeout(RENEWAL_LOOK, self.changed.notified()).await;
        }
    }

    /// Puts a certificate in force, or says why it is not. Either is said once.
    fn judge(&self, seen: &OwnLook, install: impl Fn(&Identity) -> Result<(), String>) {
        let mut state = self.write();
        let (serial, not_after) = (state.identity.serial.clone(), state.identity.not_after);
        let problem = match seen {
            Ok(identity) => usable(&state.identity, identity).and_then(|()| install(identity)).err(),
            Err(error) => Some(error.to_string()),
        };
        state.last_error.clone_from(&problem);
        if let (Ok(identity), None) = (seen, &problem) {
            state.identity = identity.clone();
            state.renewal_error = None;
        }
        drop(state);
        match (seen, problem) {
            (Err(LoadError::Expired { not_after: ended, .. }), Some(error)) if *ended == not_after => {
                error!(%error, "the edge's certificate has expired: no node can connect");
            }
            (_, Some(error)) => {
                error!(%error, serial, "the edge's certificate as it is now is not in force, the one before it still is");
            }
            (Ok(identity), None) => {
                self.changed.notify_one();
                info!(serial = identity.serial, "a new certificate of the edge is in force");
            }
            (Err(_), None) => {}
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("no code panics while it holds the certificate")
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no code panics while it holds the certificate")
    }
}

/// The names of nodes are read for one deployment, from the edge's start to its end.
fn usable(in_force: &Identity, new: &Identity) -> Result<(), String> {
    if new.deployment == in_force.deployment {
        return Ok(());
    }
    Err(format!(
        "it is of deployment `{}`, and this edge was started for `{}`: start it again if that is meant",
        new.deployment, in_force.deployment
    ))
}

fn is_same(one: &OwnLook, other: &OwnLook) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one == other,
        (Err(one), Err(other)) => one.is_same(other),
        _ => false,
    }
}
