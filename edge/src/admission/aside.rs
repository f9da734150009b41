//! Providers set aside: one that refuses connections gets no traffic for a short time that grows, then one trial request.
//! It stays a candidate: a request that has no other is tried there, and fails fast, rather than wait for nobody.

use super::command::{Effect, Generation, LeaseId, ProviderKey};
use super::machine::{Freed, Machine};
use super::providers::ProviderIndex;
use super::queue::ClassKey;
use std::cell::OnceCell;
use std::time::Duration;

/// How long after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);

/// Longest time: a server that was started again waits no longer than this for its trial.
const LONGEST: Duration = Duration::from_secs(60);

/// That a provider could not be reached when it was last tried.
#[derive(Debug, Clone)]
pub(super) struct Aside {
    /// When it may be tried again.
    pub until: Duration,
    /// How often in a row.
    pub failures: u32,
    /// That moment has come: one request at a time may be the trial.
    pub due: bool,
    /// The lease of the trial under way.
    pub trial: Option<LeaseId>,
}

impl Aside {
    fn new(now: Duration, failures: u32) -> Self {
        let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
        let until = now.saturating_add(FIRST.saturating_mul(factor).min(LONGEST));
        Self { until, failures, due: false, trial: None }
    }

    /// Whether a request may be the trial now.
    pub(super) fn wants_trial(&self) -> bool {
        self.due && self.trial.is_none()
    }
}

impl Machine {
    /// A granted request found nobody listening. `failures` is what was known when it was granted.
    pub(super) fn unreachable(
        &mut self,
        now: Duration,
        provider: &ProviderKey,
        generation: Generation,
        failures: u32,
        effects: &mut Vec<Effect>,
    ) {
        let Some(provider) = self.of_generation(provider, generation) else { return };
        let slots = self.providers.get(provider);
        // Of requests that were on their way together, the first to fail tells all there is to know. So does it of those
        // that are tried meanwhile because they have no other provider: the time is to grow with the outage, not with
        // the traffic.
        let is_known = slots.failures() != failures || slots.aside.as_deref().is_some_and(|aside| !aside.due);
        if is_known {
            return;
        }
        let aside = Aside::new(now, failures.saturating_add(1));
        self.providers.update(provider, |slots| slots.aside = Some(Box::new(aside)));
        let mut freed = Freed::default();
        self.free_those_aside(&mut freed);
        self.hand_out(&freed, effects);
    }

    /// The server of a provider that was set aside has answered.
    pub(super) fn reached(
        &mut self,
        provider: &ProviderKey,
        generation: Generation,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(provider) = self.of_generation(provider, generation) {
            self.providers.update(provider, |slots| slots.aside = None);
            self.hand_out(&Freed::of(provider), effects);
        }
    }

    /// Those whose time is over become due.
    pub(super) fn end_times_aside(&mut self, now: Duration) -> Freed {
        let mut freed = Freed::default();
        let over = |provider: &ProviderIndex| {
            let aside = self.providers.get(*provider).aside.as_deref();
            aside.is_some_and(|aside| !aside.due && aside.until <= now)
        };
        freed.providers.extend(self.providers.aside().filter(over));
        for provider in &freed.providers {
            self.providers.update(*provider, |slots| {
                if let Some(aside) = &mut slots.aside {
                    aside.due = true;
                }
            });
        }
        freed
    }

    /// When the first of them becomes due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let aside =
            self.providers.aside().filter_map(|provider| self.providers.get(provider).aside.as_deref());
        aside.filter(|aside| !aside.due).map(|aside| aside.until).min()
    }

    /// A lease has come back. If it was a trial without a verdict, another may follow.
    pub(super) fn end_trial(&mut self, provider: ProviderIndex, lease: LeaseId) {
        let is_trial = |aside: &Aside| aside.trial == Some(lease);
        if self.providers.get(provider).aside.as_deref().is_some_and(is_trial) {
            self.providers.update(provider, |slots| {
                if let Some(aside) = &mut slots.aside {
                    aside.trial = None;
                }
            });
        }
    }

    /// Another provider was set aside or is not live any more: whoever has nobody left but those set aside may ask them.
    pub(super) fn free_those_aside(&self, freed: &mut Freed) {
        freed.providers.extend(self.providers.aside());
    }

    /// Whether requests of the class leave this member of its set alone: it is set aside, and somebody else is there.
    /// `others` remembers the latter, so that it is found out at most once for many members.
    pub(super) fn spares(&self, class: &ClassKey, provider: ProviderIndex, others: &OnceCell<bool>) -> bool {
        let is_well = |index: &ProviderIndex| {
            let slots = self.providers.get(*index);
            slots.live() && slots.aside.is_none() && !class.excluded.contains(index)
        };
        let aside = self.providers.get(provider).aside.as_deref();
        aside.is_some_and(|aside| !aside.wants_trial())
            && *others.get_or_init(|| self.queue.members(class.set).iter().any(is_well))
    }

    /// The provider, if it is still under the generation of the run.
    fn of_generation(&self, key: &ProviderKey, generation: Generation) -> Option<ProviderIndex> {
        let provider = self.providers.by_key.get(key).copied()?;
        let slots = self.providers.get(provider);
        (slots.online == Some(generation) && !slots.removed).then_some(provider)
    }
}
