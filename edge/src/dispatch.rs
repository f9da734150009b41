//! From a lease to a started run: opens the run's stream, reads the reply, tries another provider where that is safe.
//! What the client sends and gets is the gateway's.

use crate::admission::{Api, Grant, ProviderKey, Refusal};
use crate::desk::{Admission, Desk, Lease};
use crate::gateway::{GatewayError, ModelText, provider_name};
use crate::live::Live;
use crate::patience;
use crate::registry::Registry;
use crate::scan::replace_model;
use crate::settings::Target;
use bytes::Bytes;
use http::Method;
use iop_transport::session::printable;
use iop_transport::tunnel::{EdgeRun, OpenError, RunLost};
use iop_transport::wire::{
    self, Header, NormalizedRequest, Operation, RUN_HEAD_BYTES, Refusal as RunRefusal, RefusalReason,
    RunHead, RunReply, TunnelRequest,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a busy provider's answer that are shown to the client.
const BUSY_DETAIL_BYTES: usize = 512;

/// How long such an answer may take to end.
const BUSY_DETAIL_TIMEOUT: Duration = Duration::from_secs(10);

/// A request as a provider gets it.
#[derive(Debug)]
pub(crate) struct RunRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) headers: Vec<Header>,
    /// The external model key.
    pub(crate) model: Arc<str>,
    /// Where the model's literal is in the body.
    pub(crate) model_literal: Range<usize>,
    /// How it is written there.
    pub(crate) model_text: ModelText,
    pub(crate) operation: Option<Operation>,
    pub(crate) body: Vec<Bytes>,
}

/// A run whose provider has begun to answer.
pub(crate) struct Started {
    pub(crate) run: EdgeRun<Lease>,
    pub(crate) reply: Reply,
    pub(crate) provider: ProviderKey,
}

/// How it answers.
pub(crate) enum Reply {
    /// With HTTP of its own.
    Response { status: u16, headers: Vec<Header> },
    /// With normalized events.
    Normalized(Operation),
}

/// Why one attempt came to nothing.
enum Failure {
    /// Another provider may be asked: this one has not begun, or its connection is lost.
    Elsewhere(GatewayError),
    /// The request ends here.
    Final(GatewayError),
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    desk: Desk,
    registry: Registry,
    live: Live,
}

impl Dispatch {
    pub(crate) fn new(desk: Desk, registry: Registry, live: Live) -> Self {
        Self { desk, registry, live }
    }

