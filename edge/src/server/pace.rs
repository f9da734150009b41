//! Notices that a client takes nothing of its answer. On the socket, where bytes that wait are seen: that is HTTP/1.1,
//! and HTTP/2 when its whole connection is stuck. While there is nothing to send, no time counts.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a client may take nothing. Asked each time, since the setting may change.
#[derive(Clone)]
pub(crate) struct StallLimit(Arc<dyn Fn() -> Duration + Send + Sync>);

impl StallLimit {
    pub(crate) fn new(limit: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(limit))
    }

    pub(super) fn get(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for StallLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StallLimit").field(&self.get()).finish()
    }
}

/// Whether the client of one request has stopped reading. Every request has one among its extensions.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientPace {
    connection: Arc<AtomicBool>,
    /// The request's own stream of an HTTP/2 connection.
    stream: Arc<AtomicBool>,
}

impl ClientPace {
    /// Of another request on the same connection.
    pub(super) fn of_next_request(&self) -> Self {
        Self { connection: self.connection.clone(), stream: Arc::default() }
    }

    /// Whether its answer was given up because it stopped reading.
    pub(crate) fn has_stalled(&self) -> bool {
        self.connection.load(Ordering::Relaxed) || self.stream.load(Ordering::Relaxed)
    }

    pub(super) fn connection_stalled(&self) {
        self.connection.store(true, Ordering::Relaxed);
    }

    pub(super) fn stream_stalled(&self) {
        self.stream.store(true, Ordering::Relaxed);
    }
}

/// A connection whose writes fail once it has taken nothing for too long.
pub(super) struct PacedIo<T> {
    io: T,
    limit: StallLimit,
    pace: ClientPace,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> PacedIo<T> {
    pub(super) fn new(io: T, limit: StallLimit, pace: ClientPace) -> Self {
        Self { io, limit, pace, timer: None }
    }

    fn check(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let limit = &self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit.get())));
        std::task::ready!(timer.as_mut().poll(cx));
        self.pace.connection_stalled();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PacedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.check(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.check(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PacedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}
