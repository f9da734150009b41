//! The body of a request to an inference server: held whole, or passed on while it comes. Its length is known before.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// What one request sends.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    /// All of it is here: the request can be sent again.
    Whole(VecDeque<Bytes>),
    /// It is still coming: the request can be sent once.
    Streamed(Arc<Upload>, u64),
}

/// A body on its way through: pushed by the run, taken by HTTP. It has no limit of its own; who pushes sees how much
/// is [`held`](Self::held).
#[derive(Debug)]
pub(crate) struct Upload {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chunks: VecDeque<Bytes>,
    held: usize,
    taken_at: Instant,
    /// Of HTTP, waiting for bytes.
    taker: Option<Waker>,
    /// Of the run, waiting for room.
    pusher: Option<Waker>,
}

impl Upload {
    pub(crate) fn new() -> Self {
        let state =
            State { chunks: VecDeque::new(), held: 0, taken_at: Instant::now(), taker: None, pusher: None };
        Self { state: Mutex::new(state) }
    }

    pub(crate) fn push(&self, chunk: Bytes) {
        let mut state = self.lock();
        state.held += chunk.len();
        state.chunks.push_back(chunk);
        if let Some(taker) = state.taker.take() {
            taker.wake();
        }
    }

    /// Resolves when fewer than `limit` bytes are held.
    pub(crate) async fn room(&self, limit: usize) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            if state.held < limit {
                return Poll::Ready(());
            }
            state.pusher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// When HTTP last took bytes.
    pub(crate) fn taken_at(&self) -> Instant {
        self.lock().taken_at
    }

    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let mut state = self.lock();
        let Some(chunk) = state.chunks.pop_front() else {
            state.taker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        state.held -= chunk.len();
        state.taken_at = Instant::now();
        if let Some(pusher) = state.pusher.take() {
            pusher.wake();
        }
        Poll::Ready(chunk)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Payload {
    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Whole(chunks) => chunks.iter().map(|chunk| chunk.len() as u64).sum(),
            Self::Streamed(_, len) => *len,
        }
    }

    /// Whether the request can be sent again.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
    }

    /// When the inference server last took bytes of a body that is still coming.
    pub(crate) fn taken_at(&self) -> Option<Instant> {
        match self {
            Self::Whole(_) => None,
            Self::Streamed(upload, _) => Some(upload.taken_at()),
        }
    }
}

/// A payload as HTTP takes it.
#[derive(Debug)]
pub(crate) struct RequestBody {
    payload: Payload,
    left: u64,
}

impl From<Payload> for RequestBody {
    fn from(payload: Payload) -> Self {
        let left = payload.len();
        Self { payload, left }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let chunk = match &mut self.payload {
            Payload::Whole(chunks) => chunks.pop_front().expect("as many bytes are left as the chunks hold"),
            Payload::Streamed(upload, _) => std::task::ready!(upload.poll_take(cx)),
        };
        self.left -= chunk.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
