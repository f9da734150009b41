//! How many tokens a prompt has, before anybody has counted them: the scan's estimate, corrected per model by what
//! providers report afterwards. It decides nothing; admission compares the number with thresholds and windows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Shorter prompts teach nothing: the chat template's own tokens outweigh theirs.
const LEAST_OBSERVED: u32 = 256;

/// Tokens of imagined prompts whose estimate was right: one odd report does not turn everything.
const PRIOR: f64 = 2048.0;

/// Observed tokens after which old observations begin to count less.
const MEMORY: f64 = 200_000.0;

/// Furthest correction. Beyond it something else is wrong, such as images that were counted.
const FURTHEST: f64 = 4.0;

/// What is known of one model's tokenizer: sums over prompts, old ones fading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Observed {
    estimated: f64,
    reported: f64,
}

impl Observed {
    fn add(&mut self, estimated: u32, reported: u64) {
        if estimated < LEAST_OBSERVED {
            return;
        }
        self.estimated += f64::from(estimated);
        self.reported += reported as f64;
        if self.estimated > MEMORY {
            self.estimated /= 2.0;
            self.reported /= 2.0;
        }
    }

    fn factor(&self) -> f64 {
        ((self.reported + PRIOR) / (self.estimated + PRIOR)).clamp(1.0 / FURTHEST, FURTHEST)
    }
}

/// The corrections of every model. Cheap to clone; every clone is the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Estimator {
    models: Arc<Mutex<BTreeMap<Arc<str>, Observed>>>,
}

impl Estimator {
    /// The estimate for this model.
    pub(crate) fn correct(&self, model: &str, estimated: u32) -> u32 {
        let factor = self.lock().get(model).map_or(1.0, Observed::factor);
        // Saturates: a float beyond the range becomes the largest number.
        (f64::from(estimated) * factor).round() as u32
    }

    /// A provider has counted a prompt whose uncorrected estimate was this. Only for models that exist: the table has one
    /// row for each.
    pub(crate) fn observe(&self, model: &Arc<str>, estimated: u32, reported: u64) {
        self.lock().entry(model.clone()).or_default().add(estimated, reported);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Observed>> {
        self.models.lock().expect("no code panics while it holds the observations")
    }
}

/// Reports the usage of one request, once its run has ended well.
#[derive(Debug, Clone)]
pub(crate) struct UsageReport {
    pub(crate) estimator: Estimator,
    pub(crate) model: Arc<str>,
    /// The uncorrected estimate.
    pub(crate) estimated: u32,
}

impl UsageReport {
    /// The provider counted this many prompt tokens.
    pub(crate) fn prompt_tokens(&self, reported: u64) {
        self.estimator.observe(&self.model, self.estimated, reported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_of_a_model_move_to_what_its_provider_counts_and_no_other_model_is_touched() {
        let estimator = Estimator::default();
        let model: Arc<str> = "dense".into();
        assert_eq!(estimator.correct("dense", 10_000), 10_000);
        for _ in 0..50 {
            estimator.observe(&model, 10_000, 15_000);
        }
        let corrected = estimator.correct("dense", 10_000);
        assert!((14_500..=15_000).contains(&corrected), "{corrected}");
        assert_eq!(estimator.correct("other", 10_000), 10_000);
    }

    #[test]
    fn a_model_that_is_replaced_behind_its_name_is_learned_anew() {
        let estimator = Estimator::default();
        let model: Arc<str> = "m".into();
        (0..100).for_each(|_| estimator.observe(&model, 10_000, 20_000));
        (0..100).for_each(|_| estimator.observe(&model, 10_000, 10_000));
        let corrected = estimator.correct("m", 10_000);
        assert!((10_000..=10_500).contains(&corrected), "{corrected}");
    }

    #[test]
    fn short_prompts_and_absurd_reports_do_not_carry_an_estimate_away() {
        let estimator = Estimator::default();
        let model: Arc<str> = "m".into();
        (0..1000).for_each(|_| estimator.observe(&model, 2, 40));
        assert_eq!(estimator.correct("m", 10_000), 10_000);
        (0..1000).for_each(|_| estimator.observe(&model, 1_000, u64::MAX));
        assert_eq!(estimator.correct("m", 10_000), 40_000);
        assert_eq!(estimator.correct("m", u32::MAX), u32::MAX);
    }
}
