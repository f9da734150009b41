//! One node's connection: handshake, identity, registration, end. Its control stream is served in `control`; runs have
//! their own streams and are not seen here.

mod expiry;

use crate::admission::Generation;
use crate::certificates::Issuing;
use crate::control::{Control, Orders};
use crate::desk::Desk;
use crate::events::{Event, Events};
use crate::handshakes::{Handshakes, Place};
use crate::live::Live;
use crate::quiet::{Quiet, Who};
use crate::registry::{Order, Registered, Registry};
use crate::revocation::Revoked;
use iop_certs::PeerNode;
use iop_transport::codes::CloseCode;
use iop_transport::session::{self, HELLO_TIMEOUT, HelloError, printable};
use iop_transport::wire::Hello;
use iop_transport::{Connection, Incoming, peer};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::{Instrument, debug, info, warn};

/// How long TLS may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Shortest time in which a node that is alive must answer a Ping.
const PING_TIMEOUT: Duration = Duration::from_millis(1500);

/// Orders that may wait for a control stream. More come only if the node does not read.
const ORDERS: usize = 16;

/// What every connection needs.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pub desk: Desk,
    pub registry: Registry,
    pub live: Live,
    pub events: Events,
    pub handshakes: Handshakes,
    pub revoked: Revoked,
    pub issuing: Issuing,
    pub quiet: Quiet,
    /// Silence after which QUIC gives a connection up.
    pub idle_timeout: Duration,
    /// The trust domain of node identities.
    pub deployment: Arc<str>,
}

/// Why a connection was not registered.
struct Rejected {
    code: CloseCode,
    reason: String,
}

impl Sessions {
    /// Takes a connection from its first packet to its end. Its handshake holds the place.
    pub(crate) async fn serve(self, incoming: Incoming, place: Place) {
        let address = peer::canonical(incoming.remote_address());
        let connection = match tokio::time::timeout(HANDSHAKE_TIMEOUT, incoming).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                if let Some(left_out) = self.quiet.may_say(Who::Stranger) {
                    let error = printable(&error.to_string());
                    warn!(%address, %error, left_out, "a connection failed its handshake");
                }
                return;
            }
            Err(_elapsed) => {
                if let Some(left_out) = self.quiet.may_say(Who::Stranger) {
                    warn!(%address, left_out, "a connection did not finish its handshake in time");
                }
                return;
            }
        };
        drop(place);
        let Some(peer) = self.identify(&connection) else { return };
        let span = tracing::info_span!("session", node = %peer.node_id);
        self.register_and_serve(connection, &peer).instrument(span).await;
    }

    fn identify(&self, connection: &Connection) -> Option<PeerNode> {
        let chain = peer::certificates(connection);
        let leaf = chain.first()?;
        match iop_certs::peer_node(leaf, &self.deployment) {
            Ok(peer) => Some(peer),
            Err(error) => {
                if let Some(left_out) = self.quiet.may_say(Who::Stranger) {
                    let address = peer::address(connection);
                    warn!(%address, %error, left_out, "refused a certificate without a usable identity");
                }
                iop_transport::close(connection, CloseCode::BadIdentity, error.to_string().as_bytes());
                None
            }
        }
    }

    async fn register_and_serve(self, connection: Connection, peer: &PeerNode) {
        let address = peer::address(&connection);
        let node: Arc<str> = peer.node_id.as_str().into();
        // The list is asked first, so that a revoked certificate gets no further than its handshake.
        let registered = tokio::select! {
            biased;
            () = self.revoked.revokes(peer) => {
                let reason = format!("{} (serial number {})", CloseCode::CertificateRevoked.explain(), peer.serial);
                Err(Rejected::new(CloseCode::CertificateRevoked, reason))
            }
            registered = self.register(&connection, &node, peer) => registered,
        };
        let mut control = match registered {
            Ok(control) => control,
            Err(Rejected { code, reason }) => {
                let who = if self.live.node(&node).is_some() { Who::Node(node) } else { Who::Stranger };
                if let Some(left_out) = self.quiet.may_say(who) {
                    warn!(%address, ?code, %reason, left_out, "refused a registration");
                }
                iop_transport::close(&connection, code, reason.as_bytes());
                return;
            }
        };
        let mut owner = Owner {
            sessions: &self,
            node,
            generation: control.generation,
            reason: "its task failed".to_owned(),
        };
        owner.reason = tokio::select! {
            biased;
            // Also if that happened in the moment of the registration.
            () = self.revoked.revokes(peer) => end(&connection, CloseCode::CertificateRevoked),
            reason = control.run(&self) => reason,
            () = expiry::expired(peer.not_after) => end(&connection, CloseCode::CertificateExpired),
        };
    }

    async fn register(
        &self,
        connection: &Connection,
        node: &Arc<str>,
        peer: &PeerNode,
    ) -> Result<Control, Rejected> {
        let _place = self.handshakes.identified(node).ok_or_else(|| {
            Rejected::new(CloseCode::Duplicate, "too many connections of this identity want to register")
        })?;
        let (hello, send, recv) = tokio::time::timeout(HELLO_TIMEOUT, session::accept_hello(connection))
            .await
            .map_err(|_elapsed| Rejected::new(CloseCode::HelloTimeout, "no Hello in time"))?
            .map_err(Rejected::from)?;
        if self.live.node(node).is_none() {
            let reason = format!("the edge's configuration has no node `{node}`");
            return Err(Rejected::new(CloseCode::UnknownNode, reason));
        }
        let (orders, inbox) = mpsc::channel(ORDERS);
        let settings_changed = Arc::new(Notify::new());
        let generation = loop {
            let owner = self.registry.get(node);
            if let Some(owner) = &owner {
                tokio::select! {
                    biased;
                    displaced = displace(owner, &hello) => displaced?,
                    // Who is gone takes nobody's place, however long the owner is silent.
                    gone = connection.closed() => {
                        let reason = format!("it left while the owner of its identity was asked: {gone}");
                        return Err(Rejected::new(CloseCode::Duplicate, reason));
                    }
                }
            }
            let registered =
                self.registry.register(node, owner.as_ref().map(|owner| owner.generation), |generation| {
                    // Fences the old generation and returns its leases before anybody knows the new one.
                    self.desk.node_online(node, generation, settings_changed.clone());
                    Registered {
                        connection: connection.clone(),
                        generation,
                        instance: hello.instance,
                        dial: hello.dial,
                        software: hello.software.clone(),
                        since: SystemTime::now(),
                        settings_changed: settings_changed.clone(),
                        orders: orders.clone(),
                    }
                });
            // `None`: another connection of the same node was faster; then that one is the owner to look at.
            let Some(generation) = registered else { continue };
            if let Some(owner) = owner {
                let reason = b"a newer connection of this node has taken over";
                iop_transport::close(&owner.connection, CloseCode::Superseded, reason);
            }
            break generation;
        };
        let address = peer::address(connection);
        if let Some(left_out) = self.quiet.may_say(Who::Node(node.clone())) {
            let software = hello.software;
            info!(%address, generation = generation.0, %software, left_out, "node connected");
        }
        self.events.tell(|| Event::NodeConnected {
            node: node.clone(),
            generation: generation.0,
            address: address.to_string(),
        });
        let orders = Orders { inbox, settings_changed };
        Ok(Control::new(peer.clone(), generation, connection.clone(), send, recv, orders))
    }
}

