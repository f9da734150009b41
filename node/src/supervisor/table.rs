//! The table of [node-connectivity-supervision], case by case.

use super::{Attempts, Event, Exit, Failure, Policy, Step, Supervisor};
use Event::{DialFailed, Lost, Shutdown, Start, WaitOver, Welcomed};
use Step::{Dial, Serve};
use std::num::NonZeroU32;
use std::time::Duration;

const STOPPED: Step = Step::Exit(Exit::Stopped);
const EXHAUSTED: Step = Step::Exit(Exit::Exhausted);

/// Retryable kinds that no answer stands behind: their pace is counted from the dial.
const UNANSWERED: [Failure; 3] = [Failure::Network, Failure::EdgeShutdown, Failure::Outlived];

/// Retryable kinds that an answer stands behind: their pace is counted from now.
const ANSWERED: [Failure; 6] = [
    Failure::Duplicate,
    Failure::Superseded,
    Failure::UnknownNode,
    Failure::Version,
    Failure::Protocol,
    Failure::Validity,
];

/// Kinds that end the process, and how.
const TERMINAL: [(Failure, Exit); 2] =
    [(Failure::Config, Exit::BadConfig), (Failure::Credentials, Exit::Credentials)];

fn wait(until: u64) -> Step {
    Step::WaitUntil(Duration::from_secs(until))
}

/// Attempts allowed (0: unlimited) and seconds between them.
type Bounds = (u32, u64);

/// Seconds since the start, what happens, what must follow.
type Row = (u64, Event, Step);

fn check(case: &str, (attempts, interval): Bounds, rows: &[Row]) {
    let attempts = NonZeroU32::new(attempts).map_or(Attempts::Unlimited, Attempts::Exactly);
    let mut supervisor = Supervisor::new(Policy { attempts, interval: Duration::from_secs(interval) });
    for (number, &(now, event, step)) in rows.iter().enumerate() {
        assert_eq!(
            supervisor.apply(Duration::from_secs(now), event),
            step,
            "{case}, row {number}: {event:?} after {now} s"
        );
    }
}

#[test]
fn the_supervisor_runs_before_the_first_dial_and_paces_dials_from_their_beginning() {
    for failure in UNANSWERED {
        check(
            "edge absent for long",
            (0, 10),
            &[
                (0, Start, Dial),
                (8, DialFailed(failure), wait(10)),
                (10, WaitOver, Dial),
                // Longer than the interval: nothing is left to wait for.
                (26, DialFailed(failure), Dial),
                (34, DialFailed(failure), wait(36)),
                (36, WaitOver, Dial),
                (37, Welcomed, Serve),
            ],
        );
    }
}

#[test]
fn an_answered_refusal_is_retried_an_interval_after_the_answer() {
    for failure in ANSWERED {
        check(
            "refused for a while",
            (0, 10),
            &[
                (0, Start, Dial),
                (2, DialFailed(failure), wait(12)),
                (12, WaitOver, Dial),
                (13, Welcomed, Serve),
            ],
        );
    }
}

#[test]
fn a_bounded_policy_dials_exactly_as_often_as_it_says_and_then_ends_as_exhausted() {
    for failure in UNANSWERED {
        check("one attempt", (1, 10), &[(0, Start, Dial), (8, DialFailed(failure), EXHAUSTED)]);
        check(
            "three attempts",
            (3, 10),
            &[
                (0, Start, Dial),
                (1, DialFailed(failure), wait(10)),
                (10, WaitOver, Dial),
                (11, DialFailed(failure), wait(20)),
                (20, WaitOver, Dial),
                (21, DialFailed(failure), EXHAUSTED),
            ],
        );
        check(
            "two attempts without pause",
            (2, 0),
            &[(0, Start, Dial), (0, DialFailed(failure), Dial), (0, DialFailed(failure), EXHAUSTED)],
        );
    }
}

#[test]
fn attempts_are_counted_since_the_last_welcome() {
    check(
        "two attempts, a connection in between",
        (2, 10),
        &[
            (0, Start, Dial),
            (1, DialFailed(Failure::Network), wait(10)),
            (10, WaitOver, Dial),
            (11, Welcomed, Serve),
            (100, Lost(Failure::Network), Dial),
            (108, DialFailed(Failure::Network), wait(110)),
            (110, WaitOver, Dial),
            (118, DialFailed(Failure::Network), EXHAUSTED),
        ],
    );
}

