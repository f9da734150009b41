//! The providers' slots: capacity, use, connectivity. Counts here always equal the lease table.

use super::command::{Generation, ProviderKey, ProviderSpec};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Position of a provider in the table; changes only when the settings do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProviderIndex(pub u32);

/// One provider's slots.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    pub spec: ProviderSpec,
    /// Taken out of the settings, kept while leases are left.
    pub removed: bool,
    /// The generation that owns it; `None` while the node is not connected.
    pub online: Option<Generation>,
    /// What the node's gate allows under this generation: nothing before it has said so.
    pub confirmed: u32,
    /// The node will not run it.
    pub refused: bool,
    pub in_flight: u32,
    pub long_in_flight: u32,
    /// Lease number of the last grant: the smaller, the longer ago.
    pub last_grant: u64,
}

impl Slots {
    pub(super) fn new(spec: ProviderSpec) -> Self {
        Self {
            spec,
            removed: false,
            online: None,
            confirmed: 0,
            refused: false,
            in_flight: 0,
            long_in_flight: 0,
            last_grant: 0,
        }
    }

    /// Whether a request may wait for it.
    pub(super) fn live(&self) -> bool {
        self.online.is_some() && self.spec.enabled && !self.refused && !self.removed
    }

    /// Normal slots that count now. A raised capacity counts when the node has confirmed it, a lowered one at once.
    pub(super) fn effective_capacity(&self) -> u32 {
        if self.live() { self.spec.capacity.min(self.confirmed) } else { 0 }
    }

    /// Long slots that count now.
    pub(super) fn effective_long_capacity(&self) -> u32 {
        self.spec.long_capacity.min(self.effective_capacity())
    }

    /// Whether one more request, long or normal, can run now.
    pub(super) fn has_room(&self, long: bool) -> bool {
        self.in_flight < self.effective_capacity()
            && (!long || self.long_in_flight < self.effective_long_capacity())
    }

    /// Order of choice among those with room, smallest first: priority, then relative use, then least recently used.
    pub(super) fn rank(&self) -> (Reverse<i32>, u64, u64) {
        let relative_use = (u64::from(self.in_flight) << 32) / u64::from(self.spec.capacity.max(1));
        (Reverse(self.spec.priority), relative_use, self.last_grant)
    }

    pub(super) fn take(&mut self, long: bool, lease: u64) {
        self.in_flight += 1;
        self.long_in_flight += u32::from(long);
        self.last_grant = lease;
    }

    pub(super) fn give_back(&mut self, long: bool) {
        const HELD: &str = "a lease is removed from the table once, and was counted when it was made";
        self.in_flight = self.in_flight.checked_sub(1).expect(HELD);
        self.long_in_flight = self.long_in_flight.checked_sub(u32::from(long)).expect(HELD);
    }
}

/// All providers, by position and by identity.
#[derive(Debug, Default)]
pub(super) struct Providers {
    pub slots: Vec<Slots>,
    pub keys: Vec<ProviderKey>,
    pub by_key: BTreeMap<ProviderKey, ProviderIndex>,
}

impl Providers {
    pub(super) fn get(&self, index: ProviderIndex) -> &Slots {
        &self.slots[index.0 as usize]
    }

    pub(super) fn get_mut(&mut self, index: ProviderIndex) -> &mut Slots {
        &mut self.slots[index.0 as usize]
    }

    pub(super) fn key(&self, index: ProviderIndex) -> &ProviderKey {
        &self.keys[index.0 as usize]
    }

    pub(super) fn add(&mut self, key: ProviderKey, slots: Slots) -> ProviderIndex {
        let index = ProviderIndex(u32::try_from(self.slots.len()).expect("far fewer than 2^32 providers"));
        self.by_key.insert(key.clone(), index);
        self.keys.push(key);
        self.slots.push(slots);
        index
    }

    /// The node's providers, those taken out of the settings included.
    pub(super) fn of_node(&self, node: &str) -> Vec<ProviderIndex> {
        self.by_key.iter().filter(|(key, _)| &*key.node == node).map(|(_, index)| *index).collect()
    }
}
