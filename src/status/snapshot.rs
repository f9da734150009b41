//! The snapshot of the admin listener, as far as it is shown. Fields and words may be added by the edge; whatever is not
//! known here is left out or shown as it is. `edge/CONTRACT-admin.md` says what each field means.

use super::text::Text;
use serde::{Deserialize, Deserializer};

/// The state of an edge at one moment. The first three are what every edge's snapshot has.
#[derive(Debug, Deserialize)]
pub(super) struct Snapshot {
    pub(super) queue: Queue,
    pub(super) leases: Leases,
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) models: Vec<Model>,
    #[serde(default)]
    pub(super) config: Config,
    #[serde(default)]
    pub(super) certificate: Certificate,
    #[serde(default)]
    pub(super) revocations: Revocations,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub(super) length: u64,
    pub(super) max: u64,
    pub(super) timeout_ms: u64,
    pub(super) oldest_wait_ms: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Leases {
    pub(super) active: u64,
    pub(super) acquired_total: u64,
    pub(super) released_total: u64,
    pub(super) fenced_total: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) id: Text,
    pub(super) connected: bool,
    pub(super) status: Text,
    pub(super) health: Text,
    pub(super) address: Option<Text>,
    /// Seconds since 1970.
    pub(super) since: Option<u64>,
    pub(super) rtt_ms: Option<f64>,
    pub(super) software: Option<Text>,
    pub(super) providers: Vec<Provider>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Provider {
    pub(super) id: Text,
    pub(super) status: Text,
    pub(super) health: Text,
    pub(super) reason: Option<Text>,
    pub(super) capacity: u64,
    pub(super) effective_capacity: u64,
    pub(super) in_flight: u64,
    pub(super) long_context_capacity: u64,
    pub(super) long_in_flight: u64,
    pub(super) queued: u64,
    pub(super) long_queued: u64,
    pub(super) aside_ms: Option<u64>,
    pub(super) failures: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Model {
    pub(super) id: Text,
    pub(super) available: bool,
    pub(super) candidates: Vec<Candidate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Candidate {
    pub(super) node: Text,
    pub(super) provider: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) revision: u64,
    pub(super) source: Text,
    /// Its lines; empty where the file is in force.
    #[serde(deserialize_with = "lines")]
    pub(super) last_error: Vec<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Certificate {
    pub(super) serial: Text,
    /// Seconds since 1970.
    pub(super) not_after: i64,
    /// Its lines; empty where the file is in force.
    #[serde(deserialize_with = "lines")]
    pub(super) last_error: Vec<Text>,
    /// Its lines; empty where it is renewed in time.
    #[serde(deserialize_with = "lines")]
    pub(super) renewal_error: Vec<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Revocations {
    pub(super) nodes: u64,
    pub(super) serials: u64,
    /// Its lines; empty where the list is in force.
    #[serde(deserialize_with = "lines")]
    pub(super) last_error: Vec<Text>,
}

/// What a node or provider is in one word: its health, unless that is fine.
pub(super) fn state<'a>(status: &'a Text, health: &'a Text) -> &'a str {
    if health.as_str() == "online" { status.as_str() } else { health.as_str() }
}

fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Text>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    Ok(text.lines().map(Text::from).collect())
}
