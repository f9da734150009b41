//! The operator of a run: reads the edge's snapshot again and again and holds it against what must always be true.

use super::authority::name;
use super::http::{Broken, Connection};
use super::random::Random;
use super::settings::provider_name;
use super::world::World;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Longest time for a snapshot: it waits for nobody.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Time from a client's end to that of its request at the engine, where nothing goes wrong: a few round trips.
const CANCEL_LIMIT_MS: u64 = 2_000;

/// What was seen before.
#[derive(Debug, Default)]
struct Seen {
    /// Which start of the edge.
    edge: u64,
    acquired: u64,
    revision: u64,
    generations: BTreeMap<String, u64>,
}

/// Looks now and then. Runs until dropped.
pub(super) async fn run(world: Arc<World>) {
    let mut random = Random::new(world.seed, "watch");
    let mut seen = Seen::default();
    loop {
        sleep(Duration::from_millis(random.range(10..=900))).await;
        if let Some((snapshot, edge)) = snapshot(&world).await {
            check(&world, &snapshot, edge, &mut seen);
        }
        if world.good {
            look_for_the_abandoned(&world);
            world.check_overtakings();
        }
    }
}

/// Nobody may work on for a client that has left. Where nothing goes wrong, its engine hears of it soon.
fn look_for_the_abandoned(world: &World) {
    let now = world.trace.now_ms();
    for engine in &world.engines {
        for request in engine.requests() {
            if world.end_of(request).is_some_and(|end| end + CANCEL_LIMIT_MS < now) {
                let name = provider_name(engine.provider);
                world
                    .trace
                    .violation(format_args!("{name} works on for request {request}, whose client is gone"));
            }
        }
    }
}

/// The snapshot, and which start of the edge it is of. `None`: there is no edge.
pub(super) async fn snapshot(world: &World) -> Option<(Value, u64)> {
    let (stream, edge) = world.connect_to_admin()?;
    let answer = async {
        let mut connection = Connection::new(stream);
        connection.write(b"GET /admin/v1/snapshot HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
        connection.head().await?;
        let mut body = Vec::new();
        while let Some(bytes) = connection.body().await? {
            body.extend(bytes);
        }
        Ok::<_, Broken>(body)
    };
    let answer = timeout(ANSWER_LIMIT, answer).await;
    if world.edge_number() != Some(edge) {
        return None;
    }
    match answer.map(|answer| answer.map(|body| serde_json::from_slice(&body))) {
        Ok(Ok(Ok(snapshot))) => Some((snapshot, edge)),
        other => {
            world.trace.violation(format_args!("the edge gives no snapshot: {other:?}"));
            None
        }
    }
}

/// Numbers of a snapshot.
pub(super) fn number(snapshot: &Value, pointer: &str) -> u64 {
    snapshot.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} is a number"))
}

fn check(world: &World, snapshot: &Value, edge: u64, seen: &mut Seen) {
    if seen.edge != edge {
        *seen = Seen { edge, ..Seen::default() };
    }
    let wrong = |what: std::fmt::Arguments<'_>| world.trace.violation(format_args!("{what} in {snapshot}"));
    let [acquired, released, fenced, active] = ["acquired_total", "released_total", "fenced_total", "active"]
        .map(|field| number(snapshot, &format!("/leases/{field}")));
    if acquired != released + fenced + active {
        wrong(format_args!("the leases do not add up"));
    }
    let revision = number(snapshot, "/revision");
    if acquired < seen.acquired || revision < seen.revision {
        wrong(format_args!("a total went back"));
    }
    (seen.acquired, seen.revision) = (acquired, revision);
    let (length, limit) = (number(snapshot, "/queue/length"), number(snapshot, "/queue/timeout_ms"));
    // Where something goes wrong, retries come back beyond the limit; a lower limit drops nobody.
    if world.good && length > number(snapshot, "/queue/max") {
        wrong(format_args!("the queue is longer than it may be"));
    }
    if length > 0 && number(snapshot, "/queue/oldest_wait_ms") > limit + 2 {
        wrong(format_args!("a request waits longer than it may"));
    }
    let (mut in_flight, mut pressure) = (0, 0);
    for node in snapshot["nodes"].as_array().into_iter().flatten() {
        let (runs, waits) = check_node(world, snapshot, node, seen);
        in_flight += runs;
        pressure += waits;
    }
    if in_flight > active {
        wrong(format_args!("more runs than leases"));
    }
    // Whoever waits does so for somebody who is there.
    if pressure < length {
        wrong(format_args!("a request waits for nobody"));
    }
}

/// Checks a node; the runs of its providers, and how many wait for each of them.
fn check_node(world: &World, snapshot: &Value, node: &Value, seen: &mut Seen) -> (u64, u64) {
    let wrong = |what: &str| world.trace.violation(format_args!("{what} at {} in {snapshot}", node["id"]));
    let connected = node["connected"].as_bool().unwrap_or_default();
    let id = node["id"].as_str().unwrap_or_default().to_owned();
    match node["generation"].as_u64() {
        Some(generation) => {
            let last = seen.generations.insert(id, generation);
            if !connected || last.is_some_and(|last| last > generation) {
                wrong("an old generation");
            }
        }
        None if connected => wrong("no generation"),
        None => {}
    }
    let mut sums = (0, 0);
    for provider in node["providers"].as_array().into_iter().flatten() {
        let [effective, in_flight, long_in_flight, queued, long_queued] =
            ["effective_capacity", "in_flight", "long_in_flight", "queued", "long_queued"]
                .map(|field| provider[field].as_u64().unwrap_or(u64::MAX));
        if !connected && (effective, in_flight, long_in_flight, queued) != (0, 0, 0, 0) {
            wrong("counters of a node that is offline");
        }
        if long_in_flight > in_flight {
            wrong("more long runs than runs");
        }
        if provider["aside_ms"].is_null() && effective > in_flight && queued > long_queued {
            wrong("a request waits for a free slot");
        }
        sums = (sums.0 + in_flight, sums.1 + queued);
    }
    sums
}

/// Whether every node is connected, as the process that runs, and every provider has the capacity that is configured.
pub(super) fn all_available(world: &World, snapshot: &Value) -> bool {
    let mut nodes = snapshot["nodes"].as_array().into_iter().flatten().enumerate();
    nodes.all(|(index, node)| {
        let mut providers = node["providers"].as_array().into_iter().flatten();
        let generation = world.generation(index);
        generation.is_some()
            && node["generation"].as_u64() == generation
            && providers.all(|provider| {
                provider["enabled"] == true && provider["effective_capacity"] == provider["capacity"]
            })
    })
}

/// Whether a node is shown as connected.
pub(super) fn is_connected(snapshot: &Value, node: usize) -> bool {
    let mut nodes = snapshot["nodes"].as_array().into_iter().flatten();
    nodes.any(|entry| entry["id"] == name(node).as_str() && entry["connected"] == true)
}
