//! The naive twin of the admission machine. After every command it asks again, of every waiting request in order of
//! arrival, whether it can run now; so it has no notion of what a command made free. Slow on purpose.

mod aside;
mod snapshot;

use aside::Aside;
use iop_edge::admission::{
    Command, Config, Context, Effect, Generation, Grant, LeaseId, Pending, ProviderKey, ProviderSpec,
    Refusal, Request, Ticket,
};
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

struct Node {
    id: Arc<str>,
    generation: Generation,
    online: bool,
}

/// What is known of a configured provider beside its settings.
struct Gate {
    provider: ProviderKey,
    confirmed: u32,
    refused: bool,
    last_grant: u64,
    aside: Option<Aside>,
}

struct Lease {
    id: LeaseId,
    provider: ProviderKey,
    long: bool,
    key: Option<Arc<str>>,
}

/// Admission as lists.
#[derive(Default)]
pub struct Model {
    config: Config,
    /// Keys that were ever in the settings: requests of others carry no limits.
    known_keys: Vec<Arc<str>>,
    nodes: Vec<Node>,
    gates: Vec<Gate>,
    leases: Vec<Lease>,
    waiting: Vec<Pending>,
    commands: u64,
    tickets: u64,
    acquired: u64,
    released: u64,
    fenced: u64,
}

impl Model {
    /// Carries out one command and tells what happened, sorted by ticket.
    pub fn apply(&mut self, now: Duration, command: &Command) -> Vec<Effect> {
        self.commands += 1;
        let mut effects = Vec::new();
        match command {
            Command::Submit(request) => self.submit(now, request, &mut effects),
            Command::Retry(grant) => self.retry(grant, &mut effects),
            Command::Cancel(ticket) => self.waiting.retain(|pending| pending.ticket != *ticket),
            Command::Release(lease) => self.release(*lease, &mut effects),
            Command::NodeOnline { node, generation } => self.node_online(node, *generation),
            Command::NodeOffline { node, generation } => self.node_offline(node, *generation),
            Command::Applied { node, generation, providers } => self.applied(node, *generation, providers),
            Command::Unreachable { provider, generation, failures } => {
                self.unreachable(now, provider, *generation, *failures);
            }
            Command::Reached { provider, generation } => self.reached(provider, *generation),
            Command::Configure(config) => self.configure(config),
            Command::Tick => {
                self.expire(now, &mut effects);
                self.end_times_aside(now);
            }
        }
        self.settle(&mut effects);
        if let Command::Retry(grant) = command {
            self.answer_retry(grant.pending.ticket, &mut effects);
        }
        effects.sort_by_key(ticket_of);
        effects
    }

    /// When the first waiting request times out, or the first provider set aside may be tried again.
    pub fn next_deadline(&self) -> Option<Duration> {
        let timeout = self.config.policy.queue_timeout;
        let timeouts = self.waiting.iter().map(|pending| pending.arrived + timeout);
        timeouts.chain(self.next_trials()).min()
    }

    /// Whether the lease is held.
    pub fn holds(&self, lease: LeaseId) -> bool {
        self.leases.iter().any(|held| held.id == lease)
    }

    /// Requests that wait, in order of arrival.
    pub fn waiting(&self) -> &[Pending] {
        &self.waiting
    }

    /// Whether some provider could run the request at this moment.
    pub fn can_run_now(&self, pending: &Pending) -> bool {
        self.choose(pending).is_some()
    }

    /// Whether some provider that is connected, enabled and willing may run the request at some time.
    pub fn has_live_candidate(&self, pending: &Pending) -> bool {
        let (candidates, _) = self.candidates(&pending.request).unwrap_or_default();
        candidates.iter().any(|provider| self.is_live(provider) && !pending.refused_by.contains(provider))
    }

