//! Models and their candidates. A model owns no capacity; it says who could run a request of it.

use super::command::{Api, Context, ModelSpec, Refusal, Request};
use super::providers::{ProviderIndex, Providers};
use super::queue::SetId;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Model {
    pub spec: ModelSpec,
    /// Largest window first; an unknown window counts as the largest.
    candidates: Vec<(u32, ProviderIndex)>,
    /// Sets already made, by number of candidates whose window fits, API, and long or normal.
    sets: Vec<((usize, Api, bool), SetId)>,
}

impl Model {
    pub(super) fn new(spec: ModelSpec, providers: &Providers) -> Self {
        let mut candidates: Vec<_> = spec
            .candidates
            .iter()
            .filter_map(|key| providers.by_key.get(key))
            .filter(|index| !providers.get(**index).removed)
            .map(|index| (providers.get(*index).spec.window.unwrap_or(u32::MAX), *index))
            .collect();
        candidates.sort_by_key(|(window, index)| (std::cmp::Reverse(*window), *index));
        Self { spec, candidates, sets: Vec::new() }
    }

    /// The set of candidates that could ever run the request, made by `intern` where it is new.
    pub(super) fn fitting(
        &mut self,
        request: &Request,
        providers: &Providers,
        intern: impl FnOnce(Vec<ProviderIndex>) -> SetId,
    ) -> Result<Fitting, Refusal> {
        let long = self.needs_long(request, providers);
        let count = self.candidates.partition_point(|(window, _)| *window >= request.tokens);
        let shape = (count, request.api, long);
        if let Some((_, set)) = self.sets.iter().find(|(known, _)| *known == shape) {
            return Ok(Fitting { set: *set, long });
        }
        let able = |index: &ProviderIndex| {
            let spec = &providers.get(*index).spec;
            spec.apis.0 & request.api.0 != 0 && (!long || spec.long_capacity > 0)
        };
        let able: Vec<(u32, ProviderIndex)> =
            self.candidates.iter().filter(|(_, index)| able(index)).copied().collect();
        let Some((window, _)) = able.first() else { return Err(Refusal::ApiNotServed) };
        if *window < request.tokens {
            return Err(Refusal::ContextLengthExceeded { tokens: request.tokens, window: *window });
        }
        let fits = able.into_iter().take_while(|(window, _)| *window >= request.tokens);
        let mut members: Vec<ProviderIndex> = fits.map(|(_, index)| index).collect();
        members.sort();
        let set = intern(members);
        self.sets.push((shape, set));
        Ok(Fitting { set, long })
    }

    /// Whether it takes a long slot. Where no candidate that speaks its API has any, there is nothing to protect.
    fn needs_long(&self, request: &Request, providers: &Providers) -> bool {
        let wanted = match request.context {
            Context::Long => true,
            Context::Normal => false,
            Context::Estimated => {
                self.spec.long_threshold.is_some_and(|threshold| request.tokens > threshold)
            }
        };
        let offers = |index: &ProviderIndex| {
            let spec = &providers.get(*index).spec;
            spec.apis.0 & request.api.0 != 0 && spec.long_capacity > 0
        };
        wanted && self.candidates.iter().any(|(_, index)| offers(index))
    }
}

/// Who can run a request, and on which kind of slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fitting {
    pub set: SetId,
    pub long: bool,
}

/// Models by external key.
pub(super) type Models = BTreeMap<Arc<str>, Model>;
