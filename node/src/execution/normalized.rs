//! A normalized run: the adapter's events, framed. What the events say is the adapter's business.

use super::End;
use super::inbound::Inbound;
use crate::adapter::echo::Echo;
use crate::adapter::ollama::Ollama;
use crate::upstream::AnswerError;
use bytes::{Bytes, BytesMut};
use iop_transport::session::printable;
use iop_transport::tunnel::{NodeReply, ReplyError};
use iop_transport::wire::{self, EVENT_FRAME_BYTES, NormalizedRequest, RefusalReason, RunEvent, RunReply};

/// Largest request that an adapter parses, in bytes: the edge's default limit of a body.
const BODY_BYTES: u64 = 64 << 20;

/// Where an adapter writes its answer. The first event announces that the run has begun.
pub(crate) struct Events<'a> {
    reply: &'a mut NodeReply,
    started: bool,
}

/// The edge takes no more events.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct EventsLost(#[from] ReplyError);

impl Events<'_> {
    pub(crate) async fn send(&mut self, event: &RunEvent) -> Result<(), EventsLost> {
        if self.started {
            return Ok(self.reply.event(event).await?);
        }
        let frame = wire::encode(&[], event, EVENT_FRAME_BYTES).map_err(ReplyError::from)?;
        self.started = true;
        Ok(self.reply.head_and_bytes(&RunReply::Started, frame).await?)
    }

    /// The end of a run whose inference server went wrong: a refusal if no event was sent, else the last event.
    pub(crate) async fn failed(&mut self, problem: &str) -> End {
        if !self.started {
            return End::Refused(RefusalReason::BadAnswer, problem.to_owned());
        }
        tracing::debug!(problem, "the inference server failed in the middle of its answer");
        match self.send(&RunEvent::Failed(printable(problem))).await {
            Ok(()) => End::Complete,
            Err(lost) => lost.into(),
        }
    }

    /// The end of a run whose inference server's answer broke off: a refusal if no event was sent, else a reset.
    pub(crate) fn broken_off(&self, error: &AnswerError) -> End {
        if self.started {
            tracing::debug!(%error, "the inference server did not complete its answer");
            return End::Failed(error.code());
        }
        End::Refused(error.reason(), error.to_string())
    }
}

/// An adapter that speaks an API of its own.
pub(crate) enum Native<'a> {
    Ollama(&'a Ollama),
    Echo(&'a Echo),
}

impl From<EventsLost> for End {
    fn from(lost: EventsLost) -> Self {
        Self::unsent(&lost.0)
    }
}

/// Runs the request on the adapter.
pub(crate) async fn run(
    adapter: Native<'_>,
    request: NormalizedRequest,
    mut inbound: Inbound,
    reply: &mut NodeReply,
) -> End {
    if inbound.body_len() > BODY_BYTES {
        return End::bad_request(format!("the request is larger than {BODY_BYTES} bytes"));
    }
    let body = match inbound.collect().await {
        Ok(chunks) => join(chunks),
        Err(code) => return End::Failed(code),
    };
    let mut events = Events { reply, started: false };
    let answering = async {
        match adapter {
            Native::Ollama(ollama) => ollama.run(request, body, &mut events).await,
            Native::Echo(echo) => echo.run(request.operation, &body, &mut events).await,
        }
    };
    inbound.or_cancelled(answering).await.unwrap_or_else(End::Failed)
}

/// One piece, copied only if it came in several.
fn join(mut chunks: std::collections::VecDeque<Bytes>) -> Bytes {
    if chunks.len() == 1 {
        return chunks.pop_front().expect("one chunk is there");
    }
    let mut body = BytesMut::new();
    for chunk in chunks {
        body.extend_from_slice(&chunk);
    }
    body.freeze()
}
