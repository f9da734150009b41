//! The waiting requests: one global order, grouped in classes of those that can run on exactly the same slots.

use super::command::{Pending, Ticket};
use super::keys::KeyIndex;
use super::providers::ProviderIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Number of a set of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SetId(u32);

/// Number of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassId(u32);

/// What makes waiting requests equal: they can run on exactly the same slots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassKey {
    pub set: SetId,
    pub long: bool,
    /// Only a key that limits its requests in flight.
    pub key: Option<KeyIndex>,
    /// Members of the set that refused it; empty but for retries.
    pub excluded: Vec<ProviderIndex>,
}

#[derive(Debug)]
pub(super) struct Class {
    pub key: ClassKey,
    pub tickets: BTreeSet<Ticket>,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub pending: Pending,
    pub class: ClassId,
    pub key: Option<KeyIndex>,
}

#[derive(Debug)]
struct Set {
    members: Vec<ProviderIndex>,
    /// Its classes: at most two for each limited key, empty ones included, and those of waiting retries.
    classes: Vec<ClassId>,
}

/// Waiting requests, and every set and class that has come up since the settings last changed.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: BTreeMap<Ticket, Waiter>,
    sets: Vec<Set>,
    set_ids: BTreeMap<Vec<ProviderIndex>, SetId>,
    classes: Vec<Class>,
    /// Positions in `classes` that retries have left.
    free_classes: Vec<ClassId>,
    class_ids: BTreeMap<ClassKey, ClassId>,
    /// Sets by member.
    sets_of: Vec<Vec<SetId>>,
    /// Classes by limited key.
    classes_of: BTreeMap<KeyIndex, Vec<ClassId>>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// The one that has waited longest.
    pub(super) fn oldest(&self) -> Option<&Waiter> {
        self.waiters.values().next()
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = &Waiter> + Clone {
        self.waiters.values()
    }

    /// The API key of a waiting request, if keys are in use.
    pub(super) fn waiter_key(&self, ticket: Ticket) -> Option<KeyIndex> {
        self.waiters.get(&ticket).and_then(|waiter| waiter.key)
    }

    pub(super) fn class(&self, id: ClassId) -> &Class {
        &self.classes[id.0 as usize]
    }

    pub(super) fn members(&self, set: SetId) -> &[ProviderIndex] {
        &self.sets[set.0 as usize].members
    }

    /// Classes that could run on the provider.
    pub(super) fn classes_of_provider(&self, provider: ProviderIndex) -> impl Iterator<Item = ClassId> + '_ {
        let sets = self.sets_of.get(provider.0 as usize).map_or(&[][..], Vec::as_slice);
        sets.iter().flat_map(|set| self.sets[set.0 as usize].classes.iter().copied())
    }

    /// Classes of a key that limits its requests in flight.
    pub(super) fn classes_of_key(&self, key: KeyIndex) -> impl Iterator<Item = ClassId> + '_ {
        self.classes_of.get(&key).into_iter().flatten().copied()
    }

    /// The number of the set with these members (sorted).
    pub(super) fn intern(&mut self, members: Vec<ProviderIndex>) -> SetId {
        if let Some(id) = self.set_ids.get(&members) {
            return *id;
        }
        let id = SetId(u32::try_from(self.sets.len()).expect("far fewer than 2^32 sets"));
        for member in &members {
            let position = member.0 as usize;
            if self.sets_of.len() <= position {
                self.sets_of.resize_with(position + 1, Vec::new);
            }
            self.sets_of[position].push(id);
        }
        self.set_ids.insert(members.clone(), id);
        self.sets.push(Set { members, classes: Vec::new() });
        id
    }

    /// Enters a request at the place of its ticket.
    pub(super) fn insert(&mut self, key: ClassKey, limits: Option<KeyIndex>, pending: Pending) {
        let class = self.class_for(key);
        let ticket = pending.ticket;
        self.classes[class.0 as usize].tickets.insert(ticket);
        self.waiters.insert(ticket, Waiter { pending, class, key: limits });
    }

    /// Takes a request out; `None` if it does not wait.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        let class = &mut self.classes[waiter.class.0 as usize];
        class.tickets.remove(&ticket);
        if class.tickets.is_empty() && !class.key.excluded.is_empty() {
            self.retire(waiter.class);
        }
        Some(waiter)
    }

    /// Forgets an empty class of retries: there are too many possible ones to keep.
    fn retire(&mut self, id: ClassId) {
        let key = self.classes[id.0 as usize].key.clone();
        self.sets[key.set.0 as usize].classes.retain(|class| *class != id);
        if let Some(classes) = key.key.and_then(|limited| self.classes_of.get_mut(&limited)) {
            classes.retain(|class| *class != id);
        }
        self.class_ids.remove(&key);
        self.free_classes.push(id);
    }

    /// Takes everything out, in order, and forgets sets and classes: their positions are about to change.
    pub(super) fn clear(&mut self) -> Vec<Waiter> {
        std::mem::take(self).waiters.into_values().collect()
    }

    fn class_for(&mut self, key: ClassKey) -> ClassId {
        if let Some(id) = self.class_ids.get(&key) {
            return *id;
        }
        let next = ClassId(u32::try_from(self.classes.len()).expect("far fewer than 2^32 classes"));
        let id = self.free_classes.pop().unwrap_or(next);
        self.sets[key.set.0 as usize].classes.push(id);
        if let Some(limited) = key.key {
            self.classes_of.entry(limited).or_default().push(id);
        }
        self.class_ids.insert(key.clone(), id);
        let class = Class { key, tickets: BTreeSet::new() };
        match self.classes.get_mut(id.0 as usize) {
            Some(free) => *free = class,
            None => self.classes.push(class),
        }
        id
    }
}