#[test]
fn after_a_connection_that_outlived_the_interval_the_first_dial_is_immediate() {
    for failure in UNANSWERED {
        check("lived 11 s", (0, 10), &[(0, Start, Dial), (0, Welcomed, Serve), (11, Lost(failure), Dial)]);
    }
    for failure in ANSWERED {
        check(
            "lived 11 s, then lost to another or over a broken rule",
            (0, 10),
            &[(0, Start, Dial), (0, Welcomed, Serve), (11, Lost(failure), wait(21))],
        );
    }
}

#[test]
fn a_peer_that_welcomes_and_hangs_up_is_dialed_at_the_pace_for_ever_if_attempts_are_unlimited() {
    let mut rows = vec![(0, Start, Dial)];
    for round in 0..100 {
        let dialed = round * 10;
        rows.extend([
            (dialed, Welcomed, Serve),
            (dialed + 1, Lost(Failure::Network), wait(dialed + 10)),
            (dialed + 10, WaitOver, Dial),
        ]);
    }
    check("flapping", (0, 10), &rows);
}

#[test]
fn a_peer_that_welcomes_and_hangs_up_uses_up_a_bounded_policy() {
    check(
        "flapping, two attempts after the first connection",
        (2, 10),
        &[
            (0, Start, Dial),
            (0, Welcomed, Serve),
            (1, Lost(Failure::Network), wait(10)),
            (10, WaitOver, Dial),
            (10, Welcomed, Serve),
            (11, Lost(Failure::Network), wait(20)),
            (20, WaitOver, Dial),
            (20, Welcomed, Serve),
            (21, Lost(Failure::Network), EXHAUSTED),
        ],
    );
    check(
        "flapping without any pause is still bounded",
        (1, 0),
        &[
            (0, Start, Dial),
            (0, Welcomed, Serve),
            (0, Lost(Failure::Network), Dial),
            (0, Welcomed, Serve),
            (1, Lost(Failure::Network), EXHAUSTED),
        ],
    );
    check(
        "a connection that lasted forgives the flapping before it",
        (1, 10),
        &[
            (0, Start, Dial),
            (0, Welcomed, Serve),
            (1, Lost(Failure::Network), wait(10)),
            (10, WaitOver, Dial),
            (10, Welcomed, Serve),
            (30, Lost(Failure::Network), Dial),
            (30, Welcomed, Serve),
            (31, Lost(Failure::Network), wait(40)),
        ],
    );
}

#[test]
fn a_failure_that_time_does_not_mend_ends_with_its_own_reason() {
    for (failure, exit) in TERMINAL {
        for attempts in [0, 5] {
            let ended = Step::Exit(exit);
            check("at the first dial", (attempts, 10), &[(0, Start, Dial), (1, DialFailed(failure), ended)]);
            check(
                "on a live connection",
                (attempts, 10),
                &[(0, Start, Dial), (1, Welcomed, Serve), (50, Lost(failure), ended)],
            );
        }
        check(
            "as the last attempt",
            (1, 10),
            &[(0, Start, Dial), (1, DialFailed(failure), Step::Exit(exit))],
        );
    }
}

#[test]
fn shutdown_ends_every_phase_at_once_and_once() {
    let dialing: &[Row] = &[(0, Start, Dial)];
    let waiting: &[Row] = &[(0, Start, Dial), (1, DialFailed(Failure::Network), wait(10))];
    let serving: &[Row] = &[(0, Start, Dial), (1, Welcomed, Serve)];
    for before in [&[], dialing, waiting, serving] {
        let rows = [before, &[(2, Shutdown, STOPPED), (3, Shutdown, STOPPED)]].concat();
        check("shutdown", (0, 10), &rows);
    }
    let exhausted =
        [(0, Start, Dial), (1, DialFailed(Failure::Network), EXHAUSTED), (2, Shutdown, EXHAUSTED)];
    check("shutdown after the end", (1, 10), &exhausted);
}

#[test]
fn a_timer_that_fires_early_is_sent_back_to_wait() {
    check(
        "early timer",
        (0, 10),
        &[
            (0, Start, Dial),
            (1, DialFailed(Failure::Network), wait(10)),
            (9, WaitOver, wait(10)),
            (10, WaitOver, Dial),
        ],
    );
}

#[test]
fn exit_codes_are_those_that_scripts_rely_on() {
    let codes =
        [Exit::Stopped, Exit::BadConfig, Exit::Exhausted, Exit::Credentials].map(|exit| (exit.code(), exit));
    assert_eq!(codes.map(|(code, _)| code), [0, 2, 3, 4]);
}
