//! A normalized run's answer on its way to the client: its events, rendered as the API that the client called.

use super::error::lost_code;
use super::relay::{Running, mark_unbuffered};
use super::{AnswerBroken, Body, GatewayError, provider_name};
use crate::admission::ProviderKey;
use crate::desk::Lease;
use crate::estimate::UsageReport;
use crate::render::error::{StreamDialect, stream_event};
use crate::render::{Answer, AnswerStream, EncodingFormat};
use crate::scan::Scanned;
use crate::server::ClientPace;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Frame;
use iop_transport::session::printable;
use iop_transport::tunnel::{EdgeRun, RunLost};
use iop_transport::wire::{Operation, RunEvent};
use serde::Deserialize;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest answer that is collected for a client that does not stream, in bytes.
const ANSWER_BYTES: usize = 64 << 20;

/// What the answer has to look like.
pub(super) struct Shape<'a> {
    pub(super) operation: Operation,
    pub(super) model: &'a str,
    pub(super) request_id: &'a str,
    pub(super) scanned: &'a Scanned,
    pub(super) usage: UsageReport,
    pub(super) pace: ClientPace,
}

/// The response to the client: a stream if it asked for one, else the whole answer.
pub(super) async fn response(
    run: EdgeRun<Lease>,
    shape: &Shape<'_>,
    body: &[Bytes],
    provider: &ProviderKey,
) -> Result<Response<Body>, GatewayError> {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (id, model, include) = (shape.request_id, shape.model, shape.scanned.include_usage);
    let usage = shape.usage.clone();
    let pace = || shape.pace.clone();
    let answer = match (shape.operation, shape.scanned.stream) {
        (Operation::Chat, true) => {
            let stream = AnswerStream::chat(id, created, model, include);
            return Ok(streamed(Running::new(run, pace()), stream, usage));
        }
        (Operation::Completion, true) => {
            let stream = AnswerStream::completion(id, created, model, include);
            return Ok(streamed(Running::new(run, pace()), stream, usage));
        }
        (Operation::Chat, false) => Answer::chat(id, created, model, ANSWER_BYTES),
        (Operation::Completion, false) => Answer::completion(id, created, model, ANSWER_BYTES),
        (Operation::Embeddings, _) => Answer::embeddings(model, encoding_format(body), ANSWER_BYTES),
    };
    let bytes = collect(run, answer, &usage)
        .await
        .map_err(|detail| GatewayError::BadAnswer { provider: provider_name(provider), detail })?;
    let mut response = Response::new(Full::new(bytes).map_err(|never| match never {}).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn collect(mut run: EdgeRun<Lease>, mut answer: Answer, usage: &UsageReport) -> Result<Bytes, String> {
    loop {
        match std::future::poll_fn(|cx| run.poll_event(cx)).await {
            Ok(Some(event)) => {
                note(&event, usage);
                answer.event(readable(event)).map_err(|error| error.to_string())?;
            }
            Ok(None) => return answer.finish().map_err(|error| error.to_string()),
            Err(lost) => return Err(lost.to_string()),
        }
    }
}

/// `encoding_format` of an embeddings request; the body is known to be JSON.
fn encoding_format(body: &[Bytes]) -> EncodingFormat {
    #[derive(Deserialize)]
    struct Wanted {
        encoding_format: Option<String>,
    }
    let wanted =
        serde_json::from_slice::<Wanted>(&body.concat()).ok().and_then(|wanted| wanted.encoding_format);
    if wanted.as_deref() == Some("base64") { EncodingFormat::Base64 } else { EncodingFormat::Float }
}

fn streamed(running: Running, stream: AnswerStream, usage: UsageReport) -> Response<Body> {
    let mut response = Response::new(Streamed { running, stream, usage }.boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    mark_unbuffered(headers);
    response
}

/// The body of a streamed answer.
struct Streamed {
    running: Running,
    stream: AnswerStream,
    usage: UsageReport,
}

impl hyper::body::Body for Streamed {
    type Data = Bytes;
    type Error = AnswerBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerBroken>>> {
        let Self { running, stream, usage } = &mut *self;
        loop {
            let Some(open) = running.get() else { return Poll::Ready(None) };
            let bytes = match std::task::ready!(open.poll_event(cx)) {
                Ok(Some(event)) => {
                    note(&event, usage);
                    stream.event(readable(event))
                }
                Ok(None) => {
                    running.end();
                    if stream.is_ended() {
                        Bytes::new()
                    } else {
                        broken(&RunLost::Protocol("the run ended without its last event".into()))
                    }
                }
                Err(lost) => {
                    running.end();
                    if stream.is_ended() { Bytes::new() } else { broken(&lost) }
                }
            };
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }
}

/// The last event says how many tokens the prompt had.
fn note(event: &RunEvent, usage: &UsageReport) {
    if let RunEvent::Finished { usage: counted, .. } = event {
        usage.prompt_tokens(counted.prompt_tokens.into());
    }
}

/// The words of an error are the node's: they are cut and cleaned before anybody reads them.
fn readable(event: RunEvent) -> RunEvent {
    match event {
        RunEvent::Failed(problem) => RunEvent::Failed(printable(&problem)),
        event => event,
    }
}

/// What ends the stream of a run that broke off.
fn broken(lost: &RunLost) -> Bytes {
    tracing::info!(%lost, "an answer broke off");
    stream_event(StreamDialect::Chat, lost_code(lost), &lost.to_string())
}
