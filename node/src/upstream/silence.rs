//! A limit on silence that costs no timer operation per byte: the timer is moved only when it fires.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

#[derive(Debug)]
pub(crate) struct Silence {
    limit: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Silence {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, alarm: Box::pin(tokio::time::sleep(limit)) }
    }

    /// Ready once nothing has happened for the limit after `since`.
    pub(crate) fn poll(&mut self, since: Instant, cx: &mut Context<'_>) -> Poll<()> {
        while self.alarm.as_mut().poll(cx).is_ready() {
            if since.elapsed() >= self.limit {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(since + self.limit);
        }
        Poll::Pending
    }
}
