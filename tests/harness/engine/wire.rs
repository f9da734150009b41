//! The engine's end of one TCP connection, under hyper: it can put other bytes in place of hyper's, reset instead
//! of closing, and it notes when an answer has left and when the connection is gone.

use super::server::Shared;
use bytes::{Buf, Bytes};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;

/// What a request's script asks of its connection; shared between the connection and the script.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Sent instead of all that hyper writes from now on.
    raw: Option<Bytes>,
    /// The connection ends with RST instead of FIN.
    reset: bool,
    /// The request whose whole answer was given to hyper and has yet to leave hyper's buffer.
    finished: Option<usize>,
}

impl Wishes {
    pub(super) fn send_instead(&self, raw: Bytes) {
        self.state().raw = Some(raw);
    }

    pub(super) fn reset(&self) {
        self.state().reset = true;
    }

    pub(super) fn finished(&self, number: usize) {
        self.state().finished = Some(number);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Wire {
    stream: TokioIo<TcpStream>,
    pub(super) number: usize,
    pub(super) wishes: Arc<Wishes>,
    shared: Arc<Shared>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, shared: Arc<Shared>) -> Self {
        let number = shared.log().opened();
        Self { stream: TokioIo::new(stream), number, wishes: Arc::default(), shared }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.wishes.state().reset {
            // Fails only on a socket that is gone already.
            let _gone = self.stream.inner().set_zero_linger();
        }
        self.shared.log().closed(self.number);
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self;
        let mut state = wire.wishes.state();
        if let Some(raw) = &mut state.raw {
            while raw.has_remaining() {
                let sent = ready!(Pin::new(&mut wire.stream).poll_write(context, raw))?;
                raw.advance(sent);
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        let Some(number) = state.finished else {
            return Pin::new(&mut wire.stream).poll_write(context, bytes);
        };
        // The last of an answer leaves under the log's lock: whoever has read it finds it counted as written.
        // `is_write_vectored` is false, so `bytes` is all that hyper has left.
        let mut log = wire.shared.log();
        let sent = ready!(Pin::new(&mut wire.stream).poll_write(context, bytes))?;
        if sent == bytes.len() {
            state.finished = None;
            log.answered(number);
        }
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
