//! The twin's side of the snapshot: every number counted anew from the lists.

use super::{Aside, Model};
use iop_edge::admission::{LeaseTotals, Pending, ProviderKey, ProviderSnapshot, QueueSnapshot, Snapshot};

impl Model {
    /// What the machine's snapshot has to say.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            revision: self.commands,
            queue: QueueSnapshot {
                length: self.waiting.len(),
                max: self.config.policy.max_queue,
                timeout: self.config.policy.queue_timeout,
                oldest_arrived: self.waiting.iter().map(|pending| pending.arrived).min(),
            },
            leases: LeaseTotals {
                active: self.leases.len() as u64,
                acquired_total: self.acquired,
                released_total: self.released,
                fenced_total: self.fenced,
            },
            providers: self.config.providers.keys().map(|key| self.provider_snapshot(key)).collect(),
        }
    }

    fn provider_snapshot(&self, key: &ProviderKey) -> ProviderSnapshot {
        let spec = &self.config.providers[key];
        let pressure = |long_only: bool| {
            let could_run = |pending: &&Pending| {
                let (candidates, long) = self.candidates(&pending.request).unwrap_or_default();
                candidates.contains(key) && !pending.refused_by.contains(key) && (long || !long_only)
            };
            if self.is_live(key) { self.waiting.iter().filter(could_run).count() } else { 0 }
        };
        ProviderSnapshot {
            key: key.clone(),
            live: self.is_live(key),
            connected: self.owner(&key.node).is_some(),
            refused: self.gate(key).refused,
            enabled: spec.enabled,
            capacity: spec.capacity,
            long_capacity: spec.long_capacity,
            priority: spec.priority,
            effective_capacity: self.effective_capacity(key),
            in_flight: self.in_flight(key, false) as u32,
            long_in_flight: self.in_flight(key, true) as u32,
            queued: pressure(false),
            long_queued: pressure(true),
            aside: self.gate(key).aside.as_ref().map(Aside::shown),
        }
    }
}
