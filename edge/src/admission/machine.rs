//! The machine itself: `apply(now, command) -> effects`, and the next deadline.

use super::command::{
    Command, Effect, Generation, Grant, LeaseId, Pending, Policy, Refusal, Request, Ticket,
};
use super::keys::{KeyIndex, Keys};
use super::leases::{Lease, Leases};
use super::models::Models;
use super::providers::{ProviderIndex, Providers};
use super::queue::{ClassId, ClassKey, Queue};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Decides which request runs where. Time is the duration since an epoch of the driver's; it never goes back.
#[derive(Debug, Default)]
pub struct Machine {
    pub(super) policy: Policy,
    pub(super) providers: Providers,
    pub(super) models: Models,
    pub(super) keys: Keys,
    pub(super) queue: Queue,
    pub(super) leases: Leases,
    pub(super) nodes: BTreeMap<Arc<str>, Node>,
    tickets: u64,
    pub(super) revision: u64,
}

/// Whose registration of a node counts. One for each node that was ever accepted.
#[derive(Debug)]
pub(super) struct Node {
    pub generation: Generation,
    pub online: bool,
}

/// What a command has made free, so that waiting requests are looked at again.
#[derive(Debug, Default)]
pub(super) struct Freed {
    pub providers: Vec<ProviderIndex>,
    pub keys: Vec<KeyIndex>,
}

impl Freed {
    pub(super) fn of(provider: ProviderIndex) -> Self {
        Self { providers: vec![provider], keys: Vec::new() }
    }
}

impl Machine {
    /// Carries out one command. Effects are added to `effects` in the order in which they happened.
    pub fn apply(&mut self, now: Duration, command: Command, effects: &mut Vec<Effect>) {
        self.revision += 1;
        match command {
            Command::Submit(request) => self.submit(now, request, effects),
            Command::Retry(grant) => self.retry(grant, effects),
            Command::Cancel(ticket) => {
                self.leave_queue(ticket);
            }
            Command::Release(lease) => self.release(lease, effects),
            Command::NodeOnline { node, generation } => self.node_online(node, generation, effects),
            Command::NodeOffline { node, generation } => self.node_offline(&node, generation, effects),
            Command::Applied { node, generation, providers } => {
                self.applied(&node, generation, &providers, effects);
            }
            Command::Unreachable { provider, generation, failures } => {
                self.unreachable(now, &provider, generation, failures, effects);
            }
            Command::Reached { provider, generation } => self.reached(&provider, generation, effects),
            Command::Configure(config) => self.configure(*config, effects),
            Command::Tick => self.tick(now, effects),
        }
        debug_assert!(self.counts_match(), "counters differ from the lease table");
    }

    /// Leases held on the node's providers, by provider, those taken out of the settings included.
    pub fn in_flight(&self, node: &str) -> BTreeMap<Arc<str>, u32> {
        let of_node = self.providers.by_key.iter().filter(|(key, _)| &*key.node == node);
        of_node.map(|(key, index)| (key.provider.clone(), self.providers.get(*index).in_flight)).collect()
    }

    /// When [`Command::Tick`] is due: the moment the request that has waited longest times out, or a provider that was
    /// set aside may be tried again.
    pub fn next_deadline(&self) -> Option<Duration> {
        let oldest = self.queue.oldest();
        let timeout = oldest.map(|waiter| waiter.pending.arrived.saturating_add(self.policy.queue_timeout));
        timeout.into_iter().chain(self.next_due()).min()
    }

    fn submit(&mut self, now: Duration, request: Request, effects: &mut Vec<Effect>) {
        self.tickets += 1;
        let pending = Pending { ticket: Ticket(self.tickets), request, arrived: now, refused_by: Vec::new() };
        let limits = pending.request.key.as_deref().and_then(|name| self.keys.find(name));
        let refusal = self.place(pending, limits, effects, |machine| machine.queue_room(limits));
        effects.extend(refusal);
    }

    /// Room in the queue for a newcomer. A request that comes back to its place needs none.
    fn queue_room(&self, limits: Option<KeyIndex>) -> Result<(), Refusal> {
        if let Some(key) = limits.map(|index| self.keys.get(index))
            && let Some(max) = key.spec.max_queued.filter(|max| key.queued >= *max)
        {
            return Err(Refusal::KeyQueueFull { max });
        }
        let max = self.policy.max_queue;
        if self.queue.len() >= max as usize { Err(Refusal::QueueFull { max }) } else { Ok(()) }
    }

