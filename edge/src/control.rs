//! The edge's end of a registered node's control stream: Welcome, settings, pings, renewals. Registration is `session`'s.

mod renewal;

use crate::admission::Generation;
use crate::quiet::Who;
use crate::registry::{Order, Refusals};
use crate::session::Sessions;
use crate::{settings, told};
use iop_certs::PeerNode;
use iop_transport::codes::CloseCode;
use iop_transport::session::{ControlRecv, ControlSend, printable};
use iop_transport::wire::{Applied, Apply, EdgeMessage, NodeMessage, ProviderSettings, Welcome};
use iop_transport::{Connection, endpoint};
use renewal::Renewal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::{info, warn};

/// Pings that may be unanswered at once; the oldest is given up for a further one.
const PINGS: usize = 16;

/// How others reach the owner of a control stream.
pub(crate) struct Orders {
    pub(crate) inbox: mpsc::Receiver<Order>,
    pub(crate) settings_changed: Arc<Notify>,
}

/// One registered connection's control stream.
pub(crate) struct Control {
    pub(crate) generation: Generation,
    node: Arc<str>,
    connection: Connection,
    send: ControlSend<EdgeMessage>,
    recv: ControlRecv<NodeMessage>,
    orders: Orders,
    /// Number of the settings sent last.
    revision: u64,
    /// The settings sent last, by provider.
    sent: BTreeMap<Arc<str>, ProviderSettings>,
    /// Revision of the settings confirmed last. Each is confirmed once, in its turn.
    confirmed: u64,
    /// The node takes no further run: nothing of it comes in force any more.
    retired: bool,
    /// The node has said that it leaves.
    leaving: bool,
    nonce: u64,
    /// Number of the Ping answered last. Each is answered once, in its turn.
    ponged: u64,
    pings: BTreeMap<u64, oneshot::Sender<()>>,
    renewal: Renewal,
}

impl Control {
    pub(crate) fn new(
        peer: PeerNode,
        generation: Generation,
        connection: Connection,
        send: ControlSend<EdgeMessage>,
        recv: ControlRecv<NodeMessage>,
        orders: Orders,
    ) -> Self {
        Self {
            generation,
            node: peer.node_id.as_str().into(),
            connection,
            send,
            recv,
            orders,
            revision: 0,
            sent: BTreeMap::new(),
            confirmed: 0,
            retired: false,
            leaving: false,
            nonce: 0,
            ponged: 0,
            pings: BTreeMap::new(),
            renewal: Renewal::new(peer),
        }
    }

    /// Welcomes the node and serves the stream until the connection ends. The reason of the end is for people.
    pub(crate) async fn run(&mut self, sessions: &Sessions) -> String {
        let connection = self.connection.clone();
        let problem = tokio::select! {
            biased;
            reason = connection.closed() => return printable(&reason.to_string()),
            problem = self.serve(sessions) => problem,
        };
        // A stream that breaks with its connection is no fault of the node's.
        if let Some(reason) = connection.close_reason() {
            return printable(&reason.to_string());
        }
        if let Some(left_out) = sessions.quiet.may_say(Who::Node(self.node.clone())) {
            warn!(%problem, left_out, "closing a node's connection");
        }
        iop_transport::close(&connection, CloseCode::ProtocolViolation, problem.as_bytes());
        problem
    }

