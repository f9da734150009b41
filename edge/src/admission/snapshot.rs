//! What admission looks like now, read from the same fields that admit.

use super::command::ProviderKey;
use super::machine::Machine;
use super::providers::ProviderIndex;
use std::time::Duration;

/// The state of admission at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Grows with every command.
    pub revision: u64,
    /// The queue.
    pub queue: QueueSnapshot,
    /// Leases, ever. acquired = released + fenced + active.
    pub leases: LeaseTotals,
    /// The configured providers, in order of their identity.
    pub providers: Vec<ProviderSnapshot>,
}

/// The queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Requests that wait.
    pub length: usize,
    /// Most that may wait.
    pub max: u32,
    /// Longest wait allowed.
    pub timeout: Duration,
    /// When the one that has waited longest arrived.
    pub oldest_arrived: Option<Duration>,
}

/// Leases, ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTotals {
    /// Held now.
    pub active: u64,
    /// Given out.
    pub acquired_total: u64,
    /// Returned by the end of their run.
    pub released_total: u64,
    /// Ended with their generation.
    pub fenced_total: u64,
}

/// One provider at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSnapshot {
    /// Its identity.
    pub key: ProviderKey,
    /// Whether a request may wait for it: connected, enabled, and not refused by its node.
    pub live: bool,
    /// Whether its node is connected.
    pub connected: bool,
    /// Whether its node will not run it.
    pub refused: bool,
    /// As configured.
    pub enabled: bool,
    /// As configured.
    pub capacity: u32,
    /// As configured.
    pub long_capacity: u32,
    /// As configured.
    pub priority: i32,
    /// Slots that count now.
    pub effective_capacity: u32,
    /// Leases held on it.
    pub in_flight: u32,
    /// Long leases among them.
    pub long_in_flight: u32,
    /// Candidate pressure: waiting requests that could run on it. Sums over providers to more than the queue.
    pub queued: usize,
    /// Long requests among them.
    pub long_queued: usize,
    /// Set while its server refuses connections.
    pub aside: Option<AsideSnapshot>,
}

/// A provider set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsideSnapshot {
    /// When one request tries it again, or since when one may. On the clock of the commands.
    pub until: Duration,
    /// Whether the next request may try it.
    pub due: bool,
    /// How often in a row it was not reached.
    pub failures: u32,
}

impl Machine {
    /// The state now.
    pub fn snapshot(&self) -> Snapshot {
        let leases = &self.leases;
        Snapshot {
            revision: self.revision,
            queue: QueueSnapshot {
                length: self.queue.len(),
                max: self.policy.max_queue,
                timeout: self.policy.queue_timeout,
                oldest_arrived: self.queue.oldest().map(|waiter| waiter.pending.arrived),
            },
            leases: LeaseTotals {
                active: leases.table.len() as u64,
                acquired_total: leases.acquired_total,
                released_total: leases.released_total,
                fenced_total: leases.fenced_total,
            },
            providers: self
                .providers
                .by_key
                .values()
                .filter(|index| !self.providers.get(**index).removed)
                .map(|index| self.provider_snapshot(*index))
                .collect(),
        }
    }

    fn provider_snapshot(&self, index: ProviderIndex) -> ProviderSnapshot {
        let slots = self.providers.get(index);
        let pressure = |long_only: bool| -> usize {
            let classes = self.queue.classes_of_provider(index).map(|id| self.queue.class(id));
            let waits = classes
                .filter(|class| !class.key.excluded.contains(&index) && (class.key.long || !long_only));
            waits.map(|class| class.tickets.len()).sum()
        };
        let live = slots.live();
        ProviderSnapshot {
            key: self.providers.key(index).clone(),
            live,
            connected: slots.online.is_some(),
            refused: slots.refused,
            enabled: slots.spec.enabled,
            capacity: slots.spec.capacity,
            long_capacity: slots.spec.long_capacity,
            priority: slots.spec.priority,
            effective_capacity: slots.effective_capacity(),
            in_flight: slots.in_flight,
            long_in_flight: slots.long_in_flight,
            queued: if live { pressure(false) } else { 0 },
            long_queued: if live { pressure(true) } else { 0 },
            aside: slots.aside.as_ref().map(|aside| AsideSnapshot {
                until: aside.until,
                due: aside.due,
                failures: aside.failures,
            }),
        }
    }
}
