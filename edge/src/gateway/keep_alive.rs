//! Keeps a requested stream alive while nothing of its answer is there: comment lines, which readers of event streams skip,
//! until the first byte. The first comment fixes the status, so what goes wrong afterwards becomes an error event.

use super::relay::mark_unbuffered;
use super::route::Dialect;
use super::{AnswerBroken, Body, GatewayError};
use crate::render::error::{StreamDialect, stream_event};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Frame;
use iop_transport::session::printable;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// A comment and the blank line that ends it for readers who look for events only.
const COMMENT: &[u8] = b": keep-alive\n\n";

/// Most bytes of a provider's error that are shown in an event.
const DETAIL_BYTES: usize = 16 << 10;

/// The answer that `run` comes to, if that is soon enough; else a stream that begins with comments, `interval` apart.
pub(super) async fn answer(
    run: impl Future<Output = Result<Response<Body>, GatewayError>> + Send + 'static,
    interval: Duration,
    dialect: Dialect,
) -> Result<Response<Body>, GatewayError> {
    let mut run = Box::pin(run);
    let mut timer = Box::pin(tokio::time::sleep(interval));
    let begun = tokio::select! {
        biased;
        answer = &mut run => Some(answer?),
        () = &mut timer => None,
    };
    match begun {
        Some(response) if is_event_stream(&response) => {
            Ok(response.map(|body| KeepAlive { phase: Phase::Silent(body), interval, timer }.boxed_unsync()))
        }
        Some(response) => Ok(response),
        None => {
            let phase = Phase::Starting(Box::pin(async move { begin(run.await, dialect).await }));
            let mut response = Response::new(KeepAlive { phase, interval, timer }.boxed_unsync());
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            mark_unbuffered(headers);
            Ok(response)
        }
    }
}

/// Whether comments may stand in front of this answer's bytes.
fn is_event_stream(response: &Response<Body>) -> bool {
    let headers = response.headers();
    let content_type = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    response.status() == StatusCode::OK
        && content_type.to_ascii_lowercase().starts_with(b"text/event-stream")
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::CONTENT_LENGTH)
}

/// The rest of a stream that has begun with comments: the answer's own events, or the event that says why there are none.
async fn begin(answer: Result<Response<Body>, GatewayError>, dialect: Dialect) -> Result<Body, Bytes> {
    let (code, message) = match answer {
        Ok(response) if is_event_stream(&response) => return Ok(response.into_body()),
        Ok(response) => {
            let status = response.status().as_u16();
            let text = Limited::new(response.into_body(), DETAIL_BYTES).collect().await;
            let text = text.map(|text| text.to_bytes()).unwrap_or_default();
            let text = printable(String::from_utf8_lossy(&text).trim());
            ("provider_error", format!("the provider answered {status}: {text}"))
        }
        Err(error) => (error.status_and_code().1, error.to_string()),
    };
    tracing::info!(code, message, "refused in a stream that had begun");
    let dialect = match dialect {
        Dialect::Chat => StreamDialect::Chat,
        Dialect::Responses => StreamDialect::Responses { sequence_number: 0 },
        Dialect::Messages => StreamDialect::Messages,
    };
    Err(stream_event(dialect, code, &message))
}

type Starting = Pin<Box<dyn Future<Output = Result<Body, Bytes>> + Send>>;

/// A stream with comments before its first byte.
struct KeepAlive {
    phase: Phase,
    interval: Duration,
    /// Until the next comment.
    timer: Pin<Box<Sleep>>,
}

enum Phase {
    /// No provider has begun to answer.
    Starting(Starting),
    /// One has, without a byte so far.
    Silent(Body),
    /// Bytes came: no more comments.
    Flowing(Body),
    /// The error event is sent.
    Ended,
}

impl hyper::body::Body for KeepAlive {
    type Data = Bytes;
    type Error = AnswerBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerBroken>>> {
        loop {
            match &mut self.phase {
                Phase::Ended => return Poll::Ready(None),
                Phase::Flowing(body) => return Pin::new(body).poll_frame(cx),
                Phase::Starting(begin) => match begin.as_mut().poll(cx) {
                    Poll::Ready(Ok(body)) => {
                        self.phase = Phase::Silent(body);
                        continue;
                    }
                    Poll::Ready(Err(event)) => {
                        self.phase = Phase::Ended;
                        return Poll::Ready(Some(Ok(Frame::data(event))));
                    }
                    Poll::Pending => {}
                },
                Phase::Silent(body) => {
                    if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
                        if let Phase::Silent(body) = std::mem::replace(&mut self.phase, Phase::Ended) {
                            self.phase = Phase::Flowing(body);
                        }
                        return Poll::Ready(frame);
                    }
                }
            }
            std::task::ready!(self.timer.as_mut().poll(cx));
            let next = tokio::time::Instant::now() + self.interval;
            self.timer.as_mut().reset(next);
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
        }
    }
}
