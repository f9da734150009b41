//! The node's half of a run: its head, exactly its body, the cancel signal, and a reply that RESETs unless it is ended.

use crate::codes::StreamCode;
use crate::send::{ResetOnDrop, SendError};
use crate::wire::{
    self, CodecError, EVENT_FRAME_BYTES, FrameError, RUN_HEAD_BYTES, RunEvent, RunHead, RunReply,
};
use bytes::Bytes;
use std::time::Duration;

/// How long the edge may take to send a run's head after it opened the stream.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes taken from the stream at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A run whose head did not come. Nothing was started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HeadError {
    /// The stream broke or carried something else. The edge may have cancelled before the head was read.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The head did not come in time.
    #[error("no head within {} ms", HEAD_TIMEOUT.as_millis())]
    Timeout,
}

/// A run as the node received it.
#[derive(Debug)]
pub struct NodeRun {
    /// What is asked for.
    pub head: RunHead,
    /// The request's body, and behind it the cancel signal.
    pub body: RunBody,
    /// The answer.
    pub reply: NodeReply,
}

impl NodeRun {
    /// Reads the head. On an error the stream is reset (a cancelled one with [`StreamCode::Cancelled`]).
    pub async fn accept(send: quinn::SendStream, mut recv: quinn::RecvStream) -> Result<Self, HeadError> {
        let mut reply = NodeReply { stream: ResetOnDrop::new(send, StreamCode::NodeDropped) };
        let read = async {
            let frame = wire::read_frame(&mut recv, RUN_HEAD_BYTES).await?.ok_or(FrameError::Ended)?;
            wire::decode(&frame).map_err(|error| FrameError::from(error).into())
        };
        let result = tokio::time::timeout(HEAD_TIMEOUT, read).await;
        match result.unwrap_or(Err(HeadError::Timeout)) {
            Ok(head) => {
                let RunHead { body_len, .. } = head;
                Ok(Self { head, body: RunBody { stream: Ok(recv), left: body_len, watched: false }, reply })
            }
            Err(error) => {
                let cancelled = matches!(error, HeadError::Frame(FrameError::Read(_)));
                reply.stream.reset(if cancelled { StreamCode::Cancelled } else { StreamCode::Protocol });
                Err(error)
            }
        }
    }
}

/// The request's body, exactly as long as the head said, and behind it the cancel signal.
#[derive(Debug)]
pub struct RunBody {
    /// What to end the reply with, once the edge's half has ended.
    stream: Result<quinn::RecvStream, StreamCode>,
    left: u64,
    /// Whether a reset was waited for while the body was not read whole.
    watched: bool,
}

impl RunBody {
    /// Bytes that have not been read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes; `None` after the last. Cancel-safe. `Err`: the edge cancelled or is gone; end the run.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, StreamCode> {
        let stream = self.stream.as_mut().map_err(|code| *code)?;
        if self.left == 0 {
            return Ok(None);
        }
        let most = usize::try_from(self.left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        match stream.read_chunk(most, true).await {
            Ok(Some(chunk)) => {
                self.left -= chunk.bytes.len() as u64;
                Ok(Some(chunk.bytes))
            }
            Ok(None) => Err(self.finished()),
            Err(_reset_or_lost) => Err(self.end(StreamCode::Cancelled)),
        }
    }

    /// Resolves when the edge cancels the run or is gone, and only then, with the code to end the reply with.
    /// Cancel-safe. Also for the time in which a piece of the body waits for the inference server: while the body is not
    /// read whole, what is left of it stays to be read. After the body, anything that comes breaks the protocol.
    pub async fn cancelled(&mut self) -> StreamCode {
        let stream = match &mut self.stream {
            Ok(stream) => stream,
            Err(code) => return *code,
        };
        if self.left > 0 {
            self.watched = true;
            // Reset, or the connection is lost: a stream that is not read to its end has no other news.
            let _reset_or_lost = stream.received_reset().await;
            return self.end(StreamCode::Cancelled);
        }
        match stream.read_chunk(CHUNK_BYTES, true).await {
            Ok(Some(_bytes)) => self.end(StreamCode::Protocol),
            Ok(None) => self.finished(),
            Err(_reset_or_lost) => self.end(StreamCode::Cancelled),
        }
    }

    fn end(&mut self, code: StreamCode) -> StreamCode {
        self.stream = Err(code);
        code
    }

    /// The edge finished its half, which it never may.
    fn finished(&mut self) -> StreamCode {
        let stream = std::mem::replace(&mut self.stream, Err(StreamCode::Protocol));
        // With debug assertions quinn panics, its connection locked, when it drops a stream that was read to its end
        // and once had a wait for a reset given up. Leaked is only a reference to the connection of a broken edge.
        if cfg!(debug_assertions) && self.watched {
            std::mem::forget(stream);
        }
        StreamCode::Protocol
    }
}

/// The node's answer. Dropped unended it RESETs with [`StreamCode::NodeDropped`].
#[derive(Debug)]
pub struct NodeReply {
    stream: ResetOnDrop,
}

/// An answer that could not be sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplyError {
    /// Too large for its kind.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The stream is gone.
    #[error(transparent)]
    Stream(#[from] SendError),
}

impl NodeReply {
    /// Sends the head of the answer. Once, before anything else.
    pub async fn head(&mut self, reply: &RunReply) -> Result<(), ReplyError> {
        let frame = wire::encode(&[], reply, RUN_HEAD_BYTES)?;
        Ok(self.stream.write(&mut [frame]).await?)
    }

    /// Sends the head and the first bytes together.
    pub async fn head_and_bytes(&mut self, reply: &RunReply, bytes: Bytes) -> Result<(), ReplyError> {
        let frame = wire::encode(&[], reply, RUN_HEAD_BYTES)?;
        Ok(self.stream.write(&mut [frame, bytes]).await?)
    }

    /// Sends bytes of a tunnel's answer.
    pub async fn bytes(&mut self, bytes: Bytes) -> Result<(), ReplyError> {
        Ok(self.stream.write(&mut [bytes]).await?)
    }

    /// Sends an event of a normalized run.
    pub async fn event(&mut self, event: &RunEvent) -> Result<(), ReplyError> {
        let frame = wire::encode(&[], event, EVENT_FRAME_BYTES)?;
        Ok(self.stream.write(&mut [frame]).await?)
    }

    /// Ends a complete answer.
    pub fn finish(self) {
        self.stream.finish();
    }

    /// Ends an answer that is not complete.
    pub fn fail(mut self, code: StreamCode) {
        self.stream.reset(code);
    }
}
