//! When the node dials, waits and gives up: the table of [node-connectivity-supervision]. It decides only; it knows no
//! socket, reads no clock and says nothing. Time is a duration since an origin that the driver chooses.
//!
//! | what happened | what follows |
//! | --- | --- |
//! | started | a dial at once |
//! | a dial failed without an answer | the next dial, `interval` after this one began |
//! | a dial was answered with a refusal that time may mend | the next dial, `interval` from now |
//! | a dial failed for a reason that time does not mend | exit with that reason |
//! | `max_attempts` dials in a row failed | exit, exhausted |
//! | welcomed | the count of failed dials is 0 again |
//! | lost after more than `interval` | a dial at once |
//! | lost sooner | the next dial, `interval` after the last one began |
//! | lost to another process, or over a broken rule | the next dial, `interval` from now |
//! | welcomed and lost at once, `max_attempts` times in a row after the first | exit, exhausted |
//! | local shutdown, at any moment | exit, stopped |
//!
//! So `interval` is the least time between the beginnings of two dials, unless a connection has lived in between, and a
//! peer that welcomes and hangs up is neither a way around the pace nor around the bound.

mod exit;
mod failure;
#[cfg(test)]
mod invariants;
mod policy;
#[cfg(test)]
mod table;

pub use exit::Exit;
pub(crate) use failure::{Failure, Retry};
pub(crate) use policy::{Attempts, Policy};

use std::time::Duration;

/// Shortest life of a connection that counts as one, where the interval is shorter still (it may be 0).
const LASTING: Duration = Duration::from_secs(1);

/// What the driver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The process has started.
    Start,
    /// The time of the last [`Step::WaitUntil`] has come.
    WaitOver,
    /// The dial has ended without a Welcome.
    DialFailed(Failure),
    /// The edge has accepted the registration.
    Welcomed,
    /// The welcomed connection is gone.
    Lost(Failure),
    /// This process was told to stop.
    Shutdown,
}

/// What the driver has to do next; each ends with an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Dial once: every address in turn.
    Dial,
    /// Do nothing until then.
    WaitUntil(Duration),
    /// Serve the connection that was welcomed.
    Serve,
    /// End the process.
    Exit(Exit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Waiting { until: Duration },
    Dialing,
    Serving { since: Duration },
    Ended(Exit),
}

/// The supervisor. Its driver reports what happened and does what is answered, one thing at a time.
#[derive(Debug)]
pub(crate) struct Supervisor {
    policy: Policy,
    phase: Phase,
    /// When the last dial began.
    dialed: Duration,
    /// Dials that failed since the last Welcome.
    failed: u32,
    /// Connections in a row that were welcomed and did not last.
    fleeting: u32,
}

impl Supervisor {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, phase: Phase::New, dialed: Duration::ZERO, failed: 0, fleeting: 0 }
    }

    /// Takes an event that the phase allows. Anything else is a mistake of the driver and panics.
    pub(crate) fn apply(&mut self, now: Duration, event: Event) -> Step {
        let step = match (self.phase, event) {
            (Phase::Ended(exit), Event::Shutdown) => Step::Exit(exit),
            (_, Event::Shutdown) => Step::Exit(Exit::Stopped),
            (Phase::New, Event::Start) => Step::Dial,
            (Phase::Waiting { until }, Event::WaitOver) => dial_at(until, now),
            (Phase::Dialing, Event::DialFailed(failure)) => self.dial_failed(now, failure),
            (Phase::Dialing, Event::Welcomed) => Step::Serve,
            (Phase::Serving { since }, Event::Lost(failure)) => self.lost(now, since, failure),
            (phase, event) => {
                unreachable!("the driver reports only what can happen, not {event:?} in {phase:?}")
            }
        };
        self.enter(now, step);
        step
    }

    fn enter(&mut self, now: Duration, step: Step) {
        self.phase = match step {
            Step::Dial => {
                self.dialed = now;
                Phase::Dialing
            }
            Step::WaitUntil(until) => Phase::Waiting { until },
            Step::Serve => {
                self.failed = 0;
                Phase::Serving { since: now }
            }
            Step::Exit(exit) => Phase::Ended(exit),
        };
    }

    fn dial_failed(&mut self, now: Duration, failure: Failure) -> Step {
        self.failed = self.failed.saturating_add(1);
        self.next(now, failure, self.failed)
    }

    fn lost(&mut self, now: Duration, since: Duration, failure: Failure) -> Step {
        let lasted = now.saturating_sub(since) > self.policy.interval.max(LASTING);
        self.fleeting = if lasted { 0 } else { self.fleeting.saturating_add(1) };
        // The first of a row was a connection; only those after it are attempts that came to nothing.
        self.next(now, failure, self.fleeting.saturating_sub(1))
    }

    /// What follows from a failure after so many vain attempts.
    fn next(&self, now: Duration, failure: Failure, vain: u32) -> Step {
        match failure.retry() {
            Retry::Never(exit) => Step::Exit(exit),
            Retry::Soon | Retry::Paced if self.policy.attempts.reached_by(vain) => {
                Step::Exit(Exit::Exhausted)
            }
            Retry::Soon => dial_at(self.dialed + self.policy.interval, now),
            Retry::Paced => dial_at(now + self.policy.interval, now),
        }
    }
}

fn dial_at(time: Duration, now: Duration) -> Step {
    if time <= now { Step::Dial } else { Step::WaitUntil(time) }
}