    /// Ends only with a problem.
    async fn serve(&mut self, sessions: &Sessions) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let welcome = EdgeMessage::Welcome(Welcome {
            generation: self.generation.0,
            edge_time_ms: millis(now),
            idle_timeout_ms: millis(sessions.idle_timeout),
            apply: self.next_apply(sessions),
        });
        let mut outgoing = Some(welcome);
        loop {
            if let Some(message) = outgoing.take()
                && let Err(error) = self.send.send(&message).await
            {
                return error.to_string();
            }
            // What the edge itself wants comes first: a node that never stops talking does not hold it up.
            tokio::select! {
                biased;
                stream = self.connection.accept_bi() => match stream {
                    Ok(_second) => return "the node opened a second stream".into(),
                    Err(error) => return error.to_string(),
                },
                // The registry holds the other end for as long as this connection is registered.
                Some(order) = self.orders.inbox.recv() => outgoing = Some(self.obey(sessions, order)),
                () = self.orders.settings_changed.notified() => {
                    outgoing = Some(EdgeMessage::Apply(self.next_apply(sessions)));
                }
                answer = self.renewal.answer(sessions) => outgoing = Some(answer),
                message = self.recv.recv() => match message {
                    Ok(Some(message)) => match self.receive(sessions, message) {
                        Ok(()) => {}
                        Err(problem) => return problem.into(),
                    },
                    Ok(None) => return "the node ended its control stream".into(),
                    Err(error) => return error.to_string(),
                },
            }
        }
    }

    /// What the node says is answered to something that it was asked, once, or is bounded by itself; so it cannot say much.
    fn receive(&mut self, sessions: &Sessions, message: NodeMessage) -> Result<(), &'static str> {
        match message {
            NodeMessage::Applied(applied) => {
                if applied.revision <= self.confirmed || applied.revision > self.revision {
                    return Err("the node confirmed settings out of turn");
                }
                self.confirmed = applied.revision;
                self.confirm(sessions, &applied);
            }
            NodeMessage::Pong { nonce } => {
                if nonce <= self.ponged || nonce > self.nonce {
                    return Err("the node answered a Ping out of turn");
                }
                self.ponged = nonce;
                if let Some(answer) = self.pings.remove(&nonce) {
                    let _nobody_waits_any_more = answer.send(());
                }
            }
            NodeMessage::Leaving => {
                if std::mem::replace(&mut self.leaving, true) {
                    return Err("the node said twice that it leaves");
                }
                self.retire(sessions, "the node is leaving");
            }
            NodeMessage::Renew { csr } => self.renewal.ask(sessions, csr)?,
        }
        Ok(())
    }

    /// What runs may end; nothing new goes there until the node connects again.
    fn retire(&mut self, sessions: &Sessions, reason: &str) {
        self.retired = true;
        let all = self.sent.keys().map(|provider| (provider.clone(), reason.to_owned())).collect();
        self.put_in_force(sessions, all);
    }

    fn obey(&mut self, sessions: &Sessions, order: Order) -> EdgeMessage {
        match order {
            Order::Drain => {
                info!("the node is drained");
                self.retire(sessions, "the node is drained");
                EdgeMessage::Drain
            }
            Order::Ping(answer) => {
                self.nonce += 1;
                self.pings.insert(self.nonce, answer);
                while self.pings.len() > PINGS {
                    self.pings.pop_first();
                }
                EdgeMessage::Ping { nonce: self.nonce }
            }
        }
    }

    /// What the node is to have in force now, under the next revision.
    fn next_apply(&mut self, sessions: &Sessions) -> Apply {
        let node = sessions.live.node(&self.node);
        let configured = node.map(|node| settings::node_settings(&node)).unwrap_or_default();
        let providers = told::settings(configured, &self.sent, &sessions.desk.in_flight(&self.node));
        self.revision += 1;
        self.sent =
            providers.iter().map(|provider| (provider.id.as_str().into(), provider.clone())).collect();
        let capacities = providers.iter().map(|provider| provider.capacity);
        endpoint::resize(&self.connection, capacities.fold(0, u32::saturating_add));
        Apply { revision: self.revision, providers }
    }

    /// Tells admission what the node has in force. An answer to an older revision says nothing of that.
    fn confirm(&self, sessions: &Sessions, applied: &Applied) {
        if applied.revision != self.revision || self.retired {
            return;
        }
        let mut refusals = Refusals::new();
        for refused in &applied.refused {
            // What was not sent is not the node's to refuse, nor anything twice.
            let Some((id, _)) = self.sent.get_key_value(refused.id.as_str()) else { continue };
            if refusals.contains_key(id) {
                continue;
            }
            let reason = printable(&refused.reason);
            warn!(provider = %id, %reason, "the node will not run a provider");
            refusals.insert(id.clone(), reason);
        }
        self.put_in_force(sessions, refusals);
    }

    /// Everything that was sent last counts, but for these.
    fn put_in_force(&self, sessions: &Sessions, refusals: Refusals) {
        let in_force = self
            .sent
            .iter()
            .map(|(id, settings)| (id.clone(), (!refusals.contains_key(id)).then_some(settings.capacity)));
        let in_force = in_force.collect();
        // The reasons come first, so that whoever sees a refused provider finds its reason.
        sessions.registry.set_refusals(&self.node, self.generation, refusals);
        sessions.desk.applied(&self.node, self.generation, in_force);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