    fn submit(&mut self, now: Duration, request: &Request, effects: &mut Vec<Effect>) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let pending = Pending { ticket, request: request.clone(), arrived: now, refused_by: Vec::new() };
        let effect = if let Err(refusal) = self.candidates(request) {
            Effect::Refused { ticket, refusal }
        } else if let Some(provider) = self.choose(&pending) {
            Effect::Granted(self.grant(pending, provider))
        } else if !self.has_live_candidate(&pending) {
            Effect::Refused { ticket, refusal: Refusal::Unavailable }
        } else if let Some(refusal) = self.full(request) {
            Effect::Refused { ticket, refusal }
        } else {
            self.waiting.push(pending);
            Effect::Queued { ticket }
        };
        effects.push(effect);
    }

    fn full(&self, request: &Request) -> Option<Refusal> {
        let key = self.known_key(request);
        let of_key =
            self.waiting.iter().filter(|pending| key.is_some() && pending.request.key == key).count();
        let limits = key.and_then(|name| self.config.keys.get(&name).copied()).unwrap_or_default();
        if let Some(max) = limits.max_queued.filter(|max| of_key >= *max as usize) {
            return Some(Refusal::KeyQueueFull { max });
        }
        let max = self.config.policy.max_queue;
        (self.waiting.len() >= max as usize).then_some(Refusal::QueueFull { max })
    }

    fn retry(&mut self, grant: &Grant, effects: &mut Vec<Effect>) {
        self.release(grant.lease, effects);
        let mut pending = grant.pending.clone();
        let ticket = pending.ticket;
        pending.refused_by.push(grant.provider.clone());
        if pending.refused_by.len() >= self.config.policy.max_attempts as usize {
            effects.push(Effect::Refused { ticket, refusal: Refusal::NoOtherProvider });
        } else {
            self.waiting.push(pending);
            self.waiting.sort_by_key(|pending| pending.ticket);
        }
    }

    /// A retry is always answered at once, and is told apart from a request that lost its last provider while waiting.
    fn answer_retry(&self, ticket: Ticket, effects: &mut Vec<Effect>) {
        if self.waiting.iter().any(|pending| pending.ticket == ticket) {
            effects.push(Effect::Queued { ticket });
        }
        for effect in effects.iter_mut().filter(|effect| ticket_of(effect) == Some(ticket)) {
            if let Effect::Refused { refusal: refusal @ Refusal::Unavailable, .. } = effect {
                *refusal = Refusal::NoOtherProvider;
            }
        }
    }

    fn release(&mut self, lease: LeaseId, effects: &mut Vec<Effect>) {
        let Some(position) = self.leases.iter().position(|held| held.id == lease) else { return };
        let provider = self.leases[position].provider.clone();
        let was_over = self.is_over(&provider);
        self.leases.remove(position);
        self.released += 1;
        if was_over && !self.is_over(&provider) {
            effects.push(Effect::TellNode { node: provider.node });
        }
    }

    /// Whether more leases are out than the settings have a place for.
    fn is_over(&self, provider: &ProviderKey) -> bool {
        let capacity = self.config.providers.get(provider).map_or(0, |spec| spec.capacity);
        self.in_flight(provider, false) > capacity as usize
    }

    fn node_online(&mut self, id: &Arc<str>, generation: Generation) {
        if self.nodes.iter().any(|node| node.id == *id && node.generation >= generation) {
            return;
        }
        self.fence(id);
        self.nodes.retain(|node| node.id != *id);
        self.nodes.push(Node { id: id.clone(), generation, online: true });
    }

    fn node_offline(&mut self, id: &Arc<str>, generation: Generation) {
        if self.owner(id) != Some(generation) {
            return;
        }
        self.fence(id);
        for node in self.nodes.iter_mut().filter(|node| node.id == *id) {
            node.online = false;
        }
    }

    fn fence(&mut self, node: &Arc<str>) {
        let before = self.leases.len();
        self.leases.retain(|lease| lease.provider.node != *node);
        self.fenced += (before - self.leases.len()) as u64;
        for gate in self.gates.iter_mut().filter(|gate| gate.provider.node == *node) {
            gate.confirmed = 0;
            gate.refused = false;
            gate.aside = None;
        }
    }

    /// The generation of the node's connection, if it has one.
    fn owner(&self, id: &Arc<str>) -> Option<Generation> {
        self.nodes.iter().find(|node| node.id == *id && node.online).map(|node| node.generation)
    }

    fn applied(&mut self, id: &Arc<str>, generation: Generation, providers: &[(Arc<str>, Option<u32>)]) {
        if self.owner(id) != Some(generation) {
            return;
        }
        for gate in self.gates.iter_mut().filter(|gate| gate.provider.node == *id) {
            if let Some((_, capacity)) =
                providers.iter().find(|(provider, _)| *provider == gate.provider.provider)
            {
                // What is more than the settings say belongs to settings that the node is about to leave.
                let configured = self.config.providers[&gate.provider].capacity;
                gate.confirmed = capacity.unwrap_or(0).min(configured);
                gate.refused = capacity.is_none();
            }
        }
    }

    fn configure(&mut self, config: &Config) {
        self.config = config.clone();
        self.known_keys.extend(config.keys.keys().cloned());
        self.gates.retain(|gate| config.providers.contains_key(&gate.provider));
        for (key, spec) in &config.providers {
            if let Some(gate) = self.gates.iter_mut().find(|gate| gate.provider == *key) {
                gate.confirmed = gate.confirmed.min(spec.capacity);
            } else {
                let provider = key.clone();
                self.gates.push(Gate { provider, confirmed: 0, refused: false, last_grant: 0, aside: None });
            }
        }
    }

    fn expire(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let timeout = self.config.policy.queue_timeout;
        self.waiting.retain(|pending| {
            let waits = pending.arrived + timeout > now;
            if !waits {
                let refusal = Refusal::QueueTimeout { timeout };
                effects.push(Effect::Refused { ticket: pending.ticket, refusal });
            }
            waits
        });
    }

    /// The whole of the rule: the earliest that can run now goes, again and again; then whoever has nothing to wait for
    /// ends.
    fn settle(&mut self, effects: &mut Vec<Effect>) {
        while let Some(position) = self.waiting.iter().position(|pending| self.can_run_now(pending)) {
            let pending = self.waiting.remove(position);
            let provider = self.choose(&pending).expect("it could run a line ago");
            effects.push(Effect::Granted(self.grant(pending, provider)));
        }
        for pending in std::mem::take(&mut self.waiting) {
            let ticket = pending.ticket;
            match self.candidates(&pending.request) {
                Err(refusal) => effects.push(Effect::Refused { ticket, refusal }),
                Ok(_) if self.has_live_candidate(&pending) => self.waiting.push(pending),
                Ok(_) => effects.push(Effect::Refused { ticket, refusal: Refusal::Unavailable }),
            }
        }
    }

    /// Who could ever run the request, and whether it needs a long slot there.
    fn candidates(&self, request: &Request) -> Result<(Vec<ProviderKey>, bool), Refusal> {
        let model = self.config.models.get(&request.model).ok_or(Refusal::ModelNotFound)?;
        let settings = |key: &ProviderKey| self.config.providers.get(key).copied();
        let speaking = |spec: &ProviderSpec| spec.apis.0 & request.api.0 != 0;
        let mut able: Vec<(ProviderKey, ProviderSpec)> =
            model.candidates.iter().filter_map(|key| Some((key.clone(), settings(key)?))).collect();
        able.retain(|(_, spec)| speaking(spec));
        let wanted = match request.context {
            Context::Long => true,
            Context::Normal => false,
            Context::Estimated => model.long_threshold.is_some_and(|most| request.tokens > most),
        };
        let long = wanted && able.iter().any(|(_, spec)| spec.long_capacity > 0);
        able.retain(|(_, spec)| !long || spec.long_capacity > 0);
        let window = |spec: &ProviderSpec| spec.window.unwrap_or(u32::MAX);
        let Some(largest) = able.iter().map(|(_, spec)| window(spec)).max() else {
            return Err(Refusal::ApiNotServed);
        };
        if request.tokens > largest {
            return Err(Refusal::ContextLengthExceeded { tokens: request.tokens, window: largest });
        }
        able.retain(|(_, spec)| request.tokens <= window(spec));
        Ok((able.into_iter().map(|(key, _)| key).collect(), long))
    }

    /// The provider that would run the request now: priority, then relative use, then least recently used.
    fn choose(&self, pending: &Pending) -> Option<ProviderKey> {
        let (candidates, long) = self.candidates(&pending.request).ok()?;
        if let Some(key) = self.known_key(&pending.request)
            && let Some(max) = self.config.keys.get(&key).and_then(|limits| limits.max_in_flight)
            && self.leases.iter().filter(|lease| lease.key.as_ref() == Some(&key)).count() >= max as usize
        {
            return None;
        }
        let others: Vec<ProviderKey> =
            candidates.into_iter().filter(|provider| !pending.refused_by.contains(provider)).collect();
        let mut free: Vec<ProviderKey> = others
            .iter()
            .filter(|provider| self.has_room(provider, long) && !self.spares(provider, &others))
            .cloned()
            .collect();
        free.sort_by(|one, other| self.compare(one, other));
        free.into_iter().next()
    }

    fn compare(&self, one: &ProviderKey, other: &ProviderKey) -> Ordering {
        let (a, b) = (&self.config.providers[one], &self.config.providers[other]);
        // in_flight / capacity of both, on a common denominator.
        let use_of_one = self.in_flight(one, false) as u64 * u64::from(b.capacity);
        let use_of_other = self.in_flight(other, false) as u64 * u64::from(a.capacity);
        let last_grants = (self.gate(one).last_grant, self.gate(other).last_grant);
        let by_settings = b.priority.cmp(&a.priority).then(use_of_one.cmp(&use_of_other));
        by_settings.then(last_grants.0.cmp(&last_grants.1)).then(one.cmp(other))
    }

    fn grant(&mut self, pending: Pending, provider: ProviderKey) -> Grant {
        let (_, long) = self.candidates(&pending.request).expect("it has a provider");
        self.acquired += 1;
        let lease = LeaseId(self.acquired);
        let key = self.known_key(&pending.request);
        self.leases.push(Lease { id: lease, provider: provider.clone(), long, key });
        let gate = self.gates.iter_mut().find(|gate| gate.provider == provider);
        gate.expect("it is configured").last_grant = lease.0;
        let failures = self.begin_trial(&provider, lease);
        let generation = self.owner(&provider.node).expect("its node is connected");
        Grant { lease, provider, generation, long, failures, pending }
    }

    fn known_key(&self, request: &Request) -> Option<Arc<str>> {
        request.key.clone().filter(|name| self.known_keys.contains(name))
    }

    fn gate(&self, provider: &ProviderKey) -> &Gate {
        self.gates.iter().find(|gate| gate.provider == *provider).expect("every configured provider has one")
    }

    fn in_flight(&self, provider: &ProviderKey, long_only: bool) -> usize {
        let held = self.leases.iter().filter(|lease| lease.provider == *provider);
        held.filter(|lease| lease.long || !long_only).count()
    }

    fn is_live(&self, provider: &ProviderKey) -> bool {
        let enabled = self.config.providers.get(provider).is_some_and(|spec| spec.enabled);
        enabled && self.owner(&provider.node).is_some() && !self.gate(provider).refused
    }

    fn effective_capacity(&self, provider: &ProviderKey) -> u32 {
        let configured = self.config.providers[provider].capacity;
        if self.is_live(provider) { configured.min(self.gate(provider).confirmed) } else { 0 }
    }

    fn has_room(&self, provider: &ProviderKey, long: bool) -> bool {
        let capacity = self.effective_capacity(provider) as usize;
        let long_capacity = capacity.min(self.config.providers[provider].long_capacity as usize);
        self.in_flight(provider, false) < capacity
            && (!long || self.in_flight(provider, true) < long_capacity)
    }
}

/// Whose effect it is, if it is a request's.
pub(super) fn ticket_of(effect: &Effect) -> Option<Ticket> {
    match effect {
        Effect::Granted(grant) => Some(grant.pending.ticket),
        Effect::Refused { ticket, .. } | Effect::Queued { ticket } => Some(*ticket),
        Effect::TellNode { .. } => None,
    }
}
