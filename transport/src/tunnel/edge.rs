//! The edge's half of a run. It holds the caller's lease until the node has ended its half, whatever happens here.

use crate::codes::{CloseCode, StreamCode};
use crate::send::ResetOnDrop;
use crate::session::printable;
use crate::tunnel::silence::{Patience, Silence};
use crate::wire::{
    self, CodecError, EVENT_FRAME_BYTES, FrameBuffer, RUN_HEAD_BYTES, RunEvent, RunHead, RunReply,
};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long opening a stream may wait. Admission keeps the number of runs far below the stream limit, so a longer wait
/// means a peer that gives no credit.
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a cancelled run may take to end. Then the connection is closed: the slot is never freed by age alone.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes taken from the stream at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A run that could not be opened. Nothing of it has reached the provider.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The connection is lost.
    #[error(transparent)]
    Connection(#[from] quinn::ConnectionError),
    /// The node gave no stream in time.
    #[error("the node gave no stream within {} ms", OPEN_TIMEOUT.as_millis())]
    NoStream,
    /// The head is too large: the client's request has too many headers.
    #[error(transparent)]
    Head(#[from] CodecError),
}

/// A run that ended before it was complete.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunLost {
    /// The node reset the stream.
    #[error("the node broke the run off: {}", code.map_or("unknown code", StreamCode::explain))]
    Reset {
        /// Its code, where it is one of ours.
        code: Option<StreamCode>,
    },
    /// The connection is lost.
    #[error("the connection to the node is lost: {}", printable(&.0.to_string()))]
    Connection(quinn::ConnectionError),
    /// The node broke the protocol.
    #[error("the node broke the protocol: {0}")]
    Protocol(String),
    /// The node fell silent. It has been told to end the run.
    #[error("the node sent nothing for {} ms", .limit.as_millis())]
    Silent {
        /// How long it was waited for.
        limit: Duration,
    },
}

/// The sending half: uploading the request, and then open as the cancel channel.
struct Sending {
    stream: ResetOnDrop,
    /// Head and body, until all of it is written or cannot be.
    upload: Vec<Bytes>,
    /// How many chunks of `upload` are written whole.
    written: usize,
}

/// The edge's half of a run. `L` is the lease: it is dropped at the moment the node's half ends (finish, reset or loss of
/// the connection). Dropping a run that has not ended cancels it, and the lease is dropped when the node confirms.
pub struct EdgeRun<L: Send + 'static> {
    connection: quinn::Connection,
    provider: String,
    sending: Sending,
    silence: Silence,
    /// Of the silence after the reply.
    idle_limit: Duration,
    /// Bytes read from the stream and not yet given out.
    buffer: FrameBuffer,
    /// `None` once the node's half has ended.
    receiving: Option<(quinn::RecvStream, L)>,
    /// Why the run is not complete: repeated to whoever reads on, who must not take it for a complete one.
    lost: Option<RunLost>,
    cancel_code: StreamCode,
    /// Waits for the end of a cancelled run, wherever this is dropped.
    runtime: tokio::runtime::Handle,
}