/// A registration that is being served. Its drop ends it, however the serving ended.
struct Owner<'a> {
    sessions: &'a Sessions,
    node: Arc<str>,
    generation: Generation,
    /// Why it ends, for people.
    reason: String,
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        let Self { sessions, node, generation, reason } = self;
        // Only the owner's end takes the providers offline; the end of a superseded connection changes nothing.
        if !sessions.registry.unregister(node, *generation) {
            return;
        }
        sessions.desk.node_offline(node, *generation);
        if let Some(left_out) = sessions.quiet.may_say(Who::Node(node.clone())) {
            info!(%reason, generation = generation.0, left_out, "node disconnected");
        }
        sessions.events.tell(|| Event::NodeDisconnected {
            node: node.clone(),
            generation: generation.0,
            reason: std::mem::take(reason),
        });
    }
}

/// Closes a connection whose certificate is good no longer.
fn end(connection: &Connection, code: CloseCode) -> String {
    warn!(?code, "closing a node's connection");
    iop_transport::close(connection, code, code.explain().as_bytes());
    code.explain().into()
}

/// May the newcomer take the owner's place? A process that dials again has given up its old connection itself; another
/// process gets the place only if the owner does not answer.
async fn displace(owner: &Registered, hello: &Hello) -> Result<(), Rejected> {
    if owner.instance == hello.instance && owner.dial < hello.dial {
        return Ok(());
    }
    debug!("another process has this identity; asking the owner whether it is alive");
    let (answer, answered) = oneshot::channel();
    let timeout = PING_TIMEOUT.max(owner.connection.rtt() * 4);
    let alive = owner.orders.try_send(Order::Ping(answer)).is_ok()
        && tokio::time::timeout(timeout, answered).await.is_ok_and(|answer| answer.is_ok());
    if alive {
        let address = peer::address(&owner.connection);
        let reason = format!("this identity is in use by another process, connected from {address}");
        return Err(Rejected::new(CloseCode::Duplicate, reason));
    }
    Ok(())
}

impl Rejected {
    fn new(code: CloseCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

impl From<HelloError> for Rejected {
    fn from(error: HelloError) -> Self {
        let code = match error {
            HelloError::Version { .. } => CloseCode::ProtocolVersion,
            _ => CloseCode::ProtocolViolation,
        };
        Self::new(code, error.to_string())
    }
}
