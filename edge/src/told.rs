//! What a node is told of its providers: the configuration, but never less than the leases that are out may need. A run
//! that was granted earlier can reach the node after a message that was sent later, and must find its place there.

use iop_transport::wire::ProviderSettings;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The settings to be sent. `told` are those sent last, `in_flight` the leases held, by provider, read after `configured`:
/// admission has the configuration already, so of what is over it none is granted any more.
///
/// A capacity below its leases is told as their number, a provider taken out with leases left is told as before. When the
/// last of them has returned, admission says so ([`crate::admission::Effect::TellNode`]).
pub(crate) fn settings(
    configured: Vec<ProviderSettings>,
    told: &BTreeMap<Arc<str>, ProviderSettings>,
    in_flight: &BTreeMap<Arc<str>, u32>,
) -> Vec<ProviderSettings> {
    let held = |id: &str| in_flight.get(id).copied().unwrap_or(0);
    let is_configured = |id: &str| configured.iter().any(|settings| settings.id == id);
    let taken_out: Vec<ProviderSettings> = told
        .iter()
        .filter(|(id, _)| held(id) > 0 && !is_configured(id))
        .map(|(id, settings)| ProviderSettings { capacity: held(id), ..settings.clone() })
        .collect();
    let kept = configured.into_iter().map(|settings| {
        let capacity = settings.capacity.max(held(&settings.id));
        ProviderSettings { capacity, ..settings }
    });
    kept.chain(taken_out).collect()
}

#[cfg(test)]
mod tests {
    use super::settings;
    use iop_transport::wire::{Adapter, ProviderSettings};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn provider(id: &str, capacity: u32) -> ProviderSettings {
        ProviderSettings {
            id: id.into(),
            adapter: Adapter::OpenAi { endpoint: format!("http://127.0.0.1/{id}") },
            capacity,
            api_key_env: None,
            headers: Vec::new(),
            connect_timeout_ms: 1,
            first_byte_timeout_ms: 2,
            idle_timeout_ms: 3,
        }
    }

    fn told(providers: &[ProviderSettings]) -> BTreeMap<Arc<str>, ProviderSettings> {
        providers.iter().map(|settings| (settings.id.as_str().into(), settings.clone())).collect()
    }

    fn held(leases: &[(&str, u32)]) -> BTreeMap<Arc<str>, u32> {
        leases.iter().map(|(id, leases)| ((*id).into(), *leases)).collect()
    }

    #[test]
    fn what_its_leases_fit_into_is_told_as_it_is_configured() {
        let configured = vec![provider("raised", 4), provider("lowered", 2), provider("new", 1)];
        let before = told(&[provider("raised", 1), provider("lowered", 4)]);
        let leases = held(&[("raised", 1), ("lowered", 2)]);
        assert_eq!(settings(configured.clone(), &before, &leases), configured);
    }

    #[test]
    fn a_capacity_below_its_leases_is_told_as_their_number_and_everything_else_as_configured() {
        let moved = Adapter::OpenAi { endpoint: "http://127.0.0.1/elsewhere".into() };
        let configured = ProviderSettings { adapter: moved, ..provider("a", 1) };
        let expected = ProviderSettings { capacity: 3, ..configured.clone() };
        let before = told(&[provider("a", 4)]);
        assert_eq!(settings(vec![configured], &before, &held(&[("a", 3)])), [expected]);
    }

    #[test]
    fn a_provider_taken_out_stays_for_its_leases_and_goes_with_the_last() {
        let before = told(&[provider("out", 4), provider("idle", 4)]);
        let configured = vec![provider("stays", 1)];
        let leases = held(&[("out", 2), ("idle", 0), ("stays", 0)]);
        let expected = [provider("stays", 1), provider("out", 2)];
        assert_eq!(settings(configured.clone(), &before, &leases), expected);
        assert_eq!(settings(configured.clone(), &before, &held(&[("out", 0)])), configured);
    }

    #[test]
    fn leases_of_a_provider_that_this_connection_was_never_told_of_keep_nothing() {
        assert_eq!(settings(Vec::new(), &told(&[]), &held(&[("out", 2)])), []);
    }
}