impl<L: Send + 'static> EdgeRun<L> {
    /// Opens the run's stream and starts to send `head` and `body`. On an error the lease is dropped. A node that is silent for
    /// longer than `patience` while it is waited for has its run cancelled.
    pub async fn open(
        connection: &quinn::Connection,
        head: &RunHead,
        body: Vec<Bytes>,
        lease: L,
        patience: Patience,
    ) -> Result<Self, OpenError> {
        let frame = wire::encode(&[], head, RUN_HEAD_BYTES)?;
        let (send, recv) = tokio::time::timeout(OPEN_TIMEOUT, connection.open_bi())
            .await
            .map_err(|_elapsed| OpenError::NoStream)??;
        let mut upload = Vec::with_capacity(1 + body.len());
        upload.push(frame);
        upload.extend(body);
        Ok(Self {
            connection: connection.clone(),
            provider: head.provider.clone(),
            sending: Sending { stream: ResetOnDrop::new(send, StreamCode::ClientGone), upload, written: 0 },
            silence: Silence::new(patience.reply),
            idle_limit: patience.idle,
            buffer: FrameBuffer::default(),
            receiving: Some((recv, lease)),
            lost: None,
            cancel_code: StreamCode::ClientGone,
            runtime: tokio::runtime::Handle::current(),
        })
    }

    /// The code that a drop of this unfinished run sends to the node. Default: the client is gone.
    pub fn set_cancel_code(&mut self, code: StreamCode) {
        self.cancel_code = code;
    }

    /// The lease, while the node's half has not ended.
    pub fn lease(&self) -> Option<&L> {
        self.receiving.as_ref().map(|(_, lease)| lease)
    }

    /// The node's answer head. Once, before anything else.
    pub async fn reply(&mut self) -> Result<RunReply, RunLost> {
        match std::future::poll_fn(|cx| self.poll_frame(cx, RUN_HEAD_BYTES)).await? {
            Some(reply) => {
                self.silence.set_limit(self.idle_limit);
                Ok(reply)
            }
            None => Err(self.fail(RunLost::Protocol("the run ended without a reply".into()))),
        }
    }

    /// The next event of a normalized run; `None` at the end of a complete run. Cancel-safe.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<RunEvent>, RunLost>> {
        self.poll_frame(cx, EVENT_FRAME_BYTES)
    }

    /// The next bytes of a tunnel run; `None` at the end of a complete run. Cancel-safe.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, RunLost>> {
        if !self.buffer.is_empty() {
            return Poll::Ready(Ok(Some(self.buffer.take())));
        }
        self.poll_read(cx)
    }

    /// Waits until the node has ended its half, discarding what it still sends: after a refusal, whose end follows. A
    /// node that takes longer than a cancelled run may is cancelled.
    pub async fn drain(&mut self) -> Result<(), RunLost> {
        let end = async {
            while std::future::poll_fn(|cx| self.poll_chunk(cx)).await?.is_some() {}
            Ok(())
        };
        match tokio::time::timeout(CANCEL_TIMEOUT, end).await {
            Ok(result) => result,
            Err(_elapsed) => Err(self.violated("the run did not end after its last message".into())),
        }
    }

    fn poll_frame<M: DeserializeOwned>(
        &mut self,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Result<Option<M>, RunLost>> {
        loop {
            match self
                .buffer
                .next_frame(limit)
                .and_then(|frame| frame.map(|bytes| wire::decode(&bytes)).transpose())
            {
                Ok(Some(message)) => return Poll::Ready(Ok(Some(message))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(self.violated(error.to_string()))),
            }
            match std::task::ready!(self.poll_read(cx))? {
                Some(bytes) => self.buffer.push(&bytes),
                None if self.buffer.is_empty() => return Poll::Ready(Ok(None)),
                None => {
                    let lost = RunLost::Protocol("the run ended inside a message".into());
                    return Poll::Ready(Err(self.fail(lost)));
                }
            }
        }
    }

    /// Reads from the stream itself and sees its end: the one place where a run ends without being cancelled. And the one
    /// place where the node is waited for.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, RunLost>> {
        let progress = self.sending.poll(cx);
        let Some((recv, _)) = &mut self.receiving else {
            return Poll::Ready(self.lost.clone().map_or(Ok(None), Err));
        };
        let read = pin!(recv.read_chunk(CHUNK_BYTES, true)).poll(cx);
        if progress || read.is_ready() {
            self.silence.end();
        }
        let Poll::Ready(result) = read else {
            std::task::ready!(self.silence.poll(cx));
            return Poll::Ready(Err(self.fell_silent()));
        };
        Poll::Ready(match result {
            Ok(Some(chunk)) => Ok(Some(chunk.bytes)),
            Ok(None) => {
                self.ended();
                Ok(None)
            }
            Err(error) => Err(self.lost(error)),
        })
    }

    /// The node's half has ended well: the lease goes first, then our half.
    fn ended(&mut self) {
        self.receiving = None;
        self.sending.reset(StreamCode::Done);
    }

    fn lost(&mut self, error: quinn::ReadError) -> RunLost {
        self.ended();
        self.fail(match error {
            quinn::ReadError::Reset(code) => RunLost::Reset { code: StreamCode::from_wire(code) },
            quinn::ReadError::ConnectionLost(error) => RunLost::Connection(error),
            other => RunLost::Protocol(other.to_string()),
        })
    }

    /// The peer broke the protocol on this stream. Its half may still run: the run is cancelled like any other.
    fn violated(&mut self, problem: String) -> RunLost {
        self.cancel(StreamCode::Protocol);
        self.fail(RunLost::Protocol(problem))
    }

    /// The node has sent nothing for too long, though its connection stands.
    fn fell_silent(&mut self) -> RunLost {
        let limit = self.silence.limit();
        tracing::warn!(
            address = %crate::peer::address(&self.connection),
            provider = self.provider,
            silent_ms = limit.as_millis(),
            "a node was silent for longer than it may; cancelling its run"
        );
        self.cancel(StreamCode::NodeSilent);
        self.fail(RunLost::Silent { limit })
    }

    /// Remembers why the run is not complete. What was read and not given out is part of nothing.
    fn fail(&mut self, lost: RunLost) -> RunLost {
        self.buffer = FrameBuffer::default();
        self.lost = Some(lost.clone());
        lost
    }

    fn cancel(&mut self, code: StreamCode) {
        let Some((recv, lease)) = self.receiving.take() else { return };
        self.sending.reset(code);
        self.runtime.spawn(reap(self.connection.clone(), recv, lease));
    }
}

impl<L: Send + 'static> Drop for EdgeRun<L> {
    fn drop(&mut self) {
        self.cancel(self.cancel_code);
    }
}

impl Sending {
    /// Writes as much as goes now. Whether it was anything.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while self.written < self.upload.len() {
            match self.stream.poll_write(cx, &mut self.upload[self.written..]) {
                Poll::Ready(Ok(chunks)) => {
                    self.written += chunks;
                    progress = true;
                }
                // A failed write is not an outcome: the node's half tells what became of the run.
                Poll::Ready(Err(_failed)) => break,
                Poll::Pending => return progress,
            }
        }
        self.discard();
        progress
    }

    /// Ends our half, uploaded or not, so that the stream's credit comes back.
    fn reset(&mut self, code: StreamCode) {
        self.discard();
        self.stream.reset(code);
    }

    fn discard(&mut self) {
        self.upload.clear();
        self.written = 0;
    }
}

/// Reads a cancelled run to its end and then drops the lease. Ends by itself: the node ends its half, the connection is
/// lost, or it is closed here when the node does not answer.
async fn reap<L: Send>(connection: quinn::Connection, mut recv: quinn::RecvStream, lease: L) {
    let end = async { while let Ok(Some(_discarded)) = recv.read_chunk(CHUNK_BYTES, true).await {} };
    if tokio::time::timeout(CANCEL_TIMEOUT, end).await.is_err() {
        tracing::error!(
            address = %crate::peer::address(&connection),
            timeout_ms = CANCEL_TIMEOUT.as_millis(),
            "a cancelled run did not end; closing the node's connection"
        );
        crate::close(&connection, CloseCode::CancelTimeout, b"a cancelled run did not end");
    }
    drop(lease);
}
