//! What is to be looked at when an engine gets a request: whether it may come at all, and come now.

use super::{State, World};
use crate::simulation::request::{Patience, Request};
use crate::simulation::settings::model_name;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where nothing goes wrong, a small request is at an engine this long after it was granted.
const ON_ITS_WAY_MS: u64 = 1_000;

/// A prompt that is as small as that.
const QUICK_BYTES: usize = 1_000;

/// An engine got a request while another one, older and as fit for that engine, was not seen anywhere.
#[derive(Debug)]
pub(super) struct Overtaking {
    at_ms: u64,
    by: usize,
    request: usize,
}

impl World {
    /// Checks it and numbers the times that engines get this request, from 1.
    pub(in crate::simulation) fn arrives(&self, request: &Request, provider: usize) -> u32 {
        let id = request.id;
        let (attempt, engines, begun, most) = {
            let mut state = self.lock();
            let (most, begun) = (state.settings.max_attempts, state.begun.contains(&id));
            let attempts = state.attempts.entry(id).or_default();
            attempts.push(provider);
            let engines: BTreeSet<&usize> = attempts.iter().collect();
            (attempts.len(), engines.len() as u64, begun, most)
        };
        if engines > most {
            self.trace.violation(format_args!("request {id} comes to {engines} engines, {most} are allowed"));
        }
        // Only a lost connection leaves it unknown how far a request has come.
        if self.steady && begun {
            self.trace.violation(format_args!("request {id} comes again, and was begun"));
        }
        if self.good {
            self.note_overtaking(request, provider);
        }
        u32::try_from(attempt).expect("attempts are few")
    }

    /// Notes the requests that this one seems to have overtaken. They may be on their way.
    fn note_overtaking(&self, request: &Request, provider: usize) {
        let mut state = self.lock();
        let at_ms = self.trace.now_ms();
        let sent_ms = state.sent_ms.get(&request.id).copied().unwrap_or(0);
        let fits = |other: &&Arc<Request>| {
            let mut models = state.settings.models.iter().enumerate();
            let model = models.find(|(index, _)| model_name(*index) == other.model);
            let is_candidate = model.is_some_and(|(_, model)| model.candidates.contains(&provider));
            // An echo's requests come to no engine.
            let is_seen = model.is_some_and(|(_, model)| {
                model.candidates.iter().all(|provider| !state.settings.providers[*provider].echo)
            });
            let is_quick = other.prompt < QUICK_BYTES && other.patience == Patience::Good;
            let was_earlier = state.sent_ms.get(&other.id).is_some_and(|sent| sent + ON_ITS_WAY_MS < sent_ms);
            is_candidate
                && is_seen
                && is_quick
                && was_earlier
                && (request.long || !other.long)
                && !state.has_come(other.id)
        };
        let found = state.requests.iter().filter(fits);
        let found = found.map(|other| Overtaking { at_ms, by: request.id, request: other.id });
        let found: Vec<Overtaking> = found.collect();
        state.overtakings.extend(found);
    }

    /// Whoever was overtaken and is not seen anywhere even now was not on its way.
    pub(in crate::simulation) fn check_overtakings(&self) {
        let now = self.trace.now_ms();
        let mut state = self.lock();
        let due: Vec<Overtaking> =
            state.overtakings.extract_if(.., |noted| noted.at_ms + ON_ITS_WAY_MS < now).collect();
        for Overtaking { by, request, .. } in due.iter().filter(|noted| !state.has_come(noted.request)) {
            self.trace.violation(format_args!("request {request} waits and was overtaken by {by}"));
        }
    }
}

impl State {
    /// Whether it was seen at an engine, or has ended.
    fn has_come(&self, id: usize) -> bool {
        self.attempts.contains_key(&id) || self.ended_ms.contains_key(&id)
    }
}
