//! A change of settings: leases stay, everything that waits is looked at again under the new settings.

use super::command::{Config, Effect, Pending, Refusal};
use super::machine::Machine;
use super::models::Model;
use super::providers::{Providers, Slots};
use std::collections::BTreeMap;

impl Machine {
    /// First load and refresh alike. Nobody is dropped because a limit of the queue became smaller.
    pub(super) fn configure(&mut self, config: Config, effects: &mut Vec<Effect>) {
        self.policy = config.policy;
        self.keys.configure(&config.keys);
        let waiting = self.queue.clear();
        self.replace_providers(&config);
        self.models =
            config.models.into_iter().map(|(id, spec)| (id, Model::new(spec, &self.providers))).collect();
        // In order of arrival, so each gets the slot that it would have got had these settings always been in force.
        for waiter in waiting {
            // Counted again if it still waits after this.
            if let Some(index) = waiter.key {
                self.keys.get_mut(index).queued -= 1;
            }
            self.replace_waiter(waiter.pending, effects);
        }
    }

    /// Places a waiting request anew, in its order. Being placed again is no event: only an end is.
    fn replace_waiter(&mut self, pending: Pending, effects: &mut Vec<Effect>) {
        let limits = pending.request.key.as_deref().and_then(|name| self.keys.find(name));
        let mut placed = Vec::new();
        let refusal = self.place(pending, limits, &mut placed, |_| Ok(()));
        effects.extend(placed.into_iter().chain(refusal).filter_map(|effect| match effect {
            Effect::Queued { .. } => None,
            Effect::Refused { ticket, refusal: Refusal::NoOtherProvider } => {
                Some(Effect::Refused { ticket, refusal: Refusal::Unavailable })
            }
            other => Some(other),
        }));
    }

    /// The new table of providers. One that is gone from the settings stays, as no more than a count of
    /// its leases, until they are back.
    fn replace_providers(&mut self, config: &Config) {
        let old = std::mem::take(&mut self.providers);
        let mut moved = BTreeMap::new();
        let mut providers = Providers::default();
        for (key, spec) in &config.providers {
            let known = old.by_key.get(key).copied();
            let mut slots = known.map_or_else(|| Slots::new(*spec), |index| old.get(index).clone());
            slots.spec = *spec;
            slots.removed = false;
            // The node is about to lower its gate: a later raise counts again only when it has confirmed it.
            slots.confirmed = slots.confirmed.min(spec.capacity);
            let node = self.nodes.get(&key.node).filter(|node| node.online);
            slots.online = node.map(|node| node.generation);
            let index = providers.add(key.clone(), slots);
            moved.extend(known.map(|known| (known, index)));
        }
        for (known, slots) in old.iter().filter(|(_, slots)| slots.in_flight > 0) {
            moved.entry(known).or_insert_with(|| {
                let Slots { spec, in_flight, long_in_flight, .. } = *slots;
                let slots = Slots { removed: true, in_flight, long_in_flight, ..Slots::new(spec) };
                providers.add(old.key(known).clone(), slots)
            });
        }
        for lease in self.leases.table.values_mut() {
            lease.provider = moved[&lease.provider];
        }
        self.providers = providers;
    }
}
