//! Turns bytes into settings: a small world of three nodes, four providers, four models and three API keys, of which
//! each byte string changes one thing or several.

use super::setup::{Setup, provider_key, slots};
use iop_edge::admission::{Api, Config, KeySpec, ModelSpec, ProviderKey, ProviderSpec};
use std::sync::Arc;
use std::time::Duration;

pub(super) const NODES: [&str; 3] = ["a", "b", "c"];
const PROVIDERS: [&str; 4] = ["a/1", "a/2", "b/1", "c/1"];
pub(super) const MODELS: [&str; 5] = ["m0", "m1", "m2", "m3", "never-configured"];
pub(super) const KEYS: [&str; 4] = ["k0", "k1", "k2", "unlimited"];

/// `choices[byte]`, going round.
pub(super) fn pick<T: Copy>(choices: &[T], byte: u8) -> T {
    choices[usize::from(byte) % choices.len()]
}

/// The settings that every run begins with: two models share each provider, one of them takes long requests.
pub(super) fn first_settings() -> Config {
    let both = ProviderSpec { long_capacity: 1, ..slots(2) };
    let setup = Setup::new()
        .max_queue(12)
        .timeout_sec(1)
        .provider("a/1", slots(1))
        .provider("a/2", both)
        .provider("b/1", both)
        .provider("c/1", slots(1));
    let setup = setup
        .model("m0", &["a/1"])
        .model("m1", &["a/1", "a/2"])
        .model("m2", &["a/2", "b/1"])
        .model("m3", &["b/1", "c/1", "a/1"]);
    setup.threshold("m1", 50).threshold("m2", 50).key("k0", Some(1), None).key("k1", Some(2), Some(3)).0
}

/// Changes what the bytes say. Nothing here keeps settings sensible: the machine has to stand all of them.
pub(super) fn change(config: &mut Config, [what, which, value]: [u8; 3]) {
    let provider = provider_key(pick(&PROVIDERS, which));
    match what % 16 {
        0 | 1 => edit(config, provider, |spec| spec.capacity = u32::from(value % 4)),
        2 => edit(config, provider, |spec| spec.long_capacity = u32::from(value % 3)),
        3 => edit(config, provider, |spec| spec.enabled = !spec.enabled),
        4 => edit(config, provider, |spec| spec.priority = i32::from(value % 3) - 1),
        5 => edit(config, provider, |spec| spec.window = pick(&[None, Some(200), Some(2000)], value)),
        6 => edit(config, provider, |spec| spec.apis = Api(1 + value % 3)),
        7 => take_out_or_put_back(config, provider, value),
        8 | 9 => set_candidates(config, pick(&MODELS[..4], which), value),
        10 => set_threshold(config, pick(&MODELS[..4], which), pick(&[None, Some(50), Some(500)], value)),
        11 => config.policy.max_queue = pick(&[12, 0, 1, 4], value),
        12 => config.policy.queue_timeout = Duration::from_millis(pick(&[1000, 0, 100, 5000], value)),
        13 => config.policy.max_attempts = pick(&[2, 3, 1, 4], value),
        14 => {
            let limit = |bits: u8| (bits != 0).then_some(u32::from(bits));
            let limits = KeySpec { max_in_flight: limit(value % 3), max_queued: limit(value / 3 % 4) };
            config.keys.insert(pick(&KEYS, which).into(), limits);
        }
        _ => {
            config.keys.remove(pick(&KEYS, which));
        }
    }
}

fn edit(config: &mut Config, provider: ProviderKey, edit: impl FnOnce(&mut ProviderSpec)) {
    if let Some(spec) = config.providers.get_mut(&provider) {
        edit(spec);
    }
}

fn take_out_or_put_back(config: &mut Config, provider: ProviderKey, value: u8) {
    if config.providers.remove(&provider).is_none() {
        config.providers.insert(provider, slots(1 + u32::from(value % 2)));
    }
}

/// Each low bit of `mask` names a provider; without any the model is taken out. Candidates that are not configured stay.
fn set_candidates(config: &mut Config, model: &str, mask: u8) {
    let named = PROVIDERS.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
    let candidates: Vec<ProviderKey> = named.map(|(_, name)| provider_key(name)).collect();
    let long_threshold = config.models.get(model).and_then(|spec| spec.long_threshold);
    if candidates.is_empty() {
        config.models.remove(model);
    } else {
        config.models.insert(Arc::from(model), ModelSpec { long_threshold, candidates });
    }
}

fn set_threshold(config: &mut Config, model: &str, threshold: Option<u32>) {
    if let Some(spec) = config.models.get_mut(model) {
        spec.long_threshold = threshold;
    }
}
