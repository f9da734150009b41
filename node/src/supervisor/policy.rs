//! How often and how fast to dial, as the node's file says it.

use std::num::NonZeroU32;
use std::time::Duration;

/// The reconnect policy. First failures and later disconnects follow it alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// How many dials may fail in a row.
    pub(crate) attempts: Attempts,
    /// Least time between the beginnings of two dials. Positive where attempts are unlimited.
    pub(crate) interval: Duration,
}

/// A bound on dials that fail in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempts {
    /// The process outlives any outage.
    Unlimited,
    /// Exactly this many dials, counted since the last Welcome.
    Exactly(NonZeroU32),
}

impl Attempts {
    /// Whether so many vain attempts are all that are allowed.
    pub(crate) fn reached_by(self, vain: u32) -> bool {
        match self {
            Self::Unlimited => false,
            Self::Exactly(most) => vain >= most.get(),
        }
    }
}
