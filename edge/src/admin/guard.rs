//! Who may use the admin listener: whoever shows the operators' key, or reaches a loopback listener that has none.

use crate::bearer::{bearer, is_shown};
use crate::live::Live;
use http::HeaderMap;
use std::net::SocketAddr;

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stranger {
    #[error("operators of this edge need a key: send it as `Authorization: Bearer KEY`")]
    NoKey,
    #[error("the key is not the one that admin.key_env of this edge holds")]
    WrongKey,
    /// The file may name no key while it names loopback; the socket is still the one that was bound at the start.
    #[error(
        "this edge still listens for operators on more than loopback, but admin.key_env is gone from its configuration: \
         nobody is let in until it is there again or the edge starts again"
    )]
    KeyGone,
}

/// Asks for the key of the configuration in force. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    live: Live,
    /// Whether the listener is one that only this machine reaches.
    is_loopback: bool,
}

impl Guard {
    /// For a listener that was bound to `address`.
    pub(crate) fn new(live: Live, address: SocketAddr) -> Self {
        Self { live, is_loopback: address.ip().is_loopback() }
    }

    /// Lets a request with these headers in, or says why not.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Stranger> {
        let settings = self.live.get();
        match &settings.config.admin.key {
            None if self.is_loopback => Ok(()),
            None => Err(Stranger::KeyGone),
            Some(key) => match bearer(headers) {
                None => Err(Stranger::NoKey),
                Some(shown) if is_shown(key, shown) => Ok(()),
                Some(_) => Err(Stranger::WrongKey),
            },
        }
    }
}
