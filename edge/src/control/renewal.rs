//! One connection's requests for a new certificate: one at a time, not often, and each is answered. Whom a certificate names is
//! what the connection's own certificate says.

use crate::certificates::{Issued, Looking, NodeRequest};
use crate::quiet::Who;
use crate::session::Sessions;
use bytes::Bytes;
use iop_certs::{AuthorityError, PeerNode};
use iop_transport::session::RENEWAL_INTERVAL;
use iop_transport::wire::{CSR_BYTES, EdgeMessage};
use std::future::pending;
use tokio::time::Instant;
use tracing::{info, warn};

/// What was asked and is not answered, and when.
pub(super) struct Renewal {
    peer: PeerNode,
    under_way: Option<Looking<'static, Issued>>,
    asked: Option<Instant>,
}

impl Renewal {
    pub(super) fn new(peer: PeerNode) -> Self {
        Self { peer, under_way: None, asked: None }
    }

    /// The node asks. An error says how it has broken the protocol.
    pub(super) fn ask(&mut self, sessions: &Sessions, csr: Bytes) -> Result<(), &'static str> {
        if csr.len() > CSR_BYTES {
            return Err("the node's request for a certificate is too long");
        }
        if self.under_way.is_some() {
            return Err("the node asked for a certificate twice at a time");
        }
        if self.asked.is_some_and(|asked| asked.elapsed() < RENEWAL_INTERVAL) {
            return Err("the node asked for a certificate again too soon");
        }
        self.asked = Some(Instant::now());
        let request = NodeRequest { peer: self.peer.clone(), csr };
        self.under_way = Some(sessions.issuing.renew(request));
        Ok(())
    }

    /// What the node is told, when it is known. Cancel-safe.
    pub(super) async fn answer(&mut self, sessions: &Sessions) -> EdgeMessage {
        let issued = match &mut self.under_way {
            Some(under_way) => under_way.await,
            None => pending().await,
        };
        self.under_way = None;
        // Asked now, so that a node that was taken out of the configuration meanwhile gets nothing either.
        if sessions.live.node(self.peer.node_id.as_str()).is_none() {
            return self.refused(sessions, "the edge's configuration has no such node", None);
        }
        match issued {
            Ok(chain) => {
                if let Some(left_out) = sessions.quiet.may_say(self.who()) {
                    let new =
                        chain.first().and_then(|leaf| iop_certs::peer_node(leaf, &sessions.deployment).ok());
                    let serial = new.map(|new| new.serial).unwrap_or_default();
                    info!(serial, left_out, "renewed a node's certificate");
                }
                let chain = chain.iter().map(|certificate| Bytes::copy_from_slice(certificate)).collect();
                EdgeMessage::Renewed { chain }
            }
            Err(error) => self.refused(sessions, &reason_for_node(&error), Some(&error)),
        }
    }

    fn refused(&self, sessions: &Sessions, reason: &str, error: Option<&AuthorityError>) -> EdgeMessage {
        if let Some(left_out) = sessions.quiet.may_say(self.who()) {
            let error = error.map_or_else(|| reason.to_owned(), ToString::to_string);
            warn!(%error, left_out, "a node's certificate is not renewed");
        }
        EdgeMessage::RenewalRefused { reason: reason.to_owned() }
    }

    fn who(&self) -> Who {
        Who::Node(self.peer.node_id.as_str().into())
    }
}

/// What the node's operator can do something about. The edge's folders are not the node's business.
fn reason_for_node(error: &AuthorityError) -> String {
    match error {
        AuthorityError::Elsewhere { .. } => {
            "the authority's key is not on the edge: `iop certs issue`, where it is, makes a new certificate"
                .into()
        }
        AuthorityError::Request { .. }
        | AuthorityError::Revoked { .. }
        | AuthorityError::RevokedUntil { .. }
        | AuthorityError::NothingGained { .. } => error.to_string(),
        _ => "the edge could not issue a certificate, its log says why".into(),
    }
}
