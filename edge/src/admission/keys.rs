//! API keys' own limits: one key cannot take every slot, and its waiting requests block no other's.

use super::command::KeySpec;
use super::leases::Lease;
use super::queue::Waiter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Position of a key in the table; kept for as long as the edge runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyIndex(pub u32);

#[derive(Debug, Default)]
pub(super) struct Key {
    pub spec: KeySpec,
    pub in_flight: u32,
    pub queued: u32,
}

impl Key {
    /// Whether one more of its requests may run now.
    pub(super) fn has_room(&self) -> bool {
        self.spec.max_in_flight.is_none_or(|max| self.in_flight < max)
    }
}

/// Every key ever configured: at most as many as the settings have named since the edge started.
#[derive(Debug, Default)]
pub(super) struct Keys {
    table: Vec<Key>,
    by_name: BTreeMap<Arc<str>, KeyIndex>,
}

impl Keys {
    pub(super) fn find(&self, name: &str) -> Option<KeyIndex> {
        self.by_name.get(name).copied()
    }

    pub(super) fn get(&self, index: KeyIndex) -> &Key {
        &self.table[index.0 as usize]
    }

    pub(super) fn get_mut(&mut self, index: KeyIndex) -> &mut Key {
        &mut self.table[index.0 as usize]
    }

    /// Takes over the settings. A key that is not in them any more has no limits: its requests are already admitted.
    pub(super) fn configure(&mut self, specs: &BTreeMap<Arc<str>, KeySpec>) {
        for key in &mut self.table {
            key.spec = KeySpec::default();
        }
        for (name, spec) in specs {
            let next = KeyIndex(u32::try_from(self.table.len()).expect("far fewer than 2^32 keys"));
            let index = *self.by_name.entry(name.clone()).or_insert(next);
            if index == next {
                self.table.push(Key::default());
            }
            self.get_mut(index).spec = *spec;
        }
    }

    /// Whether the counts equal what the lease table and the queue say.
    pub(super) fn counts_match<'a>(
        &self,
        leases: impl Iterator<Item = &'a Lease> + Clone,
        waiters: impl Iterator<Item = &'a Waiter> + Clone,
    ) -> bool {
        self.table.iter().zip(0..).all(|(key, index)| {
            let index = Some(KeyIndex(index));
            key.in_flight as usize == leases.clone().filter(|lease| lease.key == index).count()
                && key.queued as usize == waiters.clone().filter(|waiter| waiter.key == index).count()
        })
    }
}