    /// Waits for admission and runs the request, on one provider after another until one begins to answer. Bounded by
    /// `provider_pool.max_attempts`, which admission counts.
    pub(crate) async fn start(
        &self,
        mut admission: Admission,
        request: &RunRequest,
        api: Api,
    ) -> Result<Started, GatewayError> {
        let mut last = None;
        loop {
            let lease = match (admission.outcome().await, last.take()) {
                (Ok(lease), _) => lease,
                (Err(Refusal::NoOtherProvider | Refusal::Unavailable), Some(error)) => return Err(error),
                (Err(refusal), _) => {
                    return Err(GatewayError::refused(refusal, &request.model, api, || {
                        self.reasons(&request.model)
                    }));
                }
            };
            let grant = lease.grant().clone();
            match self.attempt(lease, request).await {
                Ok(started) => return Ok(started),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Elsewhere(error)) => {
                    tracing::info!(%error, "trying elsewhere");
                    last = Some(error);
                    admission = self.desk.retry(&grant);
                }
            }
        }
    }

    async fn attempt(&self, lease: Lease, request: &RunRequest) -> Result<Started, Failure> {
        let grant = lease.grant().clone();
        let disconnected = || GatewayError::Disconnected { provider: provider_name(&grant.provider) };
        let connection = self.registry.owner(&grant.provider.node, grant.generation);
        let connection = connection.ok_or_else(|| Failure::Elsewhere(disconnected()))?;
        let target = self.live.get().targets.get(&(request.model.clone(), grant.provider.clone())).cloned();
        // The model or candidate was taken out of the configuration since the lease was made.
        let target = target
            .ok_or_else(|| Failure::Elsewhere(GatewayError::ModelNotFound(request.model.to_string())))?;
        let body = match &target {
            Target { model, tunnel: true, .. } if *model != request.model => {
                let name = request.model_text.write(model);
                replace_model(request.body.clone(), request.model_literal.clone(), name)
            }
            _ => request.body.clone(),
        };
        let head = head(&grant, request, &target, &body)?;
        let patience = patience::for_request(target.patience, head.body_len);
        let opened = EdgeRun::open(&connection, &head, body, lease, patience).await;
        let mut run = opened.map_err(|error| match error {
            OpenError::Connection(_) => Failure::Elsewhere(disconnected()),
            OpenError::NoStream => {
                let provider = provider_name(&grant.provider);
                Failure::Elsewhere(GatewayError::Busy { provider, detail: error.to_string() })
            }
            OpenError::Head(_) => Failure::Final(GatewayError::HeadersTooLarge { max: RUN_HEAD_BYTES }),
        })?;
        let provider = grant.provider.clone();
        let reply = run.reply().await.and_then(|reply| of_its_kind(reply, target.tunnel));
        self.judge_server(&grant, &reply);
        match reply {
            Ok(RunReply::Response { status: status @ (429 | 503), headers: _ }) => {
                let detail = busy_detail(&mut run, status).await;
                let provider = provider_name(&provider);
                // A run that does not end keeps its slot: the request cannot go on with its lease.
                Err(match detail {
                    Some(detail) => Failure::Elsewhere(GatewayError::Busy { provider, detail }),
                    None => {
                        let detail = format!("its answer of status {status} did not end");
                        Failure::Final(GatewayError::BadAnswer { provider, detail })
                    }
                })
            }
            Ok(RunReply::Response { status, headers }) => {
                Ok(Started { run, reply: Reply::Response { status, headers }, provider })
            }
            Ok(RunReply::Started) => match request.operation {
                Some(operation) => Ok(Started { run, reply: Reply::Normalized(operation), provider }),
                None => Err(lost(&grant, &RunLost::Protocol("a normalized reply to a tunnel run".into()))),
            },
            Ok(RunReply::Refused(refusal)) => {
                // The end of a refused run follows at once; reading it returns the lease before the request goes on.
                match run.drain().await {
                    // A run that does not end keeps its slot: the request cannot go on with its lease.
                    Err(endless @ (RunLost::Protocol(_) | RunLost::Silent { .. })) => {
                        Err(lost(&grant, &endless))
                    }
                    Ok(()) | Err(RunLost::Reset { .. } | RunLost::Connection(_)) => {
                        Err(refused(&grant, refusal))
                    }
                }
            }
            Err(error) => Err(lost(&grant, &error)),
        }
    }

    /// Tells admission what the reply says of the provider's server: whether it takes connections.
    fn judge_server(&self, grant: &Grant, reply: &Result<RunReply, RunLost>) {
        let was_aside = grant.failures > 0;
        match reply {
            Ok(RunReply::Refused(refusal)) if refusal.reason == RefusalReason::Unreachable => {
                self.desk.unreachable(grant);
            }
            Ok(reply) if was_aside && from_server(reply) => {
                tracing::info!(provider = provider_name(&grant.provider), "its server can be reached again");
                self.desk.reached(grant);
            }
            // A lost run says nothing: its node may not have asked the server yet.
            Ok(_) | Err(_) => {}
        }
    }

    /// Why nobody is there for the model, provider by provider.
    fn reasons(&self, model: &str) -> String {
        let settings = self.live.get();
        let model = settings.config.models.iter().find(|known| known.id.as_str() == model);
        let candidates = model.map(|model| model.candidates.as_slice()).unwrap_or_default();
        let (snapshot, _) = self.desk.snapshot();
        let reasons: Vec<String> = snapshot
            .providers
            .iter()
            .filter(|provider| {
                candidates.iter().any(|candidate| {
                    candidate.node.as_str() == &*provider.key.node
                        && candidate.provider.as_str() == &*provider.key.provider
                })
            })
            .map(|provider| {
                let reason = match provider {
                    provider if !provider.connected => "its node is not connected",
                    provider if !provider.enabled => "it is disabled",
                    provider if provider.refused => "its node will not run it",
                    _ => "it is available again",
                };
                format!("{}: {reason}", provider_name(&provider.key))
            })
            .collect();
        reasons.join("; ")
    }
}

