//! Connections as admission sees them: whose generation a provider runs under, and what its node has confirmed.

use super::command::{Effect, Generation, Refusal, Ticket};
use super::machine::{Freed, Machine, Node};
use super::providers::ProviderIndex;
use std::sync::Arc;

impl Machine {
    pub(super) fn node_online(&mut self, node: Arc<str>, generation: Generation, effects: &mut Vec<Effect>) {
        if self.nodes.get(&node).is_some_and(|known| known.generation >= generation) {
            return;
        }
        let members = self.providers.of_node(&node);
        let freed = self.fence(&members);
        for index in &members {
            self.providers.update(*index, |slots| slots.online = Some(generation));
        }
        self.nodes.insert(node, Node { generation, online: true });
        self.hand_out(&freed, effects);
    }

    pub(super) fn node_offline(&mut self, node: &str, generation: Generation, effects: &mut Vec<Effect>) {
        let Some(known) = self.nodes.get_mut(node).filter(|known| known.generation == generation) else {
            return;
        };
        known.online = false;
        let members = self.providers.of_node(node);
        let mut freed = self.fence(&members);
        self.free_those_aside(&mut freed);
        self.hand_out(&freed, effects);
        self.refuse_hopeless(&members, effects);
    }

    /// Ends the current generation of these providers: its leases are gone, whoever still holds them.
    fn fence(&mut self, members: &[ProviderIndex]) -> Freed {
        for index in members {
            self.providers.update(*index, |slots| {
                slots.online = None;
                slots.confirmed = 0;
                slots.refused = false;
                slots.aside = None;
            });
        }
        let mut freed = Freed::default();
        for lease in self.leases.fence(members) {
            self.uncount(&lease, &mut freed);
        }
        freed
    }

    pub(super) fn applied(
        &mut self,
        node: &str,
        generation: Generation,
        providers: &[(Arc<str>, Option<u32>)],
        effects: &mut Vec<Effect>,
    ) {
        let mut members = Vec::new();
        for index in self.providers.of_node(node) {
            let id = &self.providers.key(index).provider;
            let Some((_, capacity)) = providers.iter().find(|(provider, _)| provider == id) else { continue };
            let slots = self.providers.get(index);
            if slots.online == Some(generation) && !slots.removed {
                self.providers.update(index, |slots| {
                    // More than is configured belongs to settings that the node is about to leave: a raise waits for its
                    // own confirmation.
                    slots.confirmed = capacity.unwrap_or(0).min(slots.spec.capacity);
                    slots.refused = capacity.is_none();
                });
                members.push(index);
            }
        }
        let mut freed = Freed { providers: members.clone(), ..Freed::default() };
        self.free_those_aside(&mut freed);
        self.hand_out(&freed, effects);
        self.refuse_hopeless(&members, effects);
    }

    /// Ends the waiting requests that had only these providers left to wait for.
    fn refuse_hopeless(&mut self, providers: &[ProviderIndex], effects: &mut Vec<Effect>) {
        let mut hopeless: Vec<Ticket> = Vec::new();
        for id in providers.iter().flat_map(|provider| self.queue.classes_of_provider(*provider)) {
            let class = self.queue.class(id);
            if !class.tickets.is_empty() && !self.has_live_member(&class.key) {
                hopeless.extend(&class.tickets);
            }
        }
        hopeless.sort();
        hopeless.dedup();
        for ticket in hopeless {
            self.leave_queue(ticket);
            effects.push(Effect::Refused { ticket, refusal: Refusal::Unavailable });
        }
    }
}
