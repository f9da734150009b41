//! A machine with its clock, its settings and its nodes: what an example needs to read as a story.

use iop_edge::admission::{
    Command, Effect, Generation, Grant, LeaseId, Machine, ProviderSnapshot, Refusal, Request, Snapshot,
    Ticket,
};
use iop_tests::admission_model::{Ask, Setup, provider_key};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Desk {
    machine: Machine,
    setup: Setup,
    now: Duration,
    generations: BTreeMap<Arc<str>, u64>,
}

/// The answer to one submit or retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted(Grant),
    Queued(Ticket),
    Refused(Refusal),
}

impl Answer {
    pub(crate) fn granted(self) -> Grant {
        match self {
            Self::Granted(grant) => grant,
            other => panic!("should have been granted: {other:?}"),
        }
    }

    pub(crate) fn queued(self) -> Ticket {
        match self {
            Self::Queued(ticket) => ticket,
            other => panic!("should wait: {other:?}"),
        }
    }

    pub(crate) fn refused(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            other => panic!("should have been refused: {other:?}"),
        }
    }
}

impl Desk {
    /// Every node connected, every setting applied.
    pub(crate) fn open(setup: Setup) -> Self {
        let mut desk = Self::closed(setup);
        for node in desk.nodes() {
            desk.connect(&node);
        }
        desk
    }

    /// Configured, and no node connected.
    pub(crate) fn closed(setup: Setup) -> Self {
        let generations = BTreeMap::new();
        let mut desk = Self { machine: Machine::default(), setup, now: Duration::ZERO, generations };
        assert_eq!(desk.configure(desk.setup.clone()), [], "nobody waits yet");
        desk
    }

    pub(crate) fn apply(&mut self, command: Command) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.machine.apply(self.now, command, &mut effects);
        effects
    }

    pub(crate) fn submit(&mut self, ask: impl Into<Ask>) -> Answer {
        let mut effects = self.apply(Command::Submit(Request::from(ask.into())));
        assert_eq!(effects.len(), 1, "a submit is answered, and concerns nobody else: {effects:?}");
        answer(effects.remove(0))
    }

    /// The answer to the retried request, and what else came of the returned lease.
    pub(crate) fn retry(&mut self, grant: &Grant) -> (Answer, Vec<Effect>) {
        let mut effects = self.apply(Command::Retry(grant.clone()));
        let position = effects.iter().position(|effect| ticket_of(effect) == Some(grant.pending.ticket));
        (answer(effects.remove(position.expect("a retry is answered"))), effects)
    }

    pub(crate) fn release(&mut self, lease: LeaseId) -> Vec<Effect> {
        self.apply(Command::Release(lease))
    }

    /// The run found that its provider's server refuses connections. The lease is still held.
    pub(crate) fn unreachable(&mut self, grant: &Grant) -> Vec<Effect> {
        let Grant { provider, generation, failures, .. } = grant.clone();
        self.apply(Command::Unreachable { provider, generation, failures })
    }

    /// The run's provider's server has answered.
    pub(crate) fn reached(&mut self, grant: &Grant) -> Vec<Effect> {
        let Grant { provider, generation, .. } = grant.clone();
        self.apply(Command::Reached { provider, generation })
    }

    pub(crate) fn cancel(&mut self, ticket: Ticket) -> Vec<Effect> {
        self.apply(Command::Cancel(ticket))
    }

    pub(crate) fn generation(&self, node: &str) -> Generation {
        Generation(self.generations.get(node).copied().unwrap_or(0))
    }

    /// A registration under a new generation; nothing is applied yet.
    pub(crate) fn online(&mut self, node: &str) -> Vec<Effect> {
        let generation = Generation(self.generation(node).0 + 1);
        self.generations.insert(node.into(), generation.0);
        self.apply(Command::NodeOnline { node: node.into(), generation })
    }

    /// The owner's connection is lost.
    pub(crate) fn offline(&mut self, node: &str) -> Vec<Effect> {
        let generation = self.generation(node);
        self.apply(Command::NodeOffline { node: node.into(), generation })
    }

    /// The node says which capacities are in force; `None` is a provider that it will not run.
    pub(crate) fn applied(&mut self, node: &str, providers: &[(&str, Option<u32>)]) -> Vec<Effect> {
        let generation = self.generation(node);
        let providers = providers.iter().map(|(id, capacity)| (Arc::from(*id), *capacity)).collect();
        self.apply(Command::Applied { node: node.into(), generation, providers })
    }

    /// The node has all present settings in force.
    pub(crate) fn applied_all(&mut self, node: &str) -> Vec<Effect> {
        let generation = self.generation(node);
        let of_node = self.setup.0.providers.iter().filter(|(key, _)| *key.node == *node);
        let providers = of_node.map(|(key, spec)| (key.provider.clone(), Some(spec.capacity))).collect();
        self.apply(Command::Applied { node: node.into(), generation, providers })
    }

    /// A registration and its first confirmation. Gives back what came of both.
    pub(crate) fn connect(&mut self, node: &str) -> Vec<Effect> {
        let mut effects = self.online(node);
        effects.extend(self.applied_all(node));
        effects
    }

    pub(crate) fn configure(&mut self, setup: Setup) -> Vec<Effect> {
        self.setup = setup;
        self.apply(Command::Configure(Box::new(self.setup.0.clone())))
    }

    /// A refresh: the present settings with one change.
    pub(crate) fn refresh(&mut self, change: impl FnOnce(Setup) -> Setup) -> Vec<Effect> {
        self.configure(change(self.setup.clone()))
    }

    /// A refresh that every node has confirmed.
    pub(crate) fn refresh_everywhere(&mut self, change: impl FnOnce(Setup) -> Setup) -> Vec<Effect> {
        let mut effects = self.refresh(change);
        for node in self.nodes() {
            effects.extend(self.applied_all(&node));
        }
        effects
    }

    /// Time passes, without a command.
    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Time passes, and the driver's timer fires if it is due.
    pub(crate) fn pass(&mut self, seconds: u64) -> Vec<Effect> {
        self.wait(seconds);
        match self.machine.next_deadline() {
            Some(deadline) if deadline <= self.now => self.apply(Command::Tick),
            _ => Vec::new(),
        }
    }

    pub(crate) fn in_flight(&self, node: &str) -> BTreeMap<Arc<str>, u32> {
        self.machine.in_flight(node)
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.machine.next_deadline()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.machine.snapshot()
    }

    pub(crate) fn provider(&self, name: &str) -> ProviderSnapshot {
        let key = provider_key(name);
        let found = self.snapshot().providers.into_iter().find(|provider| provider.key == key);
        found.expect("the provider is configured")
    }

    fn nodes(&self) -> Vec<Arc<str>> {
        let mut nodes: Vec<Arc<str>> = self.setup.0.providers.keys().map(|key| key.node.clone()).collect();
        nodes.dedup();
        nodes
    }
}

