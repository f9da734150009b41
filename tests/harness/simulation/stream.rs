//! Byte streams in memory that behave like TCP of one machine: bounded, half-closable, reset when a process dies, still
//! when one is frozen. What flows in them is not looked at.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that one direction holds.
const CAPACITY: usize = 64 << 10;

/// One end. Its drop closes it.
#[derive(Debug)]
pub(super) struct Stream {
    cable: Cable,
    /// Which of the two ends this is.
    end: usize,
}

/// Both ends from outside: to cut, to freeze, to look at. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Cable {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// What each end wrote and the other has not read.
    written: [VecDeque<u8>; 2],
    /// Whether each end will write no more.
    finished: [bool; 2],
    /// Whether each end is gone.
    dropped: [bool; 2],
    cut: bool,
    frozen: bool,
    wakers: [Vec<Waker>; 2],
}

/// A connected pair.
pub(super) fn pair() -> (Stream, Stream, Cable) {
    let cable = Cable { state: Arc::default() };
    (Stream { cable: cable.clone(), end: 0 }, Stream { cable: cable.clone(), end: 1 }, cable)
}

impl Cable {
    /// Both ends see a reset.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        state.cut = true;
        state.wake();
    }

    /// Nothing moves while frozen.
    pub(super) fn freeze(&self, frozen: bool) {
        let mut state = self.lock();
        state.frozen = frozen;
        state.wake();
    }

    /// Whether one of the ends is there.
    pub(super) fn is_open(&self) -> bool {
        let state = self.lock();
        !state.dropped[0] || !state.dropped[1]
    }

    /// Whether the first end, which opened the connection, is there and not cut off.
    pub(super) fn is_held_by_opener(&self) -> bool {
        let state = self.lock();
        !state.dropped[0] && !state.cut
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a stream")
    }
}

impl State {
    fn wake(&mut self) {
        self.wakers.iter_mut().flat_map(|wakers| wakers.drain(..)).for_each(Waker::wake);
    }

    fn wait(&mut self, end: usize, cx: &Context<'_>) {
        let wakers = &mut self.wakers[end];
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
    }
}

impl Stream {
    /// Resolves when the other end is gone, read or not.
    pub(super) async fn peer_gone(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.cable.lock();
            if state.cut || (state.dropped[1 - self.end] && !state.frozen) {
                return Poll::Ready(());
            }
            state.wait(self.end, cx);
            Poll::Pending
        })
        .await;
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let peer = 1 - self.end;
        let mut state = self.cable.lock();
        if state.cut {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.frozen || (state.written[peer].is_empty() && !state.finished[peer]) {
            state.wait(self.end, cx);
            return Poll::Pending;
        }
        let waiting = &mut state.written[peer];
        let count = waiting.len().min(buffer.remaining());
        let (front, back) = waiting.as_slices();
        let of_front = count.min(front.len());
        buffer.put_slice(&front[..of_front]);
        buffer.put_slice(&back[..count - of_front]);
        waiting.drain(..count);
        if count > 0 {
            state.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.cable.lock();
        if state.cut {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.dropped[1 - self.end] {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = CAPACITY - state.written[self.end].len();
        if room == 0 || state.frozen {
            state.wait(self.end, cx);
            return Poll::Pending;
        }
        let count = room.min(bytes.len());
        state.written[self.end].extend(&bytes[..count]);
        state.wake();
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.cable.lock();
        state.finished[self.end] = true;
        state.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.cable.lock();
        state.finished[self.end] = true;
        state.dropped[self.end] = true;
        state.wake();
    }
}
