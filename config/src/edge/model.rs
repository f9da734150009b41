//! Compiles models and holds their candidates against the roster of nodes and providers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU64;

use super::provider::{Providers, Roster};
use super::{Candidate, Model};
use crate::issue::NoValue;
use crate::names::{ModelId, NodeId, ProviderId};
use crate::schema::{CANDIDATE, MODEL};
use crate::section::{Section, all};

/// Ids listed where one of them was expected.
const MAX_LISTED: usize = 8;

pub(super) fn models(file: &Section<'_>, roster: &Roster) -> Result<Vec<Model>, NoValue> {
    let mut seen = BTreeMap::new();
    let sections = file.sections("models", &MODEL)?;
    all(sections.into_iter().map(|section| model(&section?, roster, &mut seen)))
}

fn model(
    section: &Section<'_>,
    roster: &Roster,
    seen: &mut BTreeMap<ModelId, u32>,
) -> Result<Model, NoValue> {
    let id = section.read::<ModelId>("id");
    let id = id.and_then(|id| section.once("id", &id, seen).map(|()| id));
    let threshold = section.optional::<NonZeroU64>("long_context_threshold_tokens");
    let candidates = candidates(section, roster);
    let context_length = section.optional("context_length");
    let owned_by = section.optional("owned_by");
    let (threshold, candidates) = (threshold?, candidates?);
    if let Some(threshold) = threshold {
        long_requests_can_run(section, threshold, &candidates, roster)?;
    }
    Ok(Model {
        id: id?,
        long_context_threshold_tokens: threshold,
        candidates,
        context_length: context_length?,
        owned_by: owned_by?,
    })
}

fn candidates(section: &Section<'_>, roster: &Roster) -> Result<Vec<Candidate>, NoValue> {
    let sections = section.sections("candidates", &CANDIDATE)?;
    if sections.is_empty() {
        let found = if section.is_written("candidates") { "an empty list" } else { "nothing" };
        return Err(section.issue("candidates", found, "at least one candidate"));
    }
    let mut seen = BTreeMap::new();
    all(sections.into_iter().map(|section| {
        let section = section?;
        let node = section.read::<NodeId>("node");
        let provider = section.read::<ProviderId>("provider");
        let upstream_model = section.optional("upstream_model");
        let (node, provider) = (node?, provider?);
        is_declared(&section, &node, &provider, roster)?;
        let candidate = format!("{node}/{provider}");
        section.once("provider", &candidate, &mut seen)?;
        Ok(Candidate { node, provider, upstream_model: upstream_model? })
    }))
}

fn is_declared(
    section: &Section<'_>,
    node: &NodeId,
    provider: &ProviderId,
    roster: &Roster,
) -> Result<(), NoValue> {
    let Some(providers) = roster.nodes.get(node) else {
        if roster.incomplete {
            return Err(NoValue);
        }
        let expected = format!("the id of a node in this file: {}", listed(roster.nodes.keys()));
        return Err(section.issue("node", format!("`{node}`"), expected));
    };
    if providers.long_capacity.contains_key(provider) {
        return Ok(());
    }
    if providers.incomplete {
        return Err(NoValue);
    }
    let expected = format!("the id of a provider of `{node}`: {}", listed(providers.long_capacity.keys()));
    Err(section.issue("provider", format!("`{provider}`"), expected))
}

/// A threshold makes requests long, and a long request needs a long slot: without one anywhere it could never run.
fn long_requests_can_run(
    section: &Section<'_>,
    threshold: NonZeroU64,
    candidates: &[Candidate],
    roster: &Roster,
) -> Result<(), NoValue> {
    let has_none = |candidate: &Candidate| {
        let providers: Option<&Providers> = roster.nodes.get(&candidate.node);
        providers.and_then(|providers| providers.long_capacity.get(&candidate.provider)) == Some(&Some(0))
    };
    if !candidates.iter().all(has_none) {
        return Ok(());
    }
    let expected =
        "no threshold while every candidate's `long_context_capacity` is 0: no long request could run";
    Err(section.issue("long_context_threshold_tokens", format!("`{threshold}`"), expected))
}

fn listed<T: Display>(ids: impl ExactSizeIterator<Item = T>) -> String {
    let count = ids.len();
    let mut list: Vec<_> = ids.take(MAX_LISTED).map(|id| format!("`{id}`")).collect();
    match count {
        0 => return "there is none".to_owned(),
        1..=MAX_LISTED => {}
        _ => list.push(format!("and {} more", count - MAX_LISTED)),
    }
    list.join(", ")
}