fn head(grant: &Grant, request: &RunRequest, target: &Target, body: &[Bytes]) -> Result<RunHead, Failure> {
    let run = match (target.tunnel, request.operation) {
        (true, _) => wire::RunRequest::Tunnel(TunnelRequest {
            method: request.method.to_string(),
            path: request.path.clone(),
            headers: request.headers.clone(),
        }),
        (false, Some(operation)) => {
            wire::RunRequest::Normalized(NormalizedRequest { operation, model: target.model.to_string() })
        }
        // A candidate whose adapter was changed by a refresh since the lease was made.
        (false, None) => {
            let provider = provider_name(&grant.provider);
            let detail = "its adapter does not speak this path any more".into();
            return Err(Failure::Elsewhere(GatewayError::Busy { provider, detail }));
        }
    };
    Ok(RunHead {
        lease: grant.lease.0,
        generation: grant.generation.0,
        provider: grant.provider.provider.to_string(),
        request: run,
        body_len: body.iter().map(|chunk| chunk.len() as u64).sum(),
    })
}

/// Whether the provider's server was asked; else its node answers for itself.
fn from_server(reply: &RunReply) -> bool {
    match reply {
        RunReply::Response { .. } | RunReply::Started => true,
        RunReply::Refused(refusal) => match refusal.reason {
            RefusalReason::TimedOut | RefusalReason::BadAnswer | RefusalReason::Busy => true,
            RefusalReason::GateFull
            | RefusalReason::StaleGeneration
            | RefusalReason::UnknownProvider
            | RefusalReason::Unreachable
            | RefusalReason::BadRequest => false,
        },
    }
}

/// A tunnel run is answered in HTTP, a normalized one by events.
fn of_its_kind(reply: RunReply, tunnel: bool) -> Result<RunReply, RunLost> {
    match reply {
        RunReply::Response { .. } if !tunnel => {
            Err(RunLost::Protocol("a reply in HTTP to a normalized run".into()))
        }
        RunReply::Started if tunnel => Err(RunLost::Protocol("a normalized reply to a tunnel run".into())),
        reply => Ok(reply),
    }
}

/// What a busy provider says of it. The run is read to its end, so its slot is free before the request goes on. `None`: the
/// end does not come.
async fn busy_detail(run: &mut EdgeRun<Lease>, status: u16) -> Option<String> {
    let mut text = Vec::new();
    let read = async {
        loop {
            match std::future::poll_fn(|cx| run.poll_chunk(cx)).await {
                Ok(Some(bytes)) => {
                    let room = BUSY_DETAIL_BYTES - text.len();
                    text.extend_from_slice(&bytes[..bytes.len().min(room)]);
                }
                Ok(None) | Err(RunLost::Reset { .. } | RunLost::Connection(_)) => return Some(()),
                Err(RunLost::Protocol(_) | RunLost::Silent { .. }) => return None,
            }
        }
    };
    tokio::time::timeout(BUSY_DETAIL_TIMEOUT, read).await.ok()??;
    Some(format!("it answered {status}: {}", printable(String::from_utf8_lossy(&text).trim())))
}

fn refused(grant: &Grant, refusal: RunRefusal) -> Failure {
    let provider = provider_name(&grant.provider);
    let detail = printable(&refusal.detail);
    let error = match refusal.reason {
        RefusalReason::Unreachable => GatewayError::Unreachable { provider, detail },
        RefusalReason::TimedOut => GatewayError::TimedOut { provider, detail },
        RefusalReason::BadAnswer => GatewayError::BadAnswer { provider, detail },
        RefusalReason::BadRequest => GatewayError::RefusedRequest { provider, detail },
        RefusalReason::GateFull
        | RefusalReason::StaleGeneration
        | RefusalReason::UnknownProvider
        | RefusalReason::Busy => GatewayError::Busy { provider, detail },
    };
    if refusal.reason.may_try_elsewhere() { Failure::Elsewhere(error) } else { Failure::Final(error) }
}

fn lost(grant: &Grant, lost: &RunLost) -> Failure {
    let provider = provider_name(&grant.provider);
    match lost {
        RunLost::Connection(_) => Failure::Elsewhere(GatewayError::Disconnected { provider }),
        RunLost::Reset { .. } | RunLost::Protocol(_) => {
            Failure::Final(GatewayError::BadAnswer { provider, detail: lost.to_string() })
        }
        RunLost::Silent { .. } => {
            Failure::Final(GatewayError::TimedOut { provider, detail: lost.to_string() })
        }
    }
}