fn answer(effect: Effect) -> Answer {
    match effect {
        Effect::Granted(grant) => Answer::Granted(grant),
        Effect::Queued { ticket } => Answer::Queued(ticket),
        Effect::Refused { refusal, .. } => Answer::Refused(refusal),
        Effect::TellNode { .. } => panic!("an answer is for a request: {effect:?}"),
    }
}

fn ticket_of(effect: &Effect) -> Option<Ticket> {
    match effect {
        Effect::Granted(grant) => Some(grant.pending.ticket),
        Effect::Refused { ticket, .. } | Effect::Queued { ticket } => Some(*ticket),
        Effect::TellNode { .. } => None,
    }
}

/// What comes when the leases of a node fit its settings again.
pub(crate) fn tell(node: &str) -> Effect {
    Effect::TellNode { node: node.into() }
}

/// The grants; there is nothing else among the effects.
pub(crate) fn grants(effects: &[Effect]) -> Vec<Grant> {
    let grant = |effect: &Effect| match effect {
        Effect::Granted(grant) => grant.clone(),
        other => panic!("only grants should come: {other:?}"),
    };
    effects.iter().map(grant).collect()
}

/// The tickets granted, in their order; there is nothing else among the effects.
pub(crate) fn granted(effects: &[Effect]) -> Vec<Ticket> {
    grants(effects).iter().map(|grant| grant.pending.ticket).collect()
}

/// One ended ticket, as an effect.
pub(crate) fn ended(ticket: Ticket, refusal: Refusal) -> Effect {
    Effect::Refused { ticket, refusal }
}

/// `node/provider` of a grant.
pub(crate) fn place(grant: &Grant) -> String {
    format!("{}/{}", grant.provider.node, grant.provider.provider)
}
