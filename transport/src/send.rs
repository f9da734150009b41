//! A sending half that RESETs when it is dropped. A bare quinn stream would FIN, and an answer cut short by a panic
//! would look complete.

use crate::codes::StreamCode;
use bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

/// The sending half of a stream. Only [`finish`](Self::finish) ends it well; a drop RESETs it with its drop code.
#[derive(Debug)]
pub struct ResetOnDrop {
    /// `None` once the stream was finished or reset.
    stream: Option<quinn::SendStream>,
    code: StreamCode,
}

/// The stream is not writable any more.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SendError {
    /// Stopped by the peer, or the connection is lost.
    #[error(transparent)]
    Write(#[from] quinn::WriteError),
    /// Already finished or reset by us.
    #[error("the stream is already ended")]
    Ended,
}

impl ResetOnDrop {
    /// Takes the stream; `code` is sent if this is dropped unfinished.
    pub fn new(stream: quinn::SendStream, code: StreamCode) -> Self {
        Self { stream: Some(stream), code }
    }

    /// Writes all of `chunks`, in order, without copying them. A call dropped midway leaves a stream that can only be
    /// reset.
    pub async fn write(&mut self, chunks: &mut [Bytes]) -> Result<(), SendError> {
        let stream = self.stream.as_mut().ok_or(SendError::Ended)?;
        Ok(stream.write_all_chunks(chunks).await?)
    }

    /// Writes as much of `chunks` as the stream takes now and returns how many of them are written whole. What is left of
    /// a chunk stays in it.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<usize, SendError>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(Err(SendError::Ended)) };
        let write = pin!(stream.write_chunks(chunks));
        Poll::Ready(Ok(std::task::ready!(write.poll(cx))?.chunks))
    }

    /// Ends the stream well: the peer reads everything, then its end. Nothing happens on an ended stream.
    pub fn finish(mut self) {
        if let Some(mut stream) = self.stream.take() {
            // An error means that the stream is already closed: there is nothing left to end.
            let _closed = stream.finish();
        }
    }

    /// Ends the stream badly, at once: what the peer has not read is discarded.
    pub fn reset(&mut self, code: StreamCode) {
        if let Some(mut stream) = self.stream.take() {
            let _closed = stream.reset(code.wire());
        }
    }
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        self.reset(self.code);
    }
}
