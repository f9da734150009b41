//! How long a node may be silent in a run. Only time in which the edge waits for it counts, never time in which nobody reads
//! on. A piece costs no timer operation: the alarm is moved only when it fires.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How long the edge's half of a run waits for a node that sends nothing and takes nothing. Longer than an honest node may
/// take, which holds its inference server to limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the reply.
    pub reply: Duration,
    /// After the reply, for the next bytes or the end.
    pub idle: Duration,
}

/// The silence of one run's node.
pub(super) struct Silence {
    limit: Duration,
    /// Since when the node is waited for; `None` while it is not.
    since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: None, alarm: None }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// From now on with another limit.
    pub(super) fn set_limit(&mut self, limit: Duration) {
        *self = Self::new(limit);
    }

    /// Something came from the node, or was taken by it.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// The node is waited for. Ready once that has lasted for the limit.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let due = since + self.limit;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        while alarm.as_mut().poll(cx).is_ready() {
            if since.elapsed() >= self.limit {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}
