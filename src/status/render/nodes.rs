//! The table of nodes and their providers: one line each, and below a provider what is wrong with it.

use super::page::{Page, indent, width};
use crate::status::snapshot::{Node, Provider, state};
use crate::status::text::{age, duration, round_trip, shortened};

/// Most characters of a word or a name that others gave themselves.
const MAX_STATE: usize = 16;
const MAX_SOFTWARE: usize = 48;

/// Most characters of a node's reason.
const MAX_REASON: usize = 400;

const HEAD: [&str; 4] = ["STATE", "RUNNING", "LONG", "QUEUED"];

pub(super) fn table(page: &mut Page, nodes: &[Node], now: u64) {
    if nodes.is_empty() {
        return;
    }
    let providers = || nodes.iter().flat_map(|node| &node.providers);
    let indent = indent(providers().map(|provider| &provider.id));
    let head = HEAD.map(str::to_owned);
    let rows: Vec<[String; 4]> = providers().map(cells).collect();
    let column = |at: usize| rows.iter().chain([&head]).map(|row| width(&row[at])).max().unwrap_or_default();
    let widths = [column(0), column(1), column(2)];

    page.blank();
    page.entry("NODE, PROVIDER", indent, &joined(&head, widths));
    let mut rows = rows.iter();
    for node in nodes {
        page.entry(node.id.as_str(), indent, &connection(node, now));
        for (provider, row) in node.providers.iter().zip(&mut rows) {
            page.entry(&format!("  {}", provider.id), indent, &joined(row, widths));
            for note in notes(provider) {
                page.entry("", indent + 2, &note);
            }
        }
    }
}

fn joined([state, running, long, queued]: &[String; 4], widths: [usize; 3]) -> String {
    let [first, second, third] = widths;
    format!("{state:first$}  {running:>second$}  {long:>third$}  {queued}")
}

/// The node's own line.
fn connection(node: &Node, now: u64) -> String {
    if !node.connected {
        return shortened(state(&node.status, &node.health), MAX_STATE);
    }
    let mut line = "connected".to_owned();
    // Where the clocks differ this much, the span would be wrong too.
    if let Some(seconds) = node.since.and_then(|since| now.checked_sub(since)) {
        line += &format!(" {}", age(seconds));
    }
    if let Some(address) = &node.address {
        line += &format!(", {address}");
    }
    if let Some(rtt) = node.rtt_ms {
        line += &format!(", rtt {}", round_trip(rtt));
    }
    if let Some(software) = node.software.as_ref().filter(|software| !software.as_str().is_empty()) {
        line += &format!(", {}", shortened(software.as_str(), MAX_SOFTWARE));
    }
    line
}

/// State, running, long, queued.
fn cells(provider: &Provider) -> [String; 4] {
    let Provider { in_flight, effective_capacity, long_in_flight, long_context_capacity, .. } = provider;
    let state = shortened(state(&provider.status, &provider.health), MAX_STATE);
    let none = || "-".to_owned();
    let running = match (*in_flight, *effective_capacity) {
        (0, 0) => none(),
        _ => format!("{in_flight} of {effective_capacity}"),
    };
    let long = match (*long_in_flight, *long_context_capacity) {
        (0, 0) => none(),
        (0, _) if *effective_capacity == 0 => none(),
        _ => format!("{long_in_flight} of {long_context_capacity}"),
    };
    let queued = match (provider.queued, provider.long_queued) {
        (queued, 0) => queued.to_string(),
        (queued, long) => format!("{queued} ({long} long)"),
    };
    [state, running, long, queued]
}

/// What is to be known of a provider that does not run as configured.
fn notes(provider: &Provider) -> Vec<String> {
    let Provider { capacity, effective_capacity, in_flight, failures, .. } = provider;
    let mut notes = Vec::new();
    if let Some(reason) = &provider.reason {
        notes.push(shortened(reason.as_str(), MAX_REASON));
    }
    if let Some(aside_ms) = provider.aside_ms {
        let next = match aside_ms {
            0 => "the next request tries it".to_owned(),
            left => format!("set aside for {} more", duration(left)),
        };
        let times = if *failures > 1 { format!("{failures} times in a row") } else { "once".to_owned() };
        notes.push(format!("its server refused connections {times}: {next}"));
    }
    if in_flight > effective_capacity {
        notes.push("nothing new starts until enough of what runs has ended".to_owned());
    }
    if provider.status.as_str() == "available" && effective_capacity < capacity {
        notes.push(format!("its capacity of {capacity} counts once the node has confirmed it"));
    }
    notes
}
