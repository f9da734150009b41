//! Notices that the client of one HTTP/2 stream takes nothing of its answer while the connection goes on: a piece was
//! handed to the stream and the next is not asked for. Then the answer is dropped where it is.

use super::pace::{ClientPace, StallLimit};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Most bytes handed over at once: a slow client must have taken so many within the limit.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// How many times within the limit a stream is looked at.
const LOOKS: u32 = 8;

/// An error of any body.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body that ends when its stream's client stops reading.
pub(super) struct PacedBody<B> {
    shared: Arc<Mutex<State<B>>>,
    limit: StallLimit,
    pace: ClientPace,
    /// Looks at the stream; begins with the first piece.
    watchdog: Option<AbortHandle>,
}

struct State<B> {
    /// `None` once it was dropped because the client stopped reading.
    body: Option<B>,
    /// What is left of its last frame.
    rest: Bytes,
    /// When a piece was handed over, if none was asked for since.
    handed: Option<Instant>,
}

impl<B> PacedBody<B> {
    pub(super) fn new(body: B, limit: StallLimit, pace: ClientPace) -> Self {
        let state = State { body: Some(body), rest: Bytes::new(), handed: None };
        Self { shared: Arc::new(Mutex::new(state)), limit, pace, watchdog: None }
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        lock(&self.shared)
    }
}

fn lock<B>(shared: &Mutex<State<B>>) -> MutexGuard<'_, State<B>> {
    shared.lock().expect("a body that panics takes its connection with it")
}

impl<B> Body for PacedBody<B>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.lock();
        state.handed = None;
        let State { body, rest, handed } = &mut *state;
        let Some(body) = body else {
            return Poll::Ready(Some(Err("the client stopped reading".into())));
        };
        if rest.is_empty() {
            match std::task::ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => *rest = bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        *handed = Some(Instant::now());
        drop(state);
        if self.watchdog.is_none() && !self.is_end_stream() {
            let watched = watch(Arc::downgrade(&self.shared), self.limit.clone(), self.pace.clone());
            self.watchdog = Some(tokio::spawn(watched).abort_handle());
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.lock();
        state.rest.is_empty() && state.body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.lock();
        match state.body.as_ref().map(Body::size_hint) {
            Some(hint) if state.rest.is_empty() => hint,
            _ => SizeHint::default(),
        }
    }
}

impl<B> Drop for PacedBody<B> {
    fn drop(&mut self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.abort();
        }
    }
}

/// Looks at a stream until it has ended or stalled.
async fn watch<B>(stream: Weak<Mutex<State<B>>>, limit: StallLimit, pace: ClientPace) {
    loop {
        let limit = limit.get();
        tokio::time::sleep(limit / LOOKS).await;
        let Some(stream) = stream.upgrade() else { return };
        let stalled = {
            let mut state = lock(&stream);
            let is_stalled = state.handed.is_some_and(|handed| handed.elapsed() >= limit);
            if is_stalled { state.body.take() } else { None }
        };
        if let Some(body) = stalled {
            pace.stream_stalled();
            tracing::debug!("a stream's client stopped reading");
            drop(body);
            return;
        }
    }
}
