//! What comes from the edge during a run: the body, and behind it the cancel signal. The answer is not written here.

use crate::upstream::{Payload, Upload};
use bytes::Bytes;
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::RunBody;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Bodies up to this size are held whole, so that a request can be sent again on a fresh connection. Chat requests
/// without images are far smaller.
const WHOLE_BYTES: u64 = 1 << 20;

/// What is held of a larger body while the inference server does not take it.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// How long the edge may be silent in the middle of a body that it holds in memory.
const BODY_SILENCE: Duration = Duration::from_secs(60);

/// A run's body and cancel signal.
pub(crate) struct Inbound {
    body: RunBody,
    body_len: u64,
    upload: Option<Arc<Upload>>,
}

impl Inbound {
    pub(crate) fn new(body: RunBody, body_len: u64) -> Self {
        Self { body, body_len, upload: None }
    }

    pub(crate) fn body_len(&self) -> u64 {
        self.body_len
    }

    /// The body as a payload: small ones whole, large ones while they come, which needs [`or_cancelled`](Self::or_cancelled).
    pub(crate) async fn payload(&mut self) -> Result<Payload, StreamCode> {
        if self.body_len <= WHOLE_BYTES {
            return Ok(Payload::Whole(self.collect().await?));
        }
        let upload = Arc::new(Upload::new());
        self.upload = Some(Arc::clone(&upload));
        Ok(Payload::Streamed(upload, self.body_len))
    }

    /// The whole body. Its size is the caller's to check.
    pub(crate) async fn collect(&mut self) -> Result<VecDeque<Bytes>, StreamCode> {
        let mut chunks = VecDeque::new();
        while let Some(chunk) = next_chunk(&mut self.body).await? {
            chunks.push_back(chunk);
        }
        Ok(chunks)
    }

    /// Does `work`. If the edge cancels or is gone before it is done, `work` is dropped, and the code for the reply's end
    /// is returned after that.
    pub(crate) async fn or_cancelled<W: Future>(mut self, work: W) -> Result<W::Output, StreamCode> {
        tokio::select! {
            biased;
            code = self.watch() => Err(code),
            output = work => Ok(output),
        }
    }

    /// Passes the body on, then waits for the cancel signal. Cancel-safe.
    async fn watch(&mut self) -> StreamCode {
        while let Some(upload) = &self.upload {
            tokio::select! {
                biased;
                () = upload.room(READ_AHEAD_BYTES) => {}
                code = self.body.cancelled() => return code,
            }
            match next_chunk(&mut self.body).await {
                Ok(Some(chunk)) => upload.push(chunk),
                Ok(None) => self.upload = None,
                Err(code) => return code,
            }
        }
        self.body.cancelled().await
    }
}

async fn next_chunk(body: &mut RunBody) -> Result<Option<Bytes>, StreamCode> {
    tokio::time::timeout(BODY_SILENCE, body.chunk()).await.unwrap_or(Err(StreamCode::Protocol))
}
