//! Connections of one inference server that wait for their next request. Bounded in number and age; a connection that
//! the server closes is closed here too. New connections are not made here.

use super::connection::Connection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// How long a connection waits. Servers commonly close idle ones after 5 to 75 s.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// The idle connections.
pub(crate) struct Pool {
    state: Arc<Mutex<State>>,
}

struct State {
    /// Oldest first.
    idle: Vec<Idle>,
    limit: usize,
    keeper: Option<Keeper>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// The task that watches the idle connections while there are any.
struct Keeper {
    /// `None` before its first turn.
    waker: Option<Waker>,
    _task: AbortOnDropHandle<()>,
}

impl Pool {
    pub(crate) fn new(limit: u32) -> Self {
        let state = State { idle: Vec::new(), limit: size(limit), keeper: None };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// At most this many connections wait. Surplus ones are closed.
    pub(crate) fn set_limit(&self, limit: u32) {
        let mut state = lock(&self.state);
        state.limit = size(limit);
        let surplus = state.idle.len().saturating_sub(state.limit);
        state.idle.drain(..surplus);
    }

    /// The connection used last, if one is still good.
    pub(crate) async fn take(&self) -> Option<Connection> {
        std::future::poll_fn(|cx| {
            let mut state = lock(&self.state);
            while let Some(Idle { mut connection, since }) = state.idle.pop() {
                connection.poll(cx);
                if connection.is_idle() && since.elapsed() < IDLE_LIMIT {
                    connection.mark_reused();
                    return Poll::Ready(Some(connection));
                }
            }
            Poll::Ready(None)
        })
        .await
    }

    /// Keeps the connection if it can serve again and there is room, else closes it.
    pub(crate) fn put(&self, mut connection: Connection) {
        let mut state = lock(&self.state);
        let waker = match &state.keeper {
            Some(keeper) => keeper.waker.clone().unwrap_or_else(|| Waker::noop().clone()),
            None => {
                let task = tokio::spawn(keep(Arc::downgrade(&self.state)));
                state.keeper = Some(Keeper { waker: None, _task: AbortOnDropHandle::new(task) });
                Waker::noop().clone()
            }
        };
        // The keeper is woken when something happens to the connection, not for its arrival. A keeper that has not had
        // its first turn polls it then.
        connection.poll(&mut Context::from_waker(&waker));
        if connection.is_idle() && state.idle.len() < state.limit {
            state.idle.push(Idle { connection, since: Instant::now() });
        }
    }
}

impl State {
    /// Closes what is dead or too old; the time at which the next one will be too old, if any is left.
    fn sweep(&mut self, cx: &mut Context<'_>) -> Option<Instant> {
        self.idle.retain_mut(|idle| {
            idle.connection.poll(cx);
            idle.connection.is_idle() && idle.since.elapsed() < IDLE_LIMIT
        });
        self.idle.first().map(|oldest| oldest.since + IDLE_LIMIT)
    }
}

/// Watches the idle connections until none is left or the pool is gone.
async fn keep(pool: Weak<Mutex<State>>) {
    let mut alarm = std::pin::pin!(tokio::time::sleep(IDLE_LIMIT));
    std::future::poll_fn(|cx| {
        loop {
            let Some(state) = pool.upgrade() else { return Poll::Ready(()) };
            let mut state = lock(&state);
            let Some(next) = state.sweep(cx) else {
                state.keeper = None;
                return Poll::Ready(());
            };
            if let Some(keeper) = &mut state.keeper {
                keeper.waker = Some(cx.waker().clone());
            }
            drop(state);
            alarm.as_mut().reset(next);
            std::task::ready!(alarm.as_mut().poll(cx));
        }
    })
    .await;
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A panic inside HTTP leaves the list itself whole.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
