//! Acts out the body of one answer: pieces at their interval, then a clean end or the scripted break.

use super::openai::Pieces;
use super::script::{Cut, Then};
use super::server::Shared;
use super::wire::Wishes;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::fmt::{self, Display, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The reason hyper is given to tear the connection down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Broken;

impl Display for Broken {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("the script breaks this answer off")
    }
}

impl std::error::Error for Broken {}

/// A scripted break under way: it fails where the answer breaks off and returns where it goes on.
type Breaking = Pin<Box<dyn Future<Output = Result<(), Broken>> + Send>>;

/// Everything the body of one answer needs.
pub(super) struct Answering {
    pub(super) request: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) wishes: Arc<Wishes>,
    pub(super) pieces: Pieces,
    pub(super) interval: Duration,
    pub(super) cut: Option<Cut>,
    pub(super) stepped: bool,
    /// Whether the length is declared; else the body goes chunked.
    pub(super) sized: bool,
}

pub(super) struct ScriptedBody {
    answering: Answering,
    size: SizeHint,
    sent: usize,
    /// Pieces that were let through at the gate, where each has to wait there.
    passed: usize,
    /// When the next piece is due; on a fixed grid, so that delays do not add up.
    due: Instant,
    pause: Option<Pin<Box<Sleep>>>,
    breaking: Option<Breaking>,
}

impl ScriptedBody {
    pub(super) fn new(answering: Answering) -> Self {
        let size = match answering.pieces.total_bytes() {
            Some(total) if answering.sized => SizeHint::with_exact(total),
            _ => SizeHint::default(),
        };
        Self { answering, size, sent: 0, passed: 1, due: Instant::now(), pause: None, breaking: None }
    }

    /// Whether nothing is left to send. A declared length ends the body by itself, whatever was to come after it.
    fn complete(&self) -> bool {
        let ends = self.answering.cut.is_none() || self.size.exact().is_some();
        self.answering.pieces.is_empty() && ends
    }

    fn begin_break(&self, then: Then) -> Breaking {
        let shared = Arc::clone(&self.answering.shared);
        let wishes = Arc::clone(&self.answering.wishes);
        let request = self.answering.request;
        Box::pin(async move { break_off(then, request, &shared, &wishes).await })
    }
}

/// What happens where an answer breaks off. `Ok` lets it go on.
pub(super) async fn break_off(
    then: Then,
    request: usize,
    shared: &Shared,
    wishes: &Wishes,
) -> Result<(), Broken> {
    // hyper writes out what it has when the body has nothing for the moment: the pieces before the break arrive.
    tokio::task::yield_now().await;
    match then {
        Then::Close => Err(Broken),
        Then::Reset => {
            wishes.reset();
            Err(Broken)
        }
        Then::Hang => std::future::pending().await,
        Then::Hold => {
            shared.gate.pass(request, true).await;
            Ok(())
        }
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let body = &mut *self;
        if let Some(cut) = body.answering.cut.filter(|cut| cut.after == body.sent) {
            let mut breaking = body.breaking.take().unwrap_or_else(|| body.begin_break(cut.then));
            match breaking.as_mut().poll(context) {
                Poll::Pending => {
                    body.breaking = Some(breaking);
                    return Poll::Pending;
                }
                Poll::Ready(Err(broken)) => return Poll::Ready(Some(Err(broken))),
                Poll::Ready(Ok(())) => {
                    body.answering.cut = None;
                    body.due = Instant::now();
                }
            }
        }
        if body.answering.stepped && body.passed <= body.sent {
            let mut step = body.breaking.take().unwrap_or_else(|| body.begin_break(Then::Hold));
            if step.as_mut().poll(context).is_pending() {
                body.breaking = Some(step);
                return Poll::Pending;
            }
            body.passed = body.sent + 1;
        }
        if body.sent > 0 && !body.answering.interval.is_zero() {
            let due = body.due + body.answering.interval;
            let pause = body.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            ready!(pause.as_mut().poll(context));
            body.pause = None;
            body.due = due;
        }
        body.sent += 1;
        Poll::Ready(body.answering.pieces.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.complete()
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

impl Drop for ScriptedBody {
    fn drop(&mut self) {
        if self.complete() {
            self.answering.wishes.finished(self.answering.request);
        }
    }
}
