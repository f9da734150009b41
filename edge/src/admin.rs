//! The control plane's listener: JSON under `/admin/v1`. It reads the same state that admits, and changes it only through
//! a refresh of the configuration.

#[cfg(test)]
mod contract;
mod event_stream;
mod guard;
mod snapshot;

use crate::certificates::Own;
use crate::desk::Desk;
use crate::events::Events;
use crate::live::Live;
use crate::quiet::{Quiet, Who};
use crate::refresh::Refresher;
use crate::registry::{Order, Registry};
use crate::revocation::Revoked;
use bytes::Bytes;
use event_stream::EventStream;
use guard::Stranger;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use iop_config::LoadError;
use serde::Serialize;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use tokio_util::sync::CancellationToken;

pub(crate) use event_stream::Subscribers;
pub(crate) use guard::Guard;

/// Connections of operators at a time. Far above what people and their tools need, and far below what costs the edge
/// memory or file descriptors that clients need.
pub(crate) const MAX_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");

/// Requests at a time on one connection of HTTP/2: a tool asks for one thing after the other, and a whole snapshot waits in
/// memory for each that takes nothing of its answer.
pub(crate) const MAX_STREAMS: u32 = 8;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Everything that operators' requests need. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) desk: Desk,
    pub(crate) registry: Registry,
    pub(crate) live: Live,
    pub(crate) refresher: Refresher,
    pub(crate) own: Own,
    pub(crate) revoked: Revoked,
    pub(crate) events: Events,
    pub(crate) guard: Guard,
    pub(crate) subscribers: Subscribers,
    pub(crate) quiet: Quiet,
    /// Ends the streams of events.
    pub(crate) stop: CancellationToken,
}

/// An error as operators get it: one message, or everything that is wrong with the configuration file.
#[derive(Serialize)]
struct Problem {
    error: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    issues: Vec<String>,
}

#[derive(Serialize)]
struct Draining<'a> {
    draining: &'a str,
}

impl Admin {
    /// Answers one request.
    pub(crate) async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        if let Err(stranger) = self.guard.check(&request) {
            return self.turn_away(stranger);
        }
        let (method, path) = (request.method(), request.uri().path());
        let is_get = matches!(*method, Method::GET | Method::HEAD);
        match path {
            "/admin/v1/snapshot" if is_get => json(StatusCode::OK, &snapshot::take(&self)),
            "/admin/v1/events" if is_get => match self.subscribers.join() {
                Ok(place) => EventStream::response(&self, place),
                Err(full) => problem(StatusCode::TOO_MANY_REQUESTS, &full.to_string()),
            },
            "/admin/v1/refresh" if method == Method::POST => self.refresh(request.uri().query()).await,
            "/admin/v1/drain" if method == Method::POST => self.drain(request.uri().query()),
            "/admin/v1/snapshot" | "/admin/v1/events" => not_allowed("GET"),
            "/admin/v1/refresh" | "/admin/v1/drain" => not_allowed("POST"),
            _ => problem(
                StatusCode::NOT_FOUND,
                "there is nothing here; try GET /admin/v1/snapshot, GET /admin/v1/events, POST /admin/v1/refresh, \
                 POST /admin/v1/drain?node=ID",
            ),
        }
    }

    /// Says so to the stranger, and to the log as long as it is not a flood.
    fn turn_away(&self, stranger: Stranger) -> Response<Body> {
        if let Some(left_out) = self.quiet.may_say(Who::Stranger) {
            tracing::warn!(error = %stranger, left_out, "turned a request of an operator away");
        }
        let mut response = problem(stranger.status(), &stranger.to_string());
        if stranger.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    /// Sends a node no further run. It stays so until the node connects again.
    fn drain(&self, query: Option<&str>) -> Response<Body> {
        let Some(node) = query.and_then(|query| query.strip_prefix("node=")) else {
            return problem(StatusCode::BAD_REQUEST, "say which node: ?node=ID");
        };
        if self.live.node(node).is_none() {
            return problem(StatusCode::NOT_FOUND, "the configuration has no such node");
        }
        let Some(registered) = self.registry.get(node) else {
            return problem(StatusCode::CONFLICT, "the node is not connected");
        };
        match registered.orders.try_send(Order::Drain) {
            Ok(()) => json(StatusCode::ACCEPTED, &Draining { draining: node }),
            Err(_full_or_gone) => {
                problem(StatusCode::CONFLICT, "the node's connection is ending, or takes no orders now")
            }
        }
    }

    async fn refresh(&self, query: Option<&str>) -> Response<Body> {
        let dry_run = match query.unwrap_or_default() {
            "" => false,
            "dry_run" | "dry_run=true" | "dry_run=1" => true,
            _ => return problem(StatusCode::BAD_REQUEST, "the only option is ?dry_run"),
        };
        match self.refresher.refresh(dry_run).await {
            Ok(report) => json(StatusCode::OK, &report),
            Err(error) => {
                let issues = match &error {
                    LoadError::Invalid(issues) => issues.iter().map(|issue| issue.to_string()).collect(),
                    LoadError::Read { .. } => Vec::new(),
                };
                json(StatusCode::UNPROCESSABLE_ENTITY, &Problem { error: error.to_string(), issues })
            }
        }
    }
}

fn not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allow}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

fn problem(status: StatusCode, error: &str) -> Response<Body> {
    json(status, &Problem { error: error.to_owned(), issues: Vec::new() })
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Body> {
    let bytes = serde_json::to_vec(body).expect("a struct of texts and numbers is always JSON");
    let mut response = Response::new(Full::from(bytes).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
