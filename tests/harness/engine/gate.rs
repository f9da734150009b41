//! The gate where requests wait until the test lets them go, first come first served.
//! Requests whose client has gone leave it by themselves.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    waiting: VecDeque<(usize, oneshot::Sender<()>)>,
}

impl Gate {
    pub(super) fn hold(&self) {
        self.state().closed = true;
    }

    /// Lets the longest waiting request go and returns its number.
    pub(super) fn release_one(&self) -> Option<usize> {
        let mut state = self.state();
        while let Some((number, waiter)) = state.waiting.pop_front() {
            if waiter.send(()).is_ok() {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn release_all(&self) {
        let mut state = self.state();
        state.closed = false;
        for (_, waiter) in state.waiting.drain(..) {
            // A failed send is a request whose client has gone.
            let _gone = waiter.send(());
        }
    }

    pub(super) fn held(&self) -> usize {
        let mut state = self.state();
        state.waiting.retain(|(_, waiter)| !waiter.is_closed());
        state.waiting.len()
    }

    /// Waits when the gate is closed, or in any case when the script says so (`always`).
    pub(super) async fn pass(&self, number: usize, always: bool) {
        let waiter = {
            let mut state = self.state();
            if !state.closed && !always {
                return;
            }
            let (sender, waiter) = oneshot::channel();
            state.waiting.push_back((number, sender));
            waiter
        };
        if waiter.await.is_err() {
            // The gate went away with its engine: nobody is left to answer.
            std::future::pending::<()>().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
