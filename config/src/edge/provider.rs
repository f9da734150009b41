//! Compiles nodes and their providers, and keeps the roster of them that models are checked against.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use super::adapter::adapter;
use super::{Node, Provider};
use crate::issue::NoValue;
use crate::names::{NodeId, ProviderId};
use crate::schema::{NODE_ITEM, PROVIDER};
use crate::section::{Section, all};

/// Providers of one node: what its edge pushes to it is one message.
const MAX_PROVIDERS: usize = 256;

/// The ids that the file declares, also of nodes and providers that have issues of their own: what refers to them is
/// not wrong for that.
#[derive(Debug, Default)]
pub(super) struct Roster {
    pub(super) nodes: BTreeMap<NodeId, Providers>,
    /// An id could not be read, so one that is missing may be that one.
    pub(super) incomplete: bool,
}

/// The providers that one node declares.
#[derive(Debug, Default)]
pub(super) struct Providers {
    /// With their long capacity, where that could be read.
    pub(super) long_capacity: BTreeMap<ProviderId, Option<u32>>,
    /// As in [`Roster`].
    pub(super) incomplete: bool,
}

pub(super) fn nodes(file: &Section<'_>) -> (Result<Vec<Node>, NoValue>, Roster) {
    let mut roster = Roster::default();
    let sections = match file.sections("nodes", &NODE_ITEM) {
        Ok(sections) => sections,
        Err(no) => return (Err(no), Roster { incomplete: true, ..roster }),
    };
    let mut seen = BTreeMap::new();
    let nodes = all(sections.into_iter().map(|section| {
        let section = section.inspect_err(|_| roster.incomplete = true)?;
        let id = section.read::<NodeId>("id");
        let (list, declared) = providers(&section);
        let Ok(id) = id else {
            roster.incomplete = true;
            return Err(NoValue);
        };
        let unique = section.once("id", &id, &mut seen);
        let known = roster.nodes.entry(id.clone()).or_default();
        known.long_capacity.extend(declared.long_capacity);
        known.incomplete |= declared.incomplete;
        unique?;
        Ok(Node { id, providers: list? })
    }));
    (nodes, roster)
}

fn providers(node: &Section<'_>) -> (Result<Vec<Provider>, NoValue>, Providers) {
    let mut declared = Providers::default();
    let sections = match node.sections("providers", &PROVIDER) {
        Ok(sections) => sections,
        Err(no) => return (Err(no), Providers { incomplete: true, ..declared }),
    };
    if sections.len() > MAX_PROVIDERS {
        let expected = format!("at most {MAX_PROVIDERS} of them");
        let no = node.issue("providers", format!("{} providers", sections.len()), expected);
        return (Err(no), Providers { incomplete: true, ..declared });
    }
    let mut seen = BTreeMap::new();
    let list = all(sections.into_iter().map(|section| {
        let section = section.inspect_err(|_| declared.incomplete = true)?;
        let id = section.read::<ProviderId>("id");
        let long_capacity = section.read("long_context_capacity");
        match &id {
            Ok(id) => {
                declared.long_capacity.insert(id.clone(), long_capacity.ok());
            }
            Err(_) => declared.incomplete = true,
        }
        let unique = id.and_then(|id| section.once("id", &id, &mut seen).map(|()| id));
        provider(&section, unique, long_capacity)
    }));
    (list, declared)
}

fn provider(
    section: &Section<'_>,
    id: Result<ProviderId, NoValue>,
    long_context_capacity: Result<u32, NoValue>,
) -> Result<Provider, NoValue> {
    let adapter = adapter(section);
    let capacity = section.read("capacity");
    let context_window_tokens = section.optional("context_window_tokens");
    let total_context_tokens = section.optional("total_context_tokens");
    let priority = section.read("priority");
    let enabled = section.read("enabled");
    let slots = long_slots_fit(section, capacity, long_context_capacity);
    let context = context_fits(section, long_context_capacity, context_window_tokens, total_context_tokens);
    slots.and(context)?;
    Ok(Provider {
        id: id?,
        adapter: adapter?,
        capacity: capacity?,
        long_context_capacity: long_context_capacity?,
        context_window_tokens: context_window_tokens?,
        total_context_tokens: total_context_tokens?,
        priority: priority?,
        enabled: enabled?,
    })
}

/// A long request takes a normal slot too, so long slots beyond the normal ones could never be used.
fn long_slots_fit(
    section: &Section<'_>,
    capacity: Result<NonZeroU32, NoValue>,
    long: Result<u32, NoValue>,
) -> Result<(), NoValue> {
    let (capacity, long) = (capacity?.get(), long?);
    if long <= capacity {
        return Ok(());
    }
    let expected = format!("at most `capacity`, {capacity}");
    Err(section.issue("long_context_capacity", format!("`{long}`"), expected))
}

/// A static check of the worst case, not a ledger: every long slot in use with a full window. [long-state]
fn context_fits(
    section: &Section<'_>,
    long: Result<u32, NoValue>,
    window: Result<Option<NonZeroU64>, NoValue>,
    total: Result<Option<NonZeroU64>, NoValue>,
) -> Result<(), NoValue> {
    let (long, window, Some(total)) = (u64::from(long?), window?, total?) else { return Ok(()) };
    let total = total.get();
    match window.map(NonZeroU64::get) {
        None if long > 0 => {
            let expected = format!(
                "the window, as `total_context_tokens` is {total} and `long_context_capacity` {long}"
            );
            Err(section.issue("context_window_tokens", "nothing", expected))
        }
        Some(window) if window * long > total => {
            let expected = format!(
                "at least {}: `context_window_tokens` {window} times `long_context_capacity` {long}",
                window * long
            );
            Err(section.issue("total_context_tokens", format!("`{total}`"), expected))
        }
        _ => Ok(()),
    }
}
