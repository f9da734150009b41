//! Drives the admission machine: one mutex around it, effects carried out after it, a oneshot for each waiting request,
//! a timer for the next deadline. Decides nothing itself.

use crate::admission::{
    Command, Config, Effect, Generation, Grant, Machine, Refusal, Request, Snapshot, Ticket,
};
use crate::events::{Event, Events};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// The one place where requests are admitted. Cheap to clone; every clone is the same desk.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    epoch: Instant,
    events: Events,
    /// Wakes the timer when the next deadline has become earlier.
    earlier_deadline: Notify,
}

#[derive(Debug, Default)]
struct State {
    machine: Machine,
    effects: Vec<Effect>,
    waiting: BTreeMap<Ticket, oneshot::Sender<Outcome>>,
    /// When the timer will look again by itself.
    timer: Option<Duration>,
    /// By node: notified when there is something to tell the connection that registered last.
    nodes: BTreeMap<Arc<str>, Arc<Notify>>,
}

/// A lease, or why there is none.
pub(crate) type Outcome = Result<Lease, Refusal>;

/// The first word on a request: its outcome, or that it waits.
#[derive(Debug)]
#[must_use = "dropping it gives the request up"]
pub(crate) enum Admission {
    /// Decided.
    Decided(Outcome),
    /// Resolves when decided.
    Waiting(Waiting),
}

/// A request in the queue. Resolves to its outcome; dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    desk: Desk,
    ticket: Ticket,
    outcome: oneshot::Receiver<Outcome>,
}

/// A lease as a handle: it is returned when this is dropped, and only once.
#[derive(Debug)]
pub(crate) struct Lease {
    desk: Desk,
    grant: Arc<Grant>,
}

