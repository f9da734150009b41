//! One run: the site at rest, then load and trouble for so long, then the site at rest again, and the verdict.

use crate::figures::{DESCRIPTORS, DRIFT_KIB, Figures, JUDGED, Sample, figures};
use crate::load::{Tallies, client};
use crate::seed::Seed;
use crate::site::{NODES, Site};
use crate::trouble::{Order, STEADY, Trouble};
use iop_tests::http::{Call, send};
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Clients that send one request after another.
const CLIENTS: usize = 16;

/// Time between two troubles.
const PAUSE: Duration = Duration::from_millis(700);

/// Longest wait for the last requests to end and their connections to close. Longer than a killed node takes to be missed.
const REST: Duration = Duration::from_secs(30);

/// What a run shows.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Figures, for people.
    pub(crate) lines: Vec<String>,
    /// What is not as it must be.
    pub(crate) violations: Vec<String>,
}

/// What is watched while the load runs.
#[derive(Default)]
struct Watched {
    edge: Vec<Sample>,
    steady: Vec<Sample>,
    alarms: BTreeSet<String>,
    troubles: BTreeMap<Trouble, u64>,
}

/// Soaks the `iop` binary for `duration`.
pub(crate) async fn run(iop: PathBuf, duration: Duration, seed: u64) -> Report {
    LocalSet::new().run_until(soak(iop, duration, Seed::new(seed))).await
}

async fn soak(iop: PathBuf, duration: Duration, seed: Seed) -> Report {
    let mut site = Site::start(iop).await;
    settled(&site).await.expect("the site starts at rest");
    let processes = [site.deployment.edge.id(), site.deployment.node(STEADY).id()];
    let before = processes.map(|process| look(process, Duration::ZERO));
    let tallies = Tallies::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::task::spawn_local(client(site.deployment.http, seed.fork(), tallies.clone())))
        .collect();
    let longest_queue = Rc::default();
    let watcher = tokio::task::spawn_local(watch_queue(site.deployment.admin, Rc::clone(&longest_queue)));
    let watched = trouble(&mut site, processes, duration, &seed).await;
    watcher.abort();
    for client in clients {
        client.abort();
        if let Err(error) = client.await
            && error.is_panic()
        {
            tallies.borrow_mut().wrong.push(format!("a client failed: {error}"));
        }
    }
    let rest = settled(&site).await;
    let mut report = Report::default();
    report.requests(&tallies, duration);
    report.counters(&rest);
    for (place, name) in ["edge", "steady node"].into_iter().enumerate() {
        let samples = [&watched.edge, &watched.steady][place];
        let after = at_rest(processes[place], before[place].descriptors).await;
        report.process(name, &figures(samples), before[place], after, duration);
    }
    report.troubles(&watched, longest_queue.get());
    let alarms = watched.alarms.into_iter().chain(site.alarms()).collect::<BTreeSet<_>>();
    report.violations.extend(alarms.into_iter().map(|line| format!("in a log: {line}")));
    site.deployment.shut_down().await;
    report
}

