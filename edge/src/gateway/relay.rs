//! A tunnel run's answer on its way to the client: the provider's bytes, unchanged, as they come. The run, and with it the
//! lease, lives and dies with the response's body.

use super::route::Dialect;
use super::{AnswerBroken, Body};
use crate::desk::Lease;
use crate::render::error::{StreamDialect, stream_event};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Frame;
use iop_transport::tunnel::{EdgeRun, RunLost};
use iop_transport::wire::Header;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The response to a client whose provider has answered with this head.
pub(super) fn response(
    run: EdgeRun<Lease>,
    status: u16,
    headers: Vec<Header>,
    dialect: Dialect,
) -> Response<Body> {
    let mut response = Response::new(());
    // A status outside of HTTP's range is the provider's fault, and 502 says so.
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let kept = headers.into_iter().filter(|(name, _)| !super::HOP_BY_HOP.contains(&name.as_str()));
    for (name, value) in kept {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_maybe_shared(value)) {
            response.headers_mut().append(name, value);
        }
    }
    let is_event_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
    if is_event_stream {
        mark_unbuffered(response.headers_mut());
    }
    let tail = is_event_stream.then(|| Tail { dialect, ..Tail::new() });
    response.map(|()| Relay { run: Some(run), tail }.boxed_unsync())
}

/// Asks everybody on the way not to collect the stream.
pub(super) fn mark_unbuffered(headers: &mut http::HeaderMap) {
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
}

/// The body of a relayed answer.
struct Relay {
    /// `None` once it has ended.
    run: Option<EdgeRun<Lease>>,
    /// What an error event must know of the stream; `None` for other content.
    tail: Option<Tail>,
}

impl hyper::body::Body for Relay {
    type Data = Bytes;
    type Error = AnswerBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerBroken>>> {
        let Some(run) = &mut self.run else { return Poll::Ready(None) };
        match std::task::ready!(run.poll_chunk(cx)) {
            Ok(Some(bytes)) => {
                if let Some(tail) = &mut self.tail {
                    tail.see(&bytes);
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Ok(None) => {
                self.run = None;
                Poll::Ready(None)
            }
            Err(lost) => {
                self.run = None;
                tracing::info!(%lost, "an answer broke off");
                Poll::Ready(Some(self.broken(&lost)))
            }
        }
    }
}

impl Relay {
    /// An event stream ends with an error event; anything else is cut, so that nobody takes it for complete.
    fn broken(&self, lost: &RunLost) -> Result<Frame<Bytes>, AnswerBroken> {
        match &self.tail {
            Some(tail) => Ok(Frame::data(tail.error_event(&lost.to_string()))),
            None => Err(AnswerBroken(lost.to_string())),
        }
    }
}

/// What was last sent of an event stream.
struct Tail {
    dialect: Dialect,
    /// The last bytes, so that an error event begins after a blank line and is numbered right.
    last: Vec<u8>,
    sequence_number: Option<u64>,
}

/// Bytes of a stream kept from one chunk to the next: the longest `"sequence_number":N,` fits.
const TAIL_BYTES: usize = 48;

impl Tail {
    fn new() -> Self {
        Self { dialect: Dialect::Chat, last: Vec::with_capacity(TAIL_BYTES), sequence_number: None }
    }

    fn see(&mut self, bytes: &[u8]) {
        if self.dialect == Dialect::Responses {
            let seen = [&self.last[..], bytes].concat();
            self.sequence_number = last_sequence_number(&seen).or(self.sequence_number);
        }
        let new = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.last.len() + new.len()).saturating_sub(TAIL_BYTES);
        self.last.drain(..excess.min(self.last.len()));
        self.last.extend_from_slice(new);
    }

    fn error_event(&self, message: &str) -> Bytes {
        let dialect = match self.dialect {
            Dialect::Chat => StreamDialect::Chat,
            Dialect::Messages => StreamDialect::Messages,
            Dialect::Responses => {
                StreamDialect::Responses { sequence_number: self.sequence_number.map_or(0, |last| last + 1) }
            }
        };
        let event = stream_event(dialect, "provider_disconnected", message);
        let at_boundary =
            self.last.is_empty() || self.last.ends_with(b"\n\n") || self.last.ends_with(b"\r\n\r\n");
        if at_boundary { event } else { [b"\n\n", &event[..]].concat().into() }
    }
}

/// The last `"sequence_number": N` with its whole number in these bytes.
fn last_sequence_number(bytes: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"\"sequence_number\":";
    let starts = bytes.windows(NAME.len()).enumerate().rev().filter(|(_, window)| *window == NAME);
    let mut numbers = starts.filter_map(|(at, _)| {
        let rest = bytes[at + NAME.len()..].trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Without a byte behind it the number may go on in the next chunk.
        rest.get(digits)?;
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    });
    numbers.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(dialect: Dialect, chunks: &[&[u8]]) -> Tail {
        let mut tail = Tail { dialect, ..Tail::new() };
        chunks.iter().for_each(|chunk| tail.see(chunk));
        tail
    }

    #[test]
    fn an_error_event_begins_on_a_line_of_its_own() {
        let cut = tail_of(Dialect::Chat, &[b"data: {\"a\"", b":1"]).error_event("gone");
        assert!(cut.starts_with(b"\n\ndata: {\"error\""), "{cut:?}");
        let whole = tail_of(Dialect::Chat, &[b"data: {}\n", b"\n"]).error_event("gone");
        assert!(whole.starts_with(b"data: {\"error\""), "{whole:?}");
        assert!(tail_of(Dialect::Chat, &[]).error_event("gone").starts_with(b"data: "));
    }

    #[test]
    fn an_error_event_of_responses_has_the_next_number_however_the_chunks_are_cut() {
        let stream = b"event: a\ndata: {\"sequence_number\":8}\n\nevent: b\ndata: {\"sequence_number\": 12,\"x\":1}\n\n";
        for cut in 0..stream.len() {
            let (head, rest) = stream.split_at(cut);
            let event = tail_of(Dialect::Responses, &[head, rest]).error_event("gone");
            let text = String::from_utf8_lossy(&event).into_owned();
            assert!(text.contains("\"sequence_number\":13"), "cut at {cut}: {text}");
        }
    }
}