impl Desk {
    pub(crate) fn new(events: Events) -> Self {
        let state = Mutex::default();
        let shared = Shared { state, epoch: Instant::now(), events, earlier_deadline: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Admits a request, queues it, or refuses it.
    pub(crate) fn submit(&self, request: Request) -> Admission {
        self.decide(Command::Submit(request))
    }

    /// The provider refused the request before it began: its lease is returned if that has not happened, and the request
    /// goes back to its place in the queue for another provider.
    pub(crate) fn retry(&self, grant: &Grant) -> Admission {
        self.decide(Command::Retry(grant.clone()))
    }

    /// Puts new settings in force; the first ones too.
    pub(crate) fn configure(&self, config: Config) {
        self.act(Command::Configure(Box::new(config)));
    }

    /// A registration was accepted. `settings_due` is notified when settings that were kept from the node may be told it.
    pub(crate) fn node_online(&self, node: &Arc<str>, generation: Generation, settings_due: Arc<Notify>) {
        self.lock().nodes.insert(node.clone(), settings_due);
        self.act(Command::NodeOnline { node: node.clone(), generation });
    }

    /// Leases held on the node's providers, by provider, those taken out of the settings included.
    pub(crate) fn in_flight(&self, node: &str) -> BTreeMap<Arc<str>, u32> {
        self.lock().machine.in_flight(node)
    }

    /// A connection is lost; without effect unless it owns the node's generation.
    pub(crate) fn node_offline(&self, node: &str, generation: Generation) {
        self.act(Command::NodeOffline { node: node.into(), generation });
    }

    /// The node has confirmed its providers' settings.
    pub(crate) fn applied(
        &self,
        node: &str,
        generation: Generation,
        providers: Vec<(Arc<str>, Option<u32>)>,
    ) {
        self.act(Command::Applied { node: node.into(), generation, providers });
    }

    /// The provider's server refused the connection of this run. To be told before its lease returns, so that nobody
    /// else follows it there.
    pub(crate) fn unreachable(&self, grant: &Grant) {
        let Grant { provider, generation, failures, .. } = grant.clone();
        self.act(Command::Unreachable { provider, generation, failures });
    }

    /// The provider's server can be reached. Only of use for a grant made while it was set aside.
    pub(crate) fn reached(&self, grant: &Grant) {
        self.act(Command::Reached { provider: grant.provider.clone(), generation: grant.generation });
    }

    /// The state now, and when that is on the clock of its times.
    pub(crate) fn snapshot(&self) -> (Snapshot, Duration) {
        let state = self.lock();
        (state.machine.snapshot(), self.now())
    }

    /// Does what is due at a time: ends waiting requests, lets providers set aside be tried again. Runs until dropped; one
    /// per desk.
    pub(crate) async fn run_timer(&self) {
        loop {
            let deadline = {
                let mut state = self.lock();
                state.timer = state.machine.next_deadline();
                state.timer
            };
            let due = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(self.shared.epoch + deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => self.act(Command::Tick),
                () = self.shared.earlier_deadline.notified() => {}
            }
        }
    }

    fn act(&self, command: Command) {
        let (_own, others) = self.apply(command);
        others.carry_out();
    }

    /// Applies a command whose first effect is the request's own.
    fn decide(&self, command: Command) -> Admission {
        let (own, others) = self.apply(command);
        others.carry_out();
        own.expect("Submit and Retry have an effect for their own request")
    }

    fn apply(&self, command: Command) -> (Option<Admission>, Decided) {
        let deciding = matches!(command, Command::Submit(_) | Command::Retry(_));
        let mut own = None;
        let mut others = Decided::default();
        let mut state = self.lock();
        // The clock is read under the lock, so time never goes back for the machine.
        let now = self.now();
        let State { machine, effects, waiting, timer, nodes } = &mut *state;
        let released = if let Command::Release(lease) = &command { Some(*lease) } else { None };
        machine.apply(now, command, effects);
        // Told under the lock, so that the order of events is the order of decisions; telling never waits.
        if let Some(lease) = released {
            self.shared.events.tell(|| Event::LeaseReleased { lease: lease.0 });
        }
        for effect in effects.drain(..) {
            self.shared.events.tell(|| told(&effect));
            let is_own = deciding && own.is_none();
            let (ticket, outcome) = match effect {
                Effect::Granted(grant) => {
                    (grant.pending.ticket, Ok(Lease { desk: self.clone(), grant: Arc::new(grant) }))
                }
                Effect::Refused { ticket, refusal } => (ticket, Err(refusal)),
                Effect::Queued { ticket } => {
                    let (sender, outcome) = oneshot::channel();
                    waiting.insert(ticket, sender);
                    own = Some(Admission::Waiting(Waiting { desk: self.clone(), ticket, outcome }));
                    continue;
                }
                Effect::TellNode { node } => {
                    // Kept for whoever looks next; nobody is waited for.
                    nodes.get(&node).inspect(|due| due.notify_one());
                    continue;
                }
            };
            match waiting.remove(&ticket) {
                Some(sender) => others.0.push((sender, outcome)),
                None if is_own => own = Some(Admission::Decided(outcome)),
                None => unreachable!("an outcome is for the request itself or for one that waits"),
            }
        }
        let next = machine.next_deadline();
        if next.is_some_and(|next| timer.is_none_or(|timer| next < timer)) {
            *timer = next;
            self.shared.earlier_deadline.notify_one();
        }
        drop(state);
        (own, others)
    }

    /// Leaves the queue. If the outcome is on its way already, it is dropped with its channel, and a lease returns.
    fn cancel(&self, ticket: Ticket) {
        let mut state = self.lock();
        let now = self.now();
        let State { machine, effects, waiting, .. } = &mut *state;
        if waiting.remove(&ticket).is_some() {
            machine.apply(now, Command::Cancel(ticket), effects);
            self.shared.events.tell(|| Event::RequestCancelled { ticket: ticket.0 });
        }
    }

    fn now(&self) -> Duration {
        self.shared.epoch.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("the admission machine broke an invariant of its own")
    }
}

/// The event of an effect, if it has one.
fn told(effect: &Effect) -> Option<Event> {
    Some(match effect {
        Effect::TellNode { .. } => return None,
        Effect::Queued { ticket } => Event::RequestQueued { ticket: ticket.0 },
        Effect::Refused { ticket, refusal } => {
            Event::RequestRefused { ticket: ticket.0, reason: refusal.name() }
        }
        Effect::Granted(grant) => Event::LeaseAcquired {
            lease: grant.lease.0,
            ticket: grant.pending.ticket.0,
            model: grant.pending.request.model.clone(),
            node: grant.provider.node.clone(),
            provider: grant.provider.provider.clone(),
            long: grant.long,
        },
    })
}

/// Outcomes of waiting requests, sent outside the lock.
#[derive(Default)]
struct Decided(Vec<(oneshot::Sender<Outcome>, Outcome)>);

impl Decided {
    fn carry_out(self) {
        for (sender, outcome) in self.0 {
            // A receiver that is gone gave the request up: its lease comes back with the dropped outcome.
            let _given_up = sender.send(outcome);
        }
    }
}

impl Admission {
    /// The outcome, waited for where it is not decided.
    pub(crate) async fn outcome(self) -> Outcome {
        match self {
            Self::Decided(outcome) => outcome,
            Self::Waiting(waiting) => waiting.await,
        }
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = std::task::ready!(Pin::new(&mut self.outcome).poll(cx));
        Poll::Ready(outcome.expect("the desk is kept alive by this handle and answers every ticket"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.desk.cancel(self.ticket);
    }
}

impl Lease {
    /// What was granted. It outlives the lease, so that the request can be tried again after the lease is gone.
    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.desk.act(Command::Release(self.grant.lease));
    }
}
