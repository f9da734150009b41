//! The providers' slots: capacity, use, connectivity. Counts here always equal the lease table.

use super::aside::Aside;
use super::command::{Generation, LeaseId, ProviderKey, ProviderSpec};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Position of a provider in the table; changes only when the settings do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProviderIndex(pub u32);

/// Order of choice, smallest first: priority, then relative use, then least recently used.
type Rank = (Reverse<i32>, u64, u64);

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
    /// Its server refuses connections. Boxed: it is rare, and these slots are looked at for every request.
    pub aside: Option<Box<Aside>>,
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
            aside: None,
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

    /// Its place among those that have room; `None` if it has none.
    fn rank(&self) -> Option<Rank> {
        let relative_use = (u64::from(self.in_flight) << 32) / u64::from(self.spec.capacity.max(1));
        self.has_room(false).then_some((Reverse(self.spec.priority), relative_use, self.last_grant))
    }

    /// How often in a row it could not be reached; 0: it is not set aside.
    pub(super) fn failures(&self) -> u32 {
        self.aside.as_deref().map_or(0, |aside| aside.failures)
    }

    /// Whether the lease that was just given back is the last of those that the settings have no place for: they were
    /// made before the capacity was lowered, or the provider taken out.
    pub(super) fn fits_again(&self) -> bool {
        self.in_flight == if self.removed { 0 } else { self.spec.capacity }
    }

    pub(super) fn take(&mut self, long: bool, lease: u64) {
        self.in_flight += 1;
        self.long_in_flight += u32::from(long);
        self.last_grant = lease;
        if let Some(aside) = self.aside.as_deref_mut().filter(|aside| aside.wants_trial()) {
            aside.trial = Some(LeaseId(lease));
        }
    }

    pub(super) fn give_back(&mut self, long: bool) {
        const HELD: &str = "a lease is removed from the table once, and was counted when it was made";
        self.in_flight = self.in_flight.checked_sub(1).expect(HELD);
        self.long_in_flight = self.long_in_flight.checked_sub(u32::from(long)).expect(HELD);
    }
}

/// All providers, by position, by identity, those with room by rank, and those set aside.
#[derive(Debug, Default)]
pub(super) struct Providers {
    slots: Vec<Slots>,
    keys: Vec<ProviderKey>,
    pub by_key: BTreeMap<ProviderKey, ProviderIndex>,
    /// Kept by [`Providers::update`], the only way to change slots.
    free: BTreeSet<(Rank, ProviderIndex)>,
    /// Those set aside, kept likewise.
    aside: BTreeSet<ProviderIndex>,
}

impl Providers {
    pub(super) fn get(&self, index: ProviderIndex) -> &Slots {
        &self.slots[index.0 as usize]
    }

    pub(super) fn key(&self, index: ProviderIndex) -> &ProviderKey {
        &self.keys[index.0 as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ProviderIndex, &Slots)> {
        (0..).map(ProviderIndex).zip(&self.slots)
    }

    pub(super) fn add(&mut self, key: ProviderKey, slots: Slots) -> ProviderIndex {
        let index = ProviderIndex(u32::try_from(self.slots.len()).expect("far fewer than 2^32 providers"));
        self.by_key.insert(key.clone(), index);
        self.keys.push(key);
        self.free.extend(slots.rank().map(|rank| (rank, index)));
        self.aside.extend(slots.aside.as_ref().map(|_| index));
        self.slots.push(slots);
        index
    }

    pub(super) fn update(&mut self, index: ProviderIndex, change: impl FnOnce(&mut Slots)) {
        let slots = &mut self.slots[index.0 as usize];
        let (before, was_aside) = (slots.rank(), slots.aside.is_some());
        change(slots);
        let (after, is_aside) = (slots.rank(), slots.aside.is_some());
        if before != after {
            if let Some(rank) = before {
                self.free.remove(&(rank, index));
            }
            self.free.extend(after.map(|rank| (rank, index)));
        }
        if is_aside && !was_aside {
            self.aside.insert(index);
        } else if was_aside && !is_aside {
            self.aside.remove(&index);
        }
    }

    /// Those set aside.
    pub(super) fn aside(&self) -> impl Iterator<Item = ProviderIndex> + '_ {
        self.aside.iter().copied()
    }

    /// The best of these (sorted) that has room and passes. Few are looked at one by one; of many, the first that comes
    /// up among all that have room is found sooner.
    pub(super) fn best(
        &self,
        members: &[ProviderIndex],
        passes: impl Fn(ProviderIndex) -> bool,
    ) -> Option<ProviderIndex> {
        if members.len() * members.len() > self.slots.len() {
            let mut free = self.free.iter().map(|(_, index)| *index);
            return free.find(|index| members.binary_search(index).is_ok() && passes(*index));
        }
        let ranked = members.iter().filter_map(|index| Some((self.get(*index).rank()?, *index)));
        ranked.filter(|(_, index)| passes(*index)).min().map(|(_, index)| index)
    }

    /// The node's providers, those taken out of the settings included.
    pub(super) fn of_node(&self, node: &str) -> Vec<ProviderIndex> {
        self.by_key.iter().filter(|(key, _)| &*key.node == node).map(|(_, index)| *index).collect()
    }
}
