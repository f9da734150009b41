//! A snapshot as a page of text, 80 columns wide: first what holds for all, then each node with its providers, then the
//! models that nobody serves. Pure: the time comes in, the text goes out.

mod nodes;
mod page;
#[cfg(test)]
mod tests;

use super::snapshot::{Certificate, Config, Leases, Model, Node, Queue, Revocations, Snapshot, state};
use super::text::{Text, duration};
use iop_certs::Utc;
use page::Page;
use std::collections::BTreeMap;
use time::OffsetDateTime;

/// Where the values of the first part begin.
const SUMMARY_INDENT: usize = 9;

/// Most lines of an error. Where the configuration has more, `iop config check` prints all of them.
const MAX_ERROR_LINES: usize = 8;

/// The whole page. `now` is in seconds since 1970.
pub(super) fn page(snapshot: &Snapshot, admin: &str, now: u64) -> String {
    let Snapshot { queue, leases, nodes, models, config, certificate, revocations } = snapshot;
    let mut page = Page::default();
    let mut summary = |label: &str, value: &str| page.entry(label, SUMMARY_INDENT, value);
    summary("edge", &format!("{admin}{}", at(now)));
    summary("queue", &queue_line(queue));
    summary("leases", &leases_line(leases));
    let available = models.iter().filter(|model| model.available).count();
    summary("models", &format!("{available} of {} available", models.len()));
    let connected = nodes.iter().filter(|node| node.connected).count();
    summary("nodes", &format!("{connected} of {} connected", nodes.len()));
    config_lines(&mut page, config);
    certificate_lines(&mut page, certificate);
    revocation_lines(&mut page, revocations);
    nodes::table(&mut page, nodes, now);
    unavailable_models(&mut page, models, nodes);
    page.into_text()
}

/// A message of any length as a page of its own.
pub(super) fn message(text: &str) -> String {
    let mut page = Page::default();
    page.entry("", 0, text);
    page.into_text()
}

/// The date and time of day, as logs have it.
fn at(now: u64) -> String {
    let now = i64::try_from(now).ok().and_then(|now| OffsetDateTime::from_unix_timestamp(now).ok());
    let Some(now) = now else { return String::new() };
    let (hour, minute, second) = now.to_hms();
    format!(", {} {hour:02}:{minute:02}:{second:02} UTC", now.date())
}

fn queue_line(queue: &Queue) -> String {
    let mut line = format!("{} of {} waiting", queue.length, queue.max);
    if queue.length > 0 {
        line += &format!(
            ", the oldest for {} (at most {})",
            duration(queue.oldest_wait_ms),
            duration(queue.timeout_ms)
        );
    }
    line
}

fn leases_line(leases: &Leases) -> String {
    let Leases { active, acquired_total, released_total, fenced_total } = leases;
    format!(
        "{active} active; since the start {acquired_total} acquired, {released_total} released, {fenced_total} fenced"
    )
}

fn config_lines(page: &mut Page, config: &Config) {
    let Config { revision, source, last_error } = config;
    let from = if source.as_str().is_empty() { String::new() } else { format!(", {source}") };
    page.entry("config", SUMMARY_INDENT, &format!("revision {revision}{from}"));
    not_in_force(page, "file", last_error, source.as_str());
}

/// Nothing, unless something is wrong with it.
fn certificate_lines(page: &mut Page, certificate: &Certificate) {
    let Certificate { serial, not_after, last_error, renewal_error } = certificate;
    if last_error.is_empty() && renewal_error.is_empty() {
        return;
    }
    page.entry("cert", SUMMARY_INDENT, &format!("good until {}, serial number {serial}", Utc(*not_after)));
    not_in_force(page, "certificate", last_error, "");
    if !renewal_error.is_empty() {
        page.entry("", SUMMARY_INDENT, "it is NOT RENEWED:");
        error_lines(page, renewal_error, "");
    }
}

fn revocation_lines(page: &mut Page, Revocations { nodes, serials, last_error }: &Revocations) {
    if *nodes > 0 || *serials > 0 || !last_error.is_empty() {
        page.entry(
            "revoked",
            SUMMARY_INDENT,
            &format!("{}, {}", counted(*nodes, "node"), counted(*serials, "single certificate")),
        );
        not_in_force(page, "list", last_error, "");
    }
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Why something is not in force as it is now; nothing if it is. Lines of the error may begin with the name of its `source`.
fn not_in_force(page: &mut Page, what: &str, error: &[Text], source: &str) {
    if error.is_empty() {
        return;
    }
    page.entry("", SUMMARY_INDENT, &format!("the {what} as it is now is NOT IN FORCE:"));
    error_lines(page, error, source);
}

fn error_lines(page: &mut Page, error: &[Text], source: &str) {
    for line in error.iter().take(MAX_ERROR_LINES) {
        // It stands above.
        let rest = line.as_str().strip_prefix(source).and_then(|rest| rest.strip_prefix(':'));
        page.entry("", SUMMARY_INDENT, rest.unwrap_or(line.as_str()).trim());
    }
    if let Some(more) = error.len().checked_sub(MAX_ERROR_LINES).filter(|more| *more > 0) {
        page.entry("", SUMMARY_INDENT, &format!("and {more} more"));
    }
}

fn unavailable_models(page: &mut Page, models: &[Model], nodes: &[Node]) {
    let unavailable: Vec<&Model> = models.iter().filter(|model| !model.available).collect();
    if unavailable.is_empty() {
        return;
    }
    let states: BTreeMap<(&str, &str), &str> = nodes
        .iter()
        .flat_map(|node| {
            node.providers.iter().map(|provider| {
                ((node.id.as_str(), provider.id.as_str()), state(&provider.status, &provider.health))
            })
        })
        .collect();
    let indent = page::indent(unavailable.iter().map(|model| &model.id));
    page.blank();
    page.entry("MODELS NOT AVAILABLE", indent, "");
    for Model { id, candidates, .. } in unavailable {
        let candidates: Vec<String> = candidates
            .iter()
            .map(|candidate| {
                let (node, provider) = (candidate.node.as_str(), candidate.provider.as_str());
                let state = states.get(&(node, provider)).copied().unwrap_or("unknown");
                format!("{node}/{provider} is {state}")
            })
            .collect();
        page.entry(&format!("  {id}"), indent, &candidates.join(", "));
    }
}
