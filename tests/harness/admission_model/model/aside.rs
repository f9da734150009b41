//! The twin's providers that refuse connections. A trial under way is looked up among the leases.

use super::Model;
use iop_edge::admission::{AsideSnapshot, Generation, LeaseId, ProviderKey};
use std::time::Duration;

/// That a provider was not reached.
pub(super) struct Aside {
    until: Duration,
    failures: u32,
    due: bool,
    /// The last request that was let through when it was due. Its lease may be gone.
    trial: Option<LeaseId>,
}

impl Aside {
    pub(super) fn shown(&self) -> AsideSnapshot {
        AsideSnapshot { until: self.until, due: self.due, failures: self.failures }
    }
}

impl Model {
    /// Only what was granted since the last failure counts, and only if it is not set aside for a time already.
    pub(super) fn unreachable(
        &mut self,
        now: Duration,
        provider: &ProviderKey,
        generation: Generation,
        failures: u32,
    ) {
        if self.owner(&provider.node) != Some(generation) {
            return;
        }
        let Some(gate) = self.gates.iter_mut().find(|gate| gate.provider == *provider) else { return };
        let counts = match &gate.aside {
            None => failures == 0,
            Some(aside) => aside.due && aside.failures == failures,
        };
        if counts {
            let mut seconds = 1;
            for _ in 0..failures {
                seconds = 60.min(seconds * 2);
            }
            let until = now + Duration::from_secs(seconds);
            gate.aside = Some(Aside { until, failures: failures + 1, due: false, trial: None });
        }
    }

    pub(super) fn reached(&mut self, provider: &ProviderKey, generation: Generation) {
        if self.owner(&provider.node) == Some(generation) {
            for gate in self.gates.iter_mut().filter(|gate| gate.provider == *provider) {
                gate.aside = None;
            }
        }
    }

    pub(super) fn end_times_aside(&mut self, now: Duration) {
        for aside in self.gates.iter_mut().filter_map(|gate| gate.aside.as_mut()) {
            aside.due |= aside.until <= now;
        }
    }

    /// When each of those that are not due becomes so.
    pub(super) fn next_trials(&self) -> impl Iterator<Item = Duration> + '_ {
        let aside = self.gates.iter().filter_map(|gate| gate.aside.as_ref());
        aside.filter(|aside| !aside.due).map(|aside| aside.until)
    }

    /// Whether a request with these candidates leaves this one alone.
    pub(super) fn spares(&self, provider: &ProviderKey, candidates: &[ProviderKey]) -> bool {
        let is_well = |other: &ProviderKey| self.is_live(other) && self.gate(other).aside.is_none();
        let is_held = |aside: &Aside| !self.wants_trial(aside) && candidates.iter().any(is_well);
        self.gate(provider).aside.as_ref().is_some_and(is_held)
    }

    /// Notes the lease that is just given out, if it is a trial; gives back the failures before it.
    pub(super) fn begin_trial(&mut self, provider: &ProviderKey, lease: LeaseId) -> u32 {
        let is_trial = self.gate(provider).aside.as_ref().is_some_and(|aside| self.wants_trial(aside));
        let gate = self.gates.iter_mut().find(|gate| gate.provider == *provider);
        let Some(aside) = gate.and_then(|gate| gate.aside.as_mut()) else { return 0 };
        if is_trial {
            aside.trial = Some(lease);
        }
        aside.failures
    }

    fn wants_trial(&self, aside: &Aside) -> bool {
        aside.due && !aside.trial.is_some_and(|lease| self.holds(lease))
    }
}