/// Notes the longest queue of each moment, until it is dropped.
async fn watch_queue(admin: SocketAddr, longest: Rc<Cell<u64>>) {
    loop {
        let snapshot =
            send(admin, Call::get("/admin/v1/snapshot")).await.expect("the admin listener answers");
        let length = snapshot.json()["queue"]["length"].as_u64().expect("a length");
        longest.set(longest.get().max(length));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Makes trouble until the time is over and each kind has come, and watches.
async fn trouble(site: &mut Site, processes: [u32; 2], duration: Duration, seed: &Seed) -> Watched {
    let begun = Instant::now();
    // About two hundred samples a run, and not more than four in a second.
    let interval = (duration / 200).clamp(Duration::from_millis(250), Duration::from_secs(5));
    let (mut watched, mut order) = (Watched::default(), Order::new());
    let (mut next_sample, mut next_trouble) = (Duration::ZERO, PAUSE);
    while begun.elapsed() < duration || watched.troubles.len() < Trouble::ALL.len() {
        let now = begun.elapsed();
        if now >= next_sample {
            next_sample = now + interval;
            watched.edge.push(look(processes[0], now));
            watched.steady.push(look(processes[1], now));
            watched.alarms.extend(site.alarms());
        }
        if now >= next_trouble {
            let trouble = order.next(seed);
            trouble.happen(site, seed).await;
            *watched.troubles.entry(trouble).or_default() += 1;
            next_trouble = begun.elapsed() + PAUSE;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    watched
}

fn look(process: u32, at: Duration) -> Sample {
    Sample::of(process, at).expect("the process runs")
}

/// The snapshot once every counter is 0, or the last one when that takes too long.
async fn settled(site: &Site) -> Result<Value, Value> {
    let begun = Instant::now();
    loop {
        let snapshot = site.deployment.snapshot().await;
        let nodes = snapshot["nodes"].as_array().expect("nodes are a list");
        let mut providers = nodes.iter().flat_map(|node| node["providers"].as_array().expect("a list"));
        let at_rest = |provider: &Value| {
            ["in_flight", "long_in_flight", "queued", "long_queued"].iter().all(|key| provider[key] == 0)
        };
        let connected = nodes.len() == NODES.len() && nodes.iter().all(|node| node["connected"] == true);
        let idle = snapshot["leases"]["active"] == 0 && snapshot["queue"]["length"] == 0;
        if connected && idle && providers.all(at_rest) {
            return Ok(snapshot);
        }
        if begun.elapsed() > REST {
            return Err(snapshot);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The process once its descriptors are back, or as it is when that takes too long.
async fn at_rest(process: u32, before: i64) -> Sample {
    let begun = Instant::now();
    loop {
        let sample = look(process, Duration::ZERO);
        if sample.descriptors <= before + DESCRIPTORS || begun.elapsed() > REST {
            return sample;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Report {
    fn check(&mut self, holds: bool, violation: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(violation());
        }
    }

    fn requests(&mut self, tallies: &Tallies, duration: Duration) {
        let tally = tallies.borrow();
        let total: u64 = tally.counts.values().sum();
        let rate = total as f64 / duration.as_secs_f64();
        self.lines.push(format!("requests: {total}, {rate:.0} per second"));
        self.lines.extend(tally.counts.iter().map(|(name, count)| format!("  {name}: {count}")));
        self.violations.extend(tally.wrong.iter().map(|wrong| format!("a wrong answer: {wrong}")));
        for kind in
            ["small complete", "long complete", "large complete", "embeddings complete", "echo complete"]
        {
            self.check(tally.counts.contains_key(kind), || format!("nothing seen of: {kind}"));
        }
        for kind in ["abandoned before the answer", "abandoned in mid-stream"] {
            self.check(tally.counts.contains_key(kind), || format!("nothing seen of: {kind}"));
        }
    }

    fn counters(&mut self, rest: &Result<Value, Value>) {
        let (Ok(snapshot) | Err(snapshot)) = rest;
        self.check(rest.is_ok(), || format!("not at rest {REST:?} after the load: {snapshot:#}"));
        let leases = &snapshot["leases"];
        let sum = |name: &str| leases[name].as_u64().expect("a lease count is a number");
        let (acquired, released, fenced) =
            (sum("acquired_total"), sum("released_total"), sum("fenced_total"));
        self.lines.push(format!("leases: {acquired} acquired, {released} released, {fenced} fenced"));
        self.check(acquired > 0 && acquired == released + fenced, || {
            format!("leases do not add up: {leases}")
        });
    }

    fn process(&mut self, name: &str, figures: &Figures, before: Sample, after: Sample, duration: Duration) {
        let Figures { early_kib, late_kib, peak_kib, slope_kib_per_hour, peak_descriptors } = figures;
        let slope = if duration < JUDGED {
            "too short a run for a slope".to_owned()
        } else {
            format!("slope {slope_kib_per_hour} KiB an hour")
        };
        self.lines.push(format!(
            "{name}: memory {early_kib} KiB after warm-up, {late_kib} KiB at the end, peak {peak_kib} KiB, {slope}; \
             file descriptors {} before, peak {peak_descriptors}, {} after",
            before.descriptors, after.descriptors
        ));
        self.check(after.descriptors <= before.descriptors + DESCRIPTORS, || {
            format!("{name}: {} file descriptors before, {} after", before.descriptors, after.descriptors)
        });
        self.check(duration < JUDGED || late_kib - early_kib <= DRIFT_KIB, || {
            format!("{name}: memory grew from {early_kib} to {late_kib} KiB, more than {DRIFT_KIB} KiB")
        });
    }

    fn troubles(&mut self, watched: &Watched, longest_queue: u64) {
        let counts: Vec<String> =
            watched.troubles.iter().map(|(trouble, count)| format!("{trouble:?} {count}")).collect();
        self.lines.push(format!("troubles: {}", counts.join(", ")));
        self.lines.push(format!("longest queue seen: {longest_queue}"));
        self.check(longest_queue > 0, || "nobody ever waited".to_owned());
    }
}
