//! The HTTP side that clients call: routes, keys, bodies, errors. Who runs a request is admission's decision, how it gets
//! there is dispatch's.

mod auth;
mod body;
#[cfg(test)]
mod contract;
mod error;
mod format;
mod keep_alive;
mod models;
mod normalized;
mod relay;
mod route;
mod watch;

use crate::admission::{self, Context};
use crate::desk::Desk;
use crate::dispatch::{Dispatch, Reply, RunRequest, Started};
use crate::estimate::{Estimator, UsageReport};
use crate::live::{Live, Settings};
use crate::registry::Registry;
use crate::scan::estimate_tokens;
use crate::server::{ClientPace, Running};
use body::Buffered;
use bytes::Bytes;
use format::{Format, Labelled};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body as _, Incoming};
use iop_transport::wire::Header;
use route::{Route, RunRoute};
use std::net::SocketAddr;
use std::sync::Arc;
use tracing::{Instrument, info, info_span};

pub(crate) use error::{GatewayError, provider_name};
pub(crate) use format::ModelText;

/// A response's body, streamed as it comes.
pub(crate) type Body = UnsyncBoxBody<Bytes, AnswerBroken>;

/// An answer that broke off. It makes the server cut the connection, so that no client takes it for complete.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub(crate) struct AnswerBroken(pub(crate) String);

/// Most requests at a time on one HTTP/2 connection. Beyond any client's need: who has to wait shall wait in the one queue.
pub(crate) const MAX_STREAMS: u32 = 1024;

/// Says long or normal where the estimate would be wrong.
const CONTEXT_HEADER: &str = "x-iop-context";

/// Names a request in logs and to people.
const REQUEST_ID_HEADER: &str = "x-request-id";

/// Everything that clients' requests need. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    live: Live,
    guard: auth::Guard,
    desk: Desk,
    dispatch: Dispatch,
    budget: body::Budget,
    estimator: Estimator,
    started: std::time::SystemTime,
}

impl Gateway {
    /// For a listener that was bound to `address`.
    pub(crate) fn new(live: Live, desk: Desk, registry: Registry, address: SocketAddr) -> Self {
        let dispatch = Dispatch::new(desk.clone(), registry, live.clone());
        Self {
            live,
            guard: auth::Guard::new(address),
            desk,
            dispatch,
            budget: body::Budget::default(),
            estimator: Estimator::default(),
            started: std::time::SystemTime::now(),
        }
    }

    /// Answers one request. Dropping the future gives the request up, wherever it is.
    pub(crate) async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        let request_id = request_id();
        let settings = self.live.get();
        let (parts, mut incoming) = request.into_parts();
        let (path, version) = (parts.uri.path().to_owned(), parts.version);
        let is_head = parts.method == Method::HEAD;
        let origin = auth::allowed_origin(&settings.config.http.cors_origins, &parts.headers);
        let span = info_span!("request", id = %request_id, method = %parts.method, %path);
        let mut response = if auth::is_preflight(&parts) {
            auth::preflight(&parts.headers)
        } else {
            let answered = self.answer(&parts, &mut incoming, &settings, &request_id);
            match answered.instrument(span.clone()).await {
                Ok(response) => response,
                Err(error) => {
                    let (status, code) = error.status_and_code();
                    span.in_scope(|| info!(status = status.as_u16(), code, %error, "refused"));
                    // Over HTTP/2 the answer does not suffer from what the client still sends.
                    if version < Version::HTTP_2 {
                        body::discard(&parts.headers, &mut incoming).await;
                    }
                    error.response(route::dialect(&path), &request_id)
                }
            }
        };
        if is_head {
            response = without_body(response);
        }
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&request_id) {
            headers.insert(REQUEST_ID_HEADER, id);
        }
        auth::add_cors_headers(headers, origin);
        response
    }

    async fn answer(
        &self,
        parts: &Parts,
        incoming: &mut Incoming,
        settings: &Settings,
        request_id: &str,
    ) -> Result<Response<Body>, GatewayError> {
        let key = self.guard.key(&settings.config.auth, &parts.headers)?;
        if let Some(running) = parts.extensions.get::<Running>() {
            running.keep();
        }
        match route::route(&parts.method, parts.uri.path()) {
            Route::Models => Ok(models::list(&settings.config, self.started)),
            Route::Model(id) => models::one(&settings.config, &id, self.started),
            Route::Run(route) => {
                let accepted = self.accept(parts, incoming, settings, route, key).await?;
                let keep_alive = settings.config.http.sse_keep_alive.filter(|_| accepted.is_stream());
                let dialect = route.dialect;
                let run = accepted.run(self.clone(), request_id.to_owned());
                match keep_alive {
                    Some(interval) => keep_alive::answer(run, interval, dialect).await,
                    None => run.await,
                }
            }
            Route::MethodNotAllowed { allow } => {
                Err(GatewayError::MethodNotAllowed(parts.method.to_string(), allow))
            }
            Route::NotFound => Err(GatewayError::PathNotFound(parts.uri.path().to_owned())),
        }
    }

    /// Reads the request whole.
    async fn accept(
        &self,
        parts: &Parts,
        incoming: &mut Incoming,
        settings: &Settings,
        route: RunRoute,
        key: Option<Arc<str>>,
    ) -> Result<Accepted, GatewayError> {
        let context = context(&parts.headers)?;
        let (format, labelled) = Format::of(&route, &parts.headers)?;
        let http = &settings.config.http;
        let limits = (http.max_body_bytes, http.max_buffered_bytes);
        let body = body::read(incoming, &format, &self.budget, limits).await?;
        let field = body.scanned.model.as_ref();
        let field = field
            .filter(|field| !field.value.is_empty())
            .ok_or_else(|| GatewayError::InvalidRequest("the request names no `model`".into()))?;
        let mut headers = forwarded(&parts.headers);
        if labelled == Labelled::Wrongly {
            headers.retain(|(name, _)| name != header::CONTENT_TYPE.as_str());
            headers.push((header::CONTENT_TYPE.as_str().to_owned(), Bytes::from_static(b"application/json")));
        }
        let run = RunRequest {
            method: parts.method.clone(),
            path: parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            headers,
            model: field.value.as_str().into(),
            model_literal: field.literal.clone(),
            model_text: format.model_text(),
            operation: route.operation,
            body: body.chunks.clone(),
        };
        let pace = parts.extensions.get().cloned().unwrap_or_default();
        Ok(Accepted { run, route, body, context, key, pace })
    }
}

