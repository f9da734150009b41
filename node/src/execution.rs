//! One run, from its head to its end. Whatever happens in between, it ends in this order: the upstream connection is
//! closed or back in its pool, the permit is free, the reply ends. So the edge may hand out the slot the moment it sees
//! the end. Dropping or unwinding keeps the order too.

mod inbound;
mod normalized;
mod tunnel;

pub(crate) use normalized::{Events, EventsLost};

use crate::adapter::Adapter;
use crate::permit::Permit;
use crate::providers::Provider;
use inbound::Inbound;
use iop_transport::codes::StreamCode;
use iop_transport::session::printable;
use iop_transport::tunnel::{NodeReply, NodeRun, ReplyError};
use iop_transport::wire::{Refusal, RefusalReason, RunReply, RunRequest};
use normalized::Native;
use std::time::Duration;

/// How long the edge may leave no room for a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// How a run ends. Whoever returns it holds nothing of the provider any more.
#[derive(Debug)]
pub(crate) enum End {
    /// The whole answer was sent.
    Complete,
    /// No answer was begun.
    Refused(RefusalReason, String),
    /// The answer is not complete, or the run was cancelled.
    Failed(StreamCode),
}

impl End {
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::Refused(RefusalReason::BadRequest, detail.into())
    }

    /// The adapter was changed while the run was on its way: the provider that it was granted on is not here any more.
    fn of_another_kind(detail: String) -> Self {
        Self::Refused(RefusalReason::UnknownProvider, detail)
    }

    /// The reply cannot be written: the edge or the connection is gone.
    fn unsent(error: &ReplyError) -> Self {
        tracing::debug!(%error, "the reply cannot be sent");
        Self::Failed(StreamCode::Cancelled)
    }
}

/// A run inside the gate. The permit stands before the reply: fields are dropped in this order.
struct Admitted {
    permit: Permit,
    reply: NodeReply,
}

/// Refuses a run that has not begun, its body unread.
pub async fn refuse(run: NodeRun, reason: RefusalReason, detail: &str) {
    let NodeRun { body, reply, .. } = run;
    drop(body);
    send_refusal(reply, reason, detail).await;
}

/// Runs what was asked for, inside the provider's gate.
pub(crate) async fn execute(provider: &Provider, run: NodeRun) {
    let permit = match provider.gate.enter() {
        Ok(permit) => permit,
        Err(full) => {
            let id = &provider.id;
            let detail = format!("provider {id} on this node runs {} of {}", full.in_flight, full.capacity);
            tracing::warn!(provider = %id, %full, "a run came to a full gate");
            return refuse(run, RefusalReason::GateFull, &detail).await;
        }
    };
    let NodeRun { head, body, reply } = run;
    let mut admitted = Admitted { permit, reply };
    let inbound = Inbound::new(body, head.body_len);
    let end = match (head.request, &provider.adapter) {
        (RunRequest::Tunnel(request), Adapter::OpenAi(upstream)) => {
            tunnel::run(upstream, request, inbound, &mut admitted.reply).await
        }
        (RunRequest::Normalized(request), Adapter::Ollama(ollama)) => {
            normalized::run(Native::Ollama(ollama), request, inbound, &mut admitted.reply).await
        }
        (RunRequest::Normalized(request), Adapter::Echo(echo)) => {
            normalized::run(Native::Echo(echo), request, inbound, &mut admitted.reply).await
        }
        (RunRequest::Tunnel(_), adapter) => {
            End::of_another_kind(format!("its {} adapter takes no tunnel runs", adapter.name()))
        }
        (RunRequest::Normalized(_), adapter) => {
            End::of_another_kind(format!("its {} adapter takes tunnel runs only", adapter.name()))
        }
    };
    admitted.end(end).await;
}

impl Admitted {
    async fn end(self, end: End) {
        let Self { permit, reply } = self;
        drop(permit);
        match end {
            End::Complete => reply.finish(),
            End::Failed(code) => {
                tracing::debug!(reason = code.explain(), "the run did not complete");
                reply.fail(code);
            }
            End::Refused(reason, detail) => {
                tracing::debug!(?reason, detail, "the run was refused");
                send_refusal(reply, reason, &detail).await;
            }
        }
    }
}

async fn send_refusal(mut reply: NodeReply, reason: RefusalReason, detail: &str) {
    let refusal = RunReply::Refused(Refusal { reason, detail: printable(detail) });
    match tokio::time::timeout(REFUSAL_TIMEOUT, reply.head(&refusal)).await {
        Ok(Ok(())) => reply.finish(),
        Ok(Err(error)) => tracing::debug!(%error, "a refusal cannot be sent"),
        Err(_elapsed) => reply.fail(StreamCode::Cancelled),
    }
}
