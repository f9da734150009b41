//! The whole product on one thread in virtual time, with everything that goes wrong drawn from seeds. Which parts of the
//! product a seed brings to trouble is drawn, not chosen: a case that must be shown has a test of its own elsewhere.

use iop_tests::simulation::{Report, run_seed};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS: u64 = 300;

/// What must have come up, or the runs show less than they claim.
const EXPECTED: &[&str] = &[
    "broken",
    "change: Capacity",
    "change: CutUp",
    "change: Freeze",
    "change: KillEdge",
    "change: KillNode",
    "change: Loss",
    "change: Mood",
    "change: Rebind",
    "change: StopEdge",
    "change: StopNode",
    "complete",
    "givenup",
    "leases: fenced_total",
    "leases: released_total",
    "refused: 429 queue_full",
    "refused: 502 provider_disconnected",
    "refused: 503 provider_unavailable",
    "refused: 503 queue_timeout",
];

// Shows [provider-state] [lease-lifecycle] [long-state] [cross-group-wakeup] [queue-ownership] [refresh-consistency]
// [disconnect-exclusion] [disconnect-queue-resolution] [offline-snapshot] [reconnect-candidate-recovery].
#[test]
fn requests_end_once_and_nothing_is_lost_or_left_whatever_goes_wrong() {
    let next = AtomicU64::new(0);
    let reports = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return;
            }
            let report = run_seed(seed);
            reports.lock().expect("no thread panics while it holds this").push(report);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));

    let reports: Vec<Report> = reports.into_inner().expect("no thread panics while it holds this");
    let mut counts = BTreeMap::<String, u64>::new();
    for report in &reports {
        for (what, count) in &report.counts {
            *counts.entry(what.clone()).or_default() += count;
        }
    }
    let failed: Vec<String> =
        reports.iter().filter(|report| !report.violations.is_empty()).map(told).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(reports.len() as u64, SEEDS);
    for what in EXPECTED {
        assert!(
            counts.get(*what).is_some_and(|count| *count > 0),
            "nothing of `{what}` came up: {counts:#?}"
        );
    }
}

#[test]
fn a_seed_does_the_same_again_to_the_last_packet() {
    for seed in 0..10 {
        let (one, other) = (run_seed(seed), run_seed(seed));
        assert_eq!(one.lines, other.lines, "seed {seed}");
        assert_eq!(one.hash, other.hash, "seed {seed}: only packets differ");
    }
}

fn told(report: &Report) -> String {
    let seed = report.seed;
    format!(
        "seed {seed} (cargo run -p iop-tests --bin simulate -- --seed {seed} runs it alone): {}",
        report.violations.join("; ")
    )
}