/// A request that was read whole and is to be run.
struct Accepted {
    run: RunRequest,
    route: RunRoute,
    body: Buffered,
    context: Context,
    key: Option<Arc<str>>,
    pace: ClientPace,
}

impl Accepted {
    /// Whether the answer will be a stream of events.
    fn is_stream(&self) -> bool {
        self.route.streams && self.body.scanned.stream
    }

    /// Waits for admission and for a provider to begin its answer.
    async fn run(self, gateway: Gateway, request_id: String) -> Result<Response<Body>, GatewayError> {
        let Self { run: request, route, body, context, key, pace } = self;
        let model = request.model.clone();
        let estimated = estimate_tokens(&body.scanned.text);
        let admission = gateway.desk.submit(admission::Request {
            model: model.clone(),
            api: route.api,
            tokens: gateway.estimator.correct(&model, estimated),
            context,
            key,
        });
        let Started { run, reply, provider } = gateway.dispatch.start(admission, &request, route.api).await?;
        info!(%model, node = %provider.node, provider = %provider.provider, "started");
        let usage = UsageReport { estimator: gateway.estimator.clone(), model: model.clone(), estimated };
        match reply {
            Reply::Response { status, headers } => {
                Ok(relay::response(run, status, headers, route.dialect, usage, pace))
            }
            Reply::Normalized(operation) => {
                let shape = normalized::Shape {
                    operation,
                    model: &model,
                    request_id: &request_id,
                    scanned: &body.scanned,
                    usage,
                    pace,
                };
                normalized::response(run, &shape, &body.chunks, &provider).await
            }
        }
    }
}

/// The answer to HEAD. Over HTTP/1.1 the server would leave out the body by itself; over HTTP/2 it would not.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.entry(header::CONTENT_LENGTH).or_insert(length.into());
    }
    Response::from_parts(head, Empty::new().map_err(|never| match never {}).boxed_unsync())
}

fn context(headers: &HeaderMap) -> Result<Context, GatewayError> {
    match headers.get(CONTEXT_HEADER).map(HeaderValue::as_bytes) {
        None => Ok(Context::Estimated),
        Some(b"long") => Ok(Context::Long),
        Some(b"normal") => Ok(Context::Normal),
        Some(_) => Err(GatewayError::InvalidRequest(format!("{CONTEXT_HEADER} must be `long` or `normal`"))),
    }
}

/// The client's headers that go to the provider: end-to-end ones, without its credentials.
fn forwarded(headers: &HeaderMap) -> Vec<Header> {
    let named: Vec<&str> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let stays = |name: &header::HeaderName| {
        HOP_BY_HOP.contains(&name.as_str())
            || NOT_FORWARDED.contains(&name.as_str())
            || named.iter().any(|other| other.eq_ignore_ascii_case(name.as_str()))
    };
    headers
        .iter()
        .filter(|(name, _)| !stays(name))
        .map(|(name, value)| (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes())))
        .collect()
}

/// Headers that belong to one connection.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that mean the edge: its credentials and its own framing. Browsers' origin and cookies too: the provider serves
/// this edge, not the page. And other methods than the one that was checked.
const NOT_FORWARDED: [&str; 13] = [
    "authorization",
    "x-api-key",
    "api-key",
    "host",
    "content-length",
    "expect",
    "cookie",
    "origin",
    "referer",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    CONTEXT_HEADER,
];

/// Random enough to be unique in a log.
fn request_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}
