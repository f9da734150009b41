//! A tunnel run's answer on its way to the client: the provider's bytes, unchanged, as they come. The run, and with it the
//! lease, lives and dies with the response's body.

use super::route::Dialect;
use super::watch::Watch;
use super::{AnswerBroken, Body, HOP_BY_HOP};
use crate::desk::Lease;
use crate::estimate::UsageReport;
use crate::server::ClientPace;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Frame;
use iop_transport::codes::StreamCode;
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
    usage: UsageReport,
    pace: ClientPace,
) -> Response<Body> {
    let mut response = Response::new(());
    // A status that no answer can have is the provider's fault, and 502 says so.
    let status = StatusCode::from_u16(status).ok().filter(|status| !status.is_informational());
    *response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in headers {
        // Judged as it will be sent: a node may write it in any case.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_maybe_shared(value))
            && passes(name.as_str())
        {
            response.headers_mut().append(name, value);
        }
    }
    let content_type =
        response.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
    let content_type = content_type.unwrap_or_default();
    let is_event_stream = content_type.starts_with(b"text/event-stream");
    if is_event_stream {
        mark_unbuffered(response.headers_mut());
    }
    // Compressed bytes say nothing; nor does any other kind of content.
    let is_readable = is_event_stream || content_type.starts_with(b"application/json");
    let is_readable = is_readable && !response.headers().contains_key(header::CONTENT_ENCODING);
    let watch = is_readable.then(|| Watch::new(dialect));
    let declared = response.headers().get(header::CONTENT_LENGTH);
    let left = declared.and_then(|length| length.to_str().ok()?.parse().ok()).filter(|_| !is_event_stream);
    let running = Running::new(run, pace);
    response.map(|()| Relay { running, is_event_stream, left, last: None, watch, usage }.boxed_unsync())
}

/// Whether a header of the provider's goes on to the client.
fn passes(name: &str) -> bool {
    !HOP_BY_HOP.contains(&name) && !NOT_RETURNED.contains(&name) && !name.starts_with(CORS_PREFIX)
}

/// Headers with which a provider would speak for the edge's own address: its cookies, its other addresses.
pub(super) const NOT_RETURNED: [&str; 4] =
    ["set-cookie", "alt-svc", "strict-transport-security", super::REQUEST_ID_HEADER];

/// What web pages may do is the edge's to say.
pub(super) const CORS_PREFIX: &str = "access-control-";

/// A run that lives and dies with the body of its answer.
pub(super) struct Running {
    /// `None` once it has ended.
    run: Option<EdgeRun<Lease>>,
    pace: ClientPace,
}

impl Running {
    pub(super) fn new(run: EdgeRun<Lease>, pace: ClientPace) -> Self {
        Self { run: Some(run), pace }
    }

    pub(super) fn get(&mut self) -> Option<&mut EdgeRun<Lease>> {
        self.run.as_mut()
    }

    pub(super) fn end(&mut self) {
        self.run = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(run) = &mut self.run
            && self.pace.has_stalled()
        {
            tracing::info!("the client stopped reading");
            run.set_cancel_code(StreamCode::ClientStalled);
        }
    }
}

/// Asks everybody on the way not to collect the stream.
pub(super) fn mark_unbuffered(headers: &mut http::HeaderMap) {
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
}

/// The body of a relayed answer.
struct Relay {
    running: Running,
    is_event_stream: bool,
    /// Bytes still to come of a declared length.
    left: Option<u64>,
    /// The bytes that complete the declared length, kept until the run has ended: the server asks for nothing after them,
    /// so a run that was not at its end would be cancelled, and what the provider counted never noted.
    last: Option<Bytes>,
    /// What is noted of the bytes on their way, if they can be read.
    watch: Option<Watch>,
    usage: UsageReport,
}

impl hyper::body::Body for Relay {
    type Data = Bytes;
    type Error = AnswerBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerBroken>>> {
        loop {
            let Some(run) = self.running.get() else { return Poll::Ready(None) };
            match std::task::ready!(run.poll_chunk(cx)) {
                // More than was declared is no part of the answer.
                Ok(Some(_excess)) if self.last.is_some() => {}
                Ok(Some(bytes)) => {
                    if let Some(watch) = &mut self.watch {
                        watch.see(&bytes);
                    }
                    self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                    if self.left != Some(0) {
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    self.last = Some(bytes);
                }
                Ok(None) => {
                    self.running.end();
                    if let Some(reported) = self.watch.as_ref().and_then(|watch| watch.prompt_tokens) {
                        self.usage.prompt_tokens(reported);
                    }
                    return Poll::Ready(self.last.take().map(|bytes| Ok(Frame::data(bytes))));
                }
                Err(lost) => {
                    self.running.end();
                    tracing::info!(%lost, "an answer broke off");
                    return Poll::Ready(Some(self.broken(&lost)));
                }
            }
        }
    }
}

impl Relay {
    /// An event stream ends with an error event; anything else is cut, so that nobody takes it for complete.
    fn broken(&self, lost: &RunLost) -> Result<Frame<Bytes>, AnswerBroken> {
        match &self.watch {
            Some(watch) if self.is_event_stream => Ok(Frame::data(watch.error_event(lost))),
            _ => Err(AnswerBroken(lost.to_string())),
        }
    }
}
