//! The snapshot of operations: configuration, connections and admission in one JSON value. Field names are part of
//! `CONTRACT-admin.md`.

use super::Admin;
use crate::admission::{AsideSnapshot, ProviderKey, ProviderSnapshot};
use crate::certificates::OwnState;
use crate::refresh::ConfigState;
use crate::registry::{Refusals, Registered};
use crate::revocation::RevocationState;
use iop_config::{EdgeConfig, Model, Node, Provider};
use iop_transport::peer;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// The whole snapshot.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    revision: u64,
    queue: Queue,
    leases: Leases,
    nodes: Vec<NodeView>,
    models: Vec<ModelView>,
    config: ConfigState,
    certificate: OwnState,
    revocations: RevocationState,
}

#[derive(Debug, Serialize)]
struct Queue {
    length: usize,
    max: u32,
    timeout_ms: u64,
    oldest_wait_ms: u64,
}

#[derive(Debug, Serialize)]
struct Leases {
    active: u64,
    acquired_total: u64,
    released_total: u64,
    fenced_total: u64,
}

#[derive(Debug, Serialize)]
struct NodeView {
    id: String,
    connected: bool,
    status: &'static str,
    health: &'static str,
    generation: Option<u64>,
    address: Option<String>,
    /// Seconds since 1970.
    since: Option<u64>,
    rtt_ms: Option<f64>,
    software: Option<String>,
    providers: Vec<ProviderView>,
}

#[derive(Debug, Serialize)]
struct ProviderView {
    id: String,
    adapter: String,
    enabled: bool,
    status: &'static str,
    health: &'static str,
    /// The words of the node that refuses it.
    reason: Option<String>,
    capacity: u32,
    effective_capacity: u32,
    in_flight: u32,
    long_context_capacity: u32,
    long_in_flight: u32,
    queued: usize,
    long_queued: usize,
    /// Time left until its server is tried again.
    aside_ms: Option<u64>,
    failures: u32,
    priority: i32,
}

#[derive(Debug, Serialize)]
struct ModelView {
    id: String,
    available: bool,
    candidates: Vec<CandidateView>,
}

#[derive(Debug, Serialize)]
struct CandidateView {
    node: String,
    provider: String,
    upstream_model: String,
}

type Providers = BTreeMap<ProviderKey, ProviderSnapshot>;

/// Takes the snapshot. Admission's part is of one moment; connections are read right after it.
pub(super) fn take(admin: &Admin) -> Snapshot {
    let settings = admin.live.get();
    let (admission, now) = admin.desk.snapshot();
    let oldest_wait = admission.queue.oldest_arrived.map(|arrived| now.saturating_sub(arrived));
    let (registered, refusals) = (admin.registry.all(), admin.registry.refusals());
    let providers: Providers =
        admission.providers.into_iter().map(|provider| (provider.key.clone(), provider)).collect();
    let EdgeConfig { nodes, models, .. } = &settings.config;
    Snapshot {
        revision: admission.revision,
        queue: Queue {
            length: admission.queue.length,
            max: admission.queue.max,
            timeout_ms: millis(admission.queue.timeout),
            oldest_wait_ms: millis(oldest_wait.unwrap_or_default()),
        },
        leases: Leases {
            active: admission.leases.active,
            acquired_total: admission.leases.acquired_total,
            released_total: admission.leases.released_total,
            fenced_total: admission.leases.fenced_total,
        },
        nodes: nodes
            .iter()
            .map(|node| {
                let id = node.id.as_str();
                node_view(node, registered.get(id), (&providers, now), refusals.get(id))
            })
            .collect(),
        models: models.iter().map(|model| model_view(model, &providers)).collect(),
        config: admin.refresher.state(),
        certificate: admin.own.state(),
        revocations: admin.revoked.state(),
    }
}

fn node_view(
    node: &Node,
    registered: Option<&Registered>,
    (providers, now): (&Providers, Duration),
    refusals: Option<&Refusals>,
) -> NodeView {
    let (status, health) =
        if registered.is_some() { ("available", "online") } else { ("unavailable", "offline") };
    let view = |provider: &Provider| {
        let key = ProviderKey { node: node.id.as_str().into(), provider: provider.id.as_str().into() };
        let reason = refusals.and_then(|refusals| refusals.get(&key.provider));
        provider_view(provider, (providers.get(&key), now), reason)
    };
    NodeView {
        id: node.id.to_string(),
        connected: registered.is_some(),
        status,
        health,
        generation: registered.map(|registered| registered.generation.0),
        address: registered.map(|registered| peer::address(&registered.connection).to_string()),
        since: registered
            .map(|registered| registered.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()),
        rtt_ms: registered.map(|registered| registered.connection.rtt().as_secs_f64() * 1000.0),
        software: registered.map(|registered| registered.software.clone()),
        providers: node.providers.iter().map(view).collect(),
    }
}

fn provider_view(
    provider: &Provider,
    (state, now): (Option<&ProviderSnapshot>, Duration),
    refusal: Option<&String>,
) -> ProviderView {
    let aside = state.and_then(|state| state.aside);
    let (status, health) = match state {
        Some(state) if !state.connected => ("unavailable", "offline"),
        Some(state) if state.refused => ("unavailable", "refused"),
        Some(state) if !state.enabled => ("disabled", "online"),
        // It still gets the requests that have nobody else, and the trial that brings it back.
        Some(_) if aside.is_some() => ("available", "unreachable"),
        Some(_) => ("available", "online"),
        None => ("unavailable", "offline"),
    };
    ProviderView {
        id: provider.id.to_string(),
        adapter: provider.adapter.to_string(),
        enabled: provider.enabled,
        status,
        health,
        reason: refusal.filter(|_| health == "refused").cloned(),
        capacity: provider.capacity.get(),
        effective_capacity: state.map_or(0, |state| state.effective_capacity),
        in_flight: state.map_or(0, |state| state.in_flight),
        long_context_capacity: provider.long_context_capacity,
        long_in_flight: state.map_or(0, |state| state.long_in_flight),
        queued: state.map_or(0, |state| state.queued),
        long_queued: state.map_or(0, |state| state.long_queued),
        aside_ms: aside.map(|aside| aside_ms(&aside, now)),
        failures: aside.map_or(0, |aside| aside.failures),
        priority: provider.priority,
    }
}

/// 0 says that the next request may try it, so what is left before that is at least 1.
fn aside_ms(aside: &AsideSnapshot, now: Duration) -> u64 {
    if aside.due { 0 } else { millis(aside.until.saturating_sub(now)).max(1) }
}

fn model_view(model: &Model, providers: &Providers) -> ModelView {
    let key = |candidate: &iop_config::Candidate| ProviderKey {
        node: candidate.node.as_str().into(),
        provider: candidate.provider.as_str().into(),
    };
    let live = |candidate| providers.get(&key(candidate)).is_some_and(|provider| provider.live);
    ModelView {
        id: model.id.to_string(),
        available: model.candidates.iter().any(live),
        candidates: model
            .candidates
            .iter()
            .map(|candidate| CandidateView {
                node: candidate.node.to_string(),
                provider: candidate.provider.to_string(),
                upstream_model: candidate.upstream_model.as_ref().unwrap_or(&model.id).to_string(),
            })
            .collect(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
