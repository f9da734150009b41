//! What one run has seen come out of the machine: which ticket waits, runs or has ended, and which lease is whose.
//! Knows no rule of admission but that nothing is lost, doubled or over its count.

use super::model::ticket_of;
use iop_edge::admission::{Effect, Grant, LeaseId, Refusal, Snapshot, Ticket};
use std::collections::{BTreeMap, BTreeSet};

/// How often each kind of thing happened.
pub type Tally = BTreeMap<&'static str, u64>;

/// Tickets and leases, kept from effects alone.
#[derive(Default)]
pub(super) struct Ledger {
    pub waiting: BTreeSet<Ticket>,
    /// Grants whose run has not ended, those of fenced leases included.
    pub running: Vec<Grant>,
    /// Leases that were returned.
    pub returned: Vec<LeaseId>,
    ended: BTreeSet<Ticket>,
    leases: u64,
    pub tally: Tally,
}

impl Ledger {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// Ends a ticket by its client or its run.
    pub(super) fn end(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.ended.insert(ticket);
    }

    /// Enters effects in the order in which the machine gave them. `answered` is the ticket that must be among them.
    pub(super) fn enter(&mut self, effects: &[Effect], answered: Option<Ticket>) -> Result<(), String> {
        let mut tickets: Vec<Ticket> = effects.iter().filter_map(ticket_of).collect();
        tickets.sort();
        if tickets.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("two effects of one command for one ticket: {effects:?}"));
        }
        if answered.is_some_and(|ticket| !tickets.contains(&ticket)) {
            return Err(format!("{answered:?} got no answer: {effects:?}"));
        }
        for effect in effects {
            let Some(ticket) = ticket_of(effect) else {
                self.enter_one(effect, false)?;
                continue;
            };
            let asked = answered == Some(ticket);
            if self.ended.contains(&ticket) || self.running.iter().any(|grant| grant.pending.ticket == ticket)
            {
                return Err(format!("an effect for a ticket that does not wait: {effect:?}"));
            }
            if asked == self.waiting.contains(&ticket) {
                return Err(format!("an effect for a ticket that nobody asked about: {effect:?}"));
            }
            self.enter_one(effect, asked)?;
        }
        Ok(())
    }

    fn enter_one(&mut self, effect: &Effect, asked: bool) -> Result<(), String> {
        match effect {
            Effect::Granted(grant) => {
                self.leases += 1;
                if grant.lease != LeaseId(self.leases) {
                    return Err(format!("lease number {} was due: {grant:?}", self.leases));
                }
                self.count(if asked { "granted at once" } else { "granted from the queue" });
                if grant.failures > 0 {
                    self.count(if asked { "granted aside at once" } else { "granted aside from the queue" });
                }
                self.waiting.remove(&grant.pending.ticket);
                self.running.push(grant.clone());
            }
            Effect::Refused { ticket, refusal } => {
                self.count(name_of(refusal));
                self.end(*ticket);
            }
            Effect::Queued { ticket } => {
                self.count("queued");
                self.waiting.insert(*ticket);
            }
            Effect::TellNode { .. } => self.count("node told"),
        }
        Ok(())
    }

    /// Holds a snapshot against what was seen. `granted` are the grants of the command just carried out.
    pub(super) fn check(&self, snapshot: &Snapshot, effects: &[Effect]) -> Result<(), String> {
        let totals = snapshot.leases;
        if totals.acquired_total != totals.released_total + totals.fenced_total + totals.active {
            return Err(format!("leases do not add up: {totals:?}"));
        }
        if snapshot.queue.length != self.waiting.len() {
            return Err(format!("{} wait, the snapshot says {}", self.waiting.len(), snapshot.queue.length));
        }
        for effect in effects {
            let Effect::Granted(grant) = effect else { continue };
            let provider = snapshot.providers.iter().find(|provider| provider.key == grant.provider);
            let provider = provider.ok_or_else(|| format!("granted on an unknown provider: {grant:?}"))?;
            let long_capacity = provider.long_capacity.min(provider.effective_capacity);
            let over = provider.in_flight > provider.effective_capacity
                || grant.long && provider.long_in_flight > long_capacity;
            if over {
                return Err(format!("granted over capacity: {grant:?} on {provider:?}"));
            }
        }
        Ok(())
    }
}

fn name_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::ModelNotFound => "refused: model not found",
        Refusal::ApiNotServed => "refused: API not served",
        Refusal::ContextLengthExceeded { .. } => "refused: context length exceeded",
        Refusal::Unavailable => "refused: unavailable",
        Refusal::QueueFull { .. } => "refused: queue full",
        Refusal::KeyQueueFull { .. } => "refused: key queue full",
        Refusal::QueueTimeout { .. } => "refused: queue timeout",
        Refusal::NoOtherProvider => "refused: no other provider",
    }
}
