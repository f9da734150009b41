//! The machine against its naive twin, on commands made from seeds. `IOP_ADMISSION_SEED=17` runs that seed alone,
//! `IOP_ADMISSION_SEEDS=100000` that many.

use iop_tests::admission_model::{BYTES_PER_COMMAND, Tally, run_commands};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::ops::Range;

const SEEDS: u64 = 2_000;

/// What must have come up somewhere, or the runs show less than they claim.
const EXPECTED: &[&str] = &[
    "cancel",
    "configure",
    "granted aside at once",
    "granted aside from the queue",
    "granted at once",
    "granted from the queue",
    "late release of a fenced lease",
    "node told",
    "online",
    "partly applied",
    "queued",
    "reached again",
    "refused: API not served",
    "refused: context length exceeded",
    "refused: key queue full",
    "refused: model not found",
    "refused: no other provider",
    "refused: queue full",
    "refused: queue timeout",
    "refused: unavailable",
    "release",
    "retry",
    "retry of a fenced lease",
    "second release",
    "stale applied",
    "stale offline",
    "unreachable",
    "unreachable again",
];

// Shows [cross-group-wakeup] [lease-lifecycle] [long-state] [provider-state] [queue-ownership] [snapshot-source]
// [refresh-consistency] [disconnect-exclusion] [disconnect-queue-resolution] [reconnect-candidate-recovery].
#[test]
fn machine_and_naive_twin_agree_on_every_effect_of_seeded_commands() {
    let number =
        |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a whole number"));
    if let Some(seed) = number("IOP_ADMISSION_SEED") {
        run_seed(seed);
        return;
    }
    let tally = run_seeds(0..number("IOP_ADMISSION_SEEDS").unwrap_or(SEEDS));
    for what in EXPECTED {
        assert!(
            tally.get(what).is_some_and(|count| *count >= 100),
            "too little of `{what}` came up: {tally:#?}"
        );
    }
    assert!(tally["commands"] >= 100_000, "too few commands: {tally:#?}");
}

fn run_seeds(seeds: Range<u64>) -> Tally {
    let mut sum = Tally::new();
    for (what, count) in seeds.flat_map(run_seed) {
        *sum.entry(what).or_default() += count;
    }
    sum
}

fn run_seed(seed: u64) -> Tally {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config =
        Config { cases: 1, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tally = std::cell::RefCell::default();
    let outcome = runner.run(&vec(any::<[u8; BYTES_PER_COMMAND]>(), 1..=200), |commands| {
        *tally.borrow_mut() = run_commands(commands.as_flattened()).map_err(TestCaseError::fail)?;
        Ok(())
    });
    match outcome {
        Ok(()) => tally.into_inner(),
        Err(TestError::Fail(reason, commands)) => panic!(
            "seed {seed} (IOP_ADMISSION_SEED={seed} runs it alone), shrunk to {} commands:\n{reason}\nbytes: {:?}",
            commands.len(),
            commands.as_flattened(),
        ),
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

#[test]
fn bytes_that_end_within_a_command_are_played_up_to_it() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1_000 * BYTES_PER_COMMAND + 1).collect();
    let tally = run_commands(&bytes).unwrap_or_else(|difference| panic!("{difference}"));
    assert!(tally["commands"] > 1_000, "{tally:#?}");
}