    fn retry(&mut self, grant: Grant, effects: &mut Vec<Effect>) {
        let freed = self.return_lease(grant.lease, effects);
        let mut pending = grant.pending;
        if !pending.refused_by.contains(&grant.provider) {
            pending.refused_by.push(grant.provider);
        }
        let limits = pending.request.key.as_deref().and_then(|name| self.keys.find(name));
        let ticket = pending.ticket;
        // It takes its turn among those that wait: the returned lease is for the earlier ones first.
        self.hand_out_before(ticket, &freed, effects);
        let attempts = pending.refused_by.len() as u64;
        let refusal = if attempts >= u64::from(self.policy.max_attempts) {
            Some(Effect::Refused { ticket, refusal: Refusal::NoOtherProvider })
        } else {
            self.place(pending, limits, effects, |_| Ok(()))
        };
        effects.extend(refusal);
        self.hand_out(&freed, effects);
    }

    /// Grants a slot now, or enters the request in the queue, or gives back why neither is possible.
    pub(super) fn place(
        &mut self,
        pending: Pending,
        limits: Option<KeyIndex>,
        effects: &mut Vec<Effect>,
        queue_room: impl FnOnce(&Self) -> Result<(), Refusal>,
    ) -> Option<Effect> {
        let ticket = pending.ticket;
        let placed = self.class_of(&pending, limits).and_then(|class| {
            // Whoever waits in this class could not run a moment ago, and nothing has become free since.
            if let Some(provider) = self.choose(&class) {
                effects.push(Effect::Granted(self.grant(pending, limits, class.long, provider)));
                return Ok(());
            }
            if !self.has_live_member(&class) {
                let retried = !pending.refused_by.is_empty();
                return Err(if retried { Refusal::NoOtherProvider } else { Refusal::Unavailable });
            }
            queue_room(self)?;
            if let Some(index) = limits {
                self.keys.get_mut(index).queued += 1;
            }
            self.queue.insert(class, limits, pending);
            effects.push(Effect::Queued { ticket });
            Ok(())
        });
        placed.err().map(|refusal| Effect::Refused { ticket, refusal })
    }

    fn class_of(&mut self, pending: &Pending, limits: Option<KeyIndex>) -> Result<ClassKey, Refusal> {
        let Self { models, providers, queue, .. } = self;
        let model = models.get_mut(&pending.request.model).ok_or(Refusal::ModelNotFound)?;
        let fitting = model.fitting(&pending.request, providers, |members| queue.intern(members))?;
        let refused_by = pending.refused_by.iter();
        let mut excluded: Vec<_> = refused_by.filter_map(|key| providers.by_key.get(key).copied()).collect();
        excluded.sort();
        let limited = |index: &KeyIndex| self.keys.get(*index).spec.max_in_flight.is_some();
        Ok(ClassKey { set: fitting.set, long: fitting.long, key: limits.filter(limited), excluded })
    }

    /// The provider that the next request of the class runs on, if one can now.
    fn choose(&self, class: &ClassKey) -> Option<ProviderIndex> {
        let others = OnceCell::new();
        let members = self.queue.members(class.set);
        self.providers.best(members, |provider| self.can_run_on(provider, class, &others))
    }

    /// Whether one more of the class can run now on this member of its set.
    fn can_run_on(&self, provider: ProviderIndex, class: &ClassKey, others: &OnceCell<bool>) -> bool {
        self.providers.get(provider).has_room(class.long)
            && !class.excluded.contains(&provider)
            && !self.spares(class, provider, others)
            && class.key.is_none_or(|index| self.keys.get(index).has_room())
    }

    pub(super) fn has_live_member(&self, class: &ClassKey) -> bool {
        let members = self.queue.members(class.set).iter();
        members.into_iter().any(|index| self.providers.get(*index).live() && !class.excluded.contains(index))
    }

    fn grant(
        &mut self,
        pending: Pending,
        limits: Option<KeyIndex>,
        long: bool,
        provider: ProviderIndex,
    ) -> Grant {
        let slots = self.providers.get(provider);
        let generation = slots.online.expect("only a provider that is online has room");
        let failures = slots.failures();
        let lease = self.leases.acquire(Lease { provider, long, key: limits });
        self.providers.update(provider, |slots| slots.take(long, lease.0));
        if let Some(index) = limits {
            self.keys.get_mut(index).in_flight += 1;
        }
        Grant { lease, provider: self.providers.key(provider).clone(), generation, long, failures, pending }
    }

