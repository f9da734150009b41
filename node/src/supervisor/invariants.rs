//! What holds for the supervisor whatever happens, tried with random histories.

use super::{Attempts, Event, Exit, Failure, Policy, Step, Supervisor};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::time::Duration;

/// What the world does next, as far as the phase lets it.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Time until it happens, in milliseconds.
    after_ms: u64,
    failure: Failure,
    welcome: bool,
}

fn retryable() -> impl Strategy<Value = Failure> {
    prop::sample::select(vec![
        Failure::Network,
        Failure::EdgeShutdown,
        Failure::Outlived,
        Failure::Duplicate,
        Failure::Superseded,
        Failure::UnknownNode,
        Failure::Version,
        Failure::Protocol,
        Failure::Validity,
    ])
}

fn turn() -> impl Strategy<Value = Turn> {
    (prop_oneof![0..50_u64, 0..30_000_u64], retryable(), prop::bool::weighted(0.3))
        .prop_map(|(after_ms, failure, welcome)| Turn { after_ms, failure, welcome })
}

/// Drives the supervisor through the turns as its driver would; gives every step with the time at which it was taken.
fn history(policy: Policy, turns: &[Turn]) -> Vec<(Duration, Event, Step)> {
    let mut supervisor = Supervisor::new(policy);
    let mut now = Duration::ZERO;
    let mut history = vec![(now, Event::Start, supervisor.apply(now, Event::Start))];
    for turn in turns {
        let elapsed = now + Duration::from_millis(turn.after_ms);
        let (then, event) = match history.last().map(|&(_, _, step)| step) {
            Some(Step::WaitUntil(until)) => (until, Event::WaitOver),
            Some(Step::Dial) if turn.welcome => (elapsed, Event::Welcomed),
            Some(Step::Dial) => (elapsed, Event::DialFailed(turn.failure)),
            Some(Step::Serve) => (elapsed, Event::Lost(turn.failure)),
            Some(Step::Exit(_)) | None => break,
        };
        now = then;
        history.push((now, event, supervisor.apply(now, event)));
    }
    history
}

proptest! {
    #[test]
    fn pace_and_bound_hold_in_every_history(
        attempts in 0..5_u32,
        interval_sec in 0..20_u64,
        turns in prop::collection::vec(turn(), 0..200),
    ) {
        let attempts = NonZeroU32::new(attempts).map_or(Attempts::Unlimited, Attempts::Exactly);
        let unlimited = attempts == Attempts::Unlimited;
        let interval = Duration::from_secs(if unlimited { interval_sec.max(1) } else { interval_sec });
        let history = history(Policy { attempts, interval }, &turns);

        let (mut dials, mut dialed, mut welcomed) = (0, None::<Duration>, None::<Duration>);
        for &(now, event, step) in &history {
            if event == Event::Welcomed {
                prop_assert_eq!(step, Step::Serve, "a Welcome is served");
                (dials, welcomed) = (0, Some(now));
            }
            match step {
                Step::Dial => {
                    let since_dial = dialed.map(|dialed| now - dialed);
                    let lived = matches!(event, Event::Lost(_)) && welcomed.is_some_and(|since| now - since > interval);
                    prop_assert!(lived || since_dial.is_none_or(|gap| gap >= interval), "dials are paced");
                    dials += 1;
                    dialed = Some(now);
                    if let Attempts::Exactly(most) = attempts {
                        prop_assert!(dials <= most.get(), "{dials} dials without a Welcome in between");
                    }
                }
                Step::WaitUntil(until) => {
                    prop_assert!(until > now && until - now <= interval, "a wait is at most the interval");
                }
                Step::Serve => prop_assert_eq!(event, Event::Welcomed),
                Step::Exit(exit) => {
                    prop_assert!(!unlimited, "an unlimited policy outlives every retryable failure");
                    prop_assert_eq!(exit, Exit::Exhausted);
                }
            }
        }
    }

    #[test]
    fn a_bounded_policy_ends_against_an_edge_that_is_never_there_or_never_lets_it_stay(
        attempts in 1..5_u32,
        interval_sec in 0..20_u64,
        failures in prop::collection::vec((retryable(), any::<bool>()), 200),
    ) {
        let attempts = NonZeroU32::new(attempts).expect("the range begins with 1");
        let interval = Duration::from_secs(interval_sec);
        let turns: Vec<Turn> =
            failures.iter().map(|&(failure, welcome)| Turn { after_ms: 10, failure, welcome }).collect();
        let history = history(Policy { attempts: Attempts::Exactly(attempts), interval }, &turns);
        prop_assert_eq!(history.last().map(|&(_, _, step)| step), Some(Step::Exit(Exit::Exhausted)));
    }
}
