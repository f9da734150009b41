//! The answer of an inference server while it comes in. It owns the connection: dropped early it closes it, read to the
//! end it gives it back to the pool before the end is told.

use super::connection::Connection;
use super::error::AnswerError;
use super::pool::Pool;
use super::silence::Silence;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use hyper::body::{Body, Incoming};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// A response whose head has come.
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    /// `None` once it was given back.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    idle_limit: Duration,
    silence: Silence,
}

impl Answer {
    pub(crate) fn new(
        response: Response<Incoming>,
        connection: Connection,
        pool: Arc<Pool>,
        idle_limit: Duration,
    ) -> Self {
        let (head, body) = response.into_parts();
        let silence = Silence::new(idle_limit);
        Self {
            status: head.status,
            headers: head.headers,
            body,
            connection: Some(connection),
            pool,
            idle_limit,
            silence,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers, once.
    pub(crate) fn take_headers(&mut self) -> HeaderMap {
        std::mem::take(&mut self.headers)
    }

    /// What is here without waiting; `None` if nothing is.
    pub(crate) async fn at_once(&mut self) -> Option<Result<Option<Bytes>, AnswerError>> {
        std::future::poll_fn(|cx| match self.poll_chunk(cx) {
            Poll::Ready(chunk) => Poll::Ready(Some(chunk)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// The next bytes; `None` at the end of a whole answer. Only waiting counts as silence, not the time between calls.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, AnswerError> {
        let since = Instant::now();
        std::future::poll_fn(|cx| {
            if let Poll::Ready(chunk) = self.poll_chunk(cx) {
                return Poll::Ready(chunk);
            }
            std::task::ready!(self.silence.poll(since, cx));
            Poll::Ready(Err(AnswerError::Stalled { limit: self.idle_limit }))
        })
        .await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, AnswerError>> {
        loop {
            if let Some(connection) = &mut self.connection {
                connection.poll(cx);
            }
            let Some(frame) = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
                if let Some(connection) = self.connection.take() {
                    self.pool.put(connection);
                }
                return Poll::Ready(Ok(None));
            };
            // Trailers are not part of any inference API.
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                return Poll::Ready(Ok(Some(bytes)));
            }
        }
    }
}