    fn release(&mut self, lease: LeaseId, effects: &mut Vec<Effect>) {
        let freed = self.return_lease(lease, effects);
        self.hand_out(&freed, effects);
    }

    fn return_lease(&mut self, id: LeaseId, effects: &mut Vec<Effect>) -> Freed {
        let mut freed = Freed::default();
        if let Some(lease) = self.leases.release(id) {
            self.uncount(&lease, &mut freed);
            if self.providers.get(lease.provider).fits_again() {
                effects.push(Effect::TellNode { node: self.providers.key(lease.provider).node.clone() });
            }
            self.end_trial(lease.provider, id);
        }
        freed
    }

    pub(super) fn uncount(&mut self, lease: &Lease, freed: &mut Freed) {
        self.providers.update(lease.provider, |slots| slots.give_back(lease.long));
        freed.providers.push(lease.provider);
        if let Some(index) = lease.key {
            let key = self.keys.get_mut(index);
            key.in_flight = key.in_flight.checked_sub(1).expect("counted when the lease was made");
            freed.keys.push(index);
        }
    }

    pub(super) fn leave_queue(&mut self, ticket: Ticket) -> Option<Pending> {
        let waiter = self.queue.remove(ticket)?;
        if let Some(index) = waiter.key {
            let key = self.keys.get_mut(index);
            key.queued = key.queued.checked_sub(1).expect("counted when it was queued");
        }
        Some(waiter.pending)
    }

    /// Gives what is free to those that wait: always to the earliest that can run now.
    pub(super) fn hand_out(&mut self, freed: &Freed, effects: &mut Vec<Effect>) {
        self.hand_out_before(Ticket(u64::MAX), freed, effects);
    }

    /// The same, as far as those go that arrived before this one.
    fn hand_out_before(&mut self, end: Ticket, freed: &Freed, effects: &mut Vec<Effect>) {
        while let Some((ticket, class)) = self.earliest_runnable(freed).filter(|(ticket, _)| *ticket < end) {
            let class = &self.queue.class(class).key;
            let (long, chosen) = (class.long, self.choose(class));
            let limits = self.queue.waiter_key(ticket);
            let (Some(provider), Some(pending)) = (chosen, self.leave_queue(ticket)) else { return };
            effects.push(Effect::Granted(self.grant(pending, limits, long, provider)));
        }
    }

    /// The earliest head among the classes that the freed slots concern and that can run now. Nothing waited that could
    /// run: so a class that is not held back by its key can run only on a freed provider.
    fn earliest_runnable(&self, freed: &Freed) -> Option<(Ticket, ClassId)> {
        let head = |id: ClassId| Some((*self.queue.class(id).tickets.first()?, id));
        let of_provider = |provider: ProviderIndex| {
            let heads = self.queue.classes_of_provider(provider).filter_map(head);
            heads.filter(move |(_, id)| {
                self.can_run_on(provider, &self.queue.class(*id).key, &OnceCell::new())
            })
        };
        let with_room =
            freed.providers.iter().filter(|provider| self.providers.get(**provider).has_room(false));
        let of_keys = freed.keys.iter().flat_map(|key| self.queue.classes_of_key(*key)).filter_map(head);
        let of_keys = of_keys.filter(|(_, id)| self.choose(&self.queue.class(*id).key).is_some());
        with_room.copied().flat_map(of_provider).chain(of_keys).min()
    }

    fn tick(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        self.expire(now, effects);
        let freed = self.end_times_aside(now);
        self.hand_out(&freed, effects);
    }

    fn expire(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let timeout = self.policy.queue_timeout;
        while let Some(oldest) = self.queue.oldest()
            && oldest.pending.arrived.saturating_add(timeout) <= now
        {
            let ticket = oldest.pending.ticket;
            self.leave_queue(ticket);
            effects.push(Effect::Refused { ticket, refusal: Refusal::QueueTimeout { timeout } });
        }
    }

    /// Whether every counter equals what the lease table and the queue say.
    fn counts_match(&self) -> bool {
        let leases = || self.leases.table.values();
        let slots_match = self.providers.iter().all(|(index, slots)| {
            let held = || leases().filter(|lease| lease.provider == index);
            slots.in_flight as usize == held().count()
                && slots.long_in_flight as usize == held().filter(|lease| lease.long).count()
        });
        let totals = &self.leases;
        let active = self.leases.table.len() as u64;
        slots_match
            && totals.acquired_total == totals.released_total + totals.fenced_total + active
            && self.keys.counts_match(leases(), self.queue.waiters())
    }
}
