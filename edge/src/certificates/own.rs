//! The edge's own certificate in force: a changed file serves new handshakes, and connections that live go on. What is wrong
//! with a file is `iop-certs`' business.

#[cfg(test)]
mod tests;

use super::{Certificates, OwnLook, watch};
use iop_certs::{Identity, LoadError};
use serde::Serialize;
use std::sync::{Arc, RwLock, RwLockReadGuard};
use tracing::{error, info};

/// The certificate in force. Cheap to clone; every clone is the same.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    state: Arc<RwLock<State>>,
}

#[derive(Debug)]
struct State {
    identity: Identity,
    last_error: Option<String>,
}

/// The certificate in force, for the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OwnState {
    pub(crate) serial: String,
    /// Its last good second, since 1970.
    pub(crate) not_after: i64,
    /// Why the file as it was last read is not in force; `None` if it is.
    pub(crate) last_error: Option<String>,
}

impl Own {
    pub(crate) fn new(identity: Identity) -> Self {
        Self { state: Arc::new(RwLock::new(State { identity, last_error: None })) }
    }

    /// What is in force, for the snapshot.
    pub(crate) fn state(&self) -> OwnState {
        let State { identity, last_error } = &*self.read();
        OwnState {
            serial: identity.serial.clone(),
            not_after: identity.not_after,
            last_error: last_error.clone(),
        }
    }

    /// Takes changes of the file over; `install` has new handshakes use a certificate. Runs until dropped.
    pub(crate) async fn watch(
        &self,
        certificates: &dyn Certificates,
        install: impl Fn(&Identity) -> Result<(), String>,
    ) {
        let in_force = Ok(self.read().identity.clone());
        watch(in_force, || certificates.own(), is_same, |seen| self.judge(seen, &install)).await;
    }

    /// Puts a certificate in force, or says why it is not. Either is said once.
    fn judge(&self, seen: &OwnLook, install: impl Fn(&Identity) -> Result<(), String>) {
        let mut state = self.state.write().expect("no code panics while it holds the certificate");
        let (serial, not_after) = (state.identity.serial.clone(), state.identity.not_after);
        let problem = match seen {
            Ok(identity) => usable(&state.identity, identity).and_then(|()| install(identity)).err(),
            Err(error) => Some(error.to_string()),
        };
        state.last_error.clone_from(&problem);
        if let (Ok(identity), None) = (seen, &problem) {
            state.identity = identity.clone();
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
                info!(serial = identity.serial, "a new certificate of the edge is in force");
            }
            (Err(_), None) => {}
        }
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
