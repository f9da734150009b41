//! Every error that a client can get from the edge itself, and how it looks in HTTP. The only file that maps errors to
//! statuses; the words of the codes are part of `CONTRACT-openai.md`.

use super::Body;
use super::route::Dialect;
use crate::admission::{Api, ProviderKey, Refusal};
use crate::render::error as render;
use crate::scan::ScanError;
use crate::scan::multipart::MultipartError;
use crate::settings::api;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use iop_transport::tunnel::RunLost;
use std::time::Duration;

/// How long a client that was turned away for want of room had better wait.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request has no answer from a provider.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    #[error("{0}")]
    InvalidRequest(String),
    #[error("{0}")]
    InvalidBody(#[from] ScanError),
    #[error("{0}")]
    InvalidForm(#[from] MultipartError),
    #[error("the request body ended before it was complete")]
    BodyBroken,
    #[error("no bytes of the request body came for {} s", .0.as_secs())]
    BodyStalled(Duration),
    #[error("this edge needs an API key: send it as `Authorization: Bearer KEY`")]
    NoKey,
    #[error("the API key is not one of this edge's")]
    WrongKey,
    #[error(
        "this edge still listens for clients on more than loopback, but auth.keys is gone from its configuration: nobody is \
         let in until it is there again or the edge starts again"
    )]
    KeysGone,
    #[error("there is nothing at {0}")]
    PathNotFound(String),
    #[error("{0} is not a method of this path")]
    MethodNotAllowed(String, &'static str),
    #[error("the model `{0}` does not exist on this edge")]
    ModelNotFound(String),
    #[error("no provider of the model `{model}` serves this path ({api})")]
    ApiNotServed { model: String, api: &'static str },
    #[error("the request body is larger than {max} bytes (http.max_body_bytes)")]
    TooLarge { max: u64 },
    #[error("the request's headers do not fit into {max} bytes")]
    HeadersTooLarge { max: usize },
    #[error(
        "the request has about {tokens} prompt tokens; the longest context of the model `{model}` is {window} tokens"
    )]
    ContextLengthExceeded { model: String, tokens: u32, window: u32 },
    #[error("waiting requests already hold {max} bytes (http.max_buffered_bytes)")]
    Overloaded { max: u64 },
    #[error("{max} requests are waiting already (provider_pool.max_queue)")]
    QueueFull { max: u32 },
    #[error("{max} requests of this API key are waiting already (auth.keys[].max_queued)")]
    KeyQueueFull { max: u32 },
    #[error("no provider became free within {} ms (provider_pool.queue_timeout_ms)", .0.as_millis())]
    QueueTimeout(Duration),
    #[error("no provider of the model `{model}` is available: {reasons}")]
    Unavailable { model: String, reasons: String },
    #[error("{provider} was disconnected before it answered")]
    Disconnected { provider: String },
    #[error("{provider} did not take the request: {detail}")]
    Busy { provider: String, detail: String },
    #[error("{provider} cannot be reached by its node: {detail}")]
    Unreachable { provider: String, detail: String },
    #[error("{provider} took too long to answer: {detail}")]
    TimedOut { provider: String, detail: String },
    #[error("{provider} gave no usable answer: {detail}")]
    BadAnswer { provider: String, detail: String },
    #[error("{provider} refuses this request: {detail}")]
    RefusedRequest { provider: String, detail: String },
}

impl GatewayError {
    /// What the refusal of admission means to the client. `reasons` says why nobody is available.
    pub(crate) fn refused(refusal: Refusal, model: &str, api: Api, reasons: impl FnOnce() -> String) -> Self {
        let model = model.to_owned();
        match refusal {
            Refusal::ModelNotFound => Self::ModelNotFound(model),
            Refusal::ApiNotServed => Self::ApiNotServed { model, api: api_name(api) },
            Refusal::ContextLengthExceeded { tokens, window } => {
                Self::ContextLengthExceeded { model, tokens, window }
            }
            Refusal::Unavailable | Refusal::NoOtherProvider => {
                Self::Unavailable { model, reasons: reasons() }
            }
            Refusal::QueueFull { max } => Self::QueueFull { max },
            Refusal::KeyQueueFull { max } => Self::KeyQueueFull { max },
            Refusal::QueueTimeout { timeout } => Self::QueueTimeout(timeout),
        }
    }

    /// Status and `error.code`.
    pub(crate) fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidRequest(_)
            | Self::InvalidBody(_)
            | Self::InvalidForm(_)
            | Self::BodyBroken
            | Self::RefusedRequest { .. } => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::BodyStalled(_) => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::NoKey | Self::WrongKey | Self::KeysGone => (StatusCode::UNAUTHORIZED, "invalid_api_key"),
            Self::PathNotFound(_) | Self::ApiNotServed { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed(..) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::ModelNotFound(_) => (StatusCode::NOT_FOUND, "model_not_found"),
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::HeadersTooLarge { .. } => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large")
            }
            Self::ContextLengthExceeded { .. } => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
            Self::Overloaded { .. } => (StatusCode::TOO_MANY_REQUESTS, "gateway_overloaded"),
            Self::QueueFull { .. } | Self::KeyQueueFull { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "queue_full")
            }
            Self::QueueTimeout(_) => (StatusCode::SERVICE_UNAVAILABLE, "queue_timeout"),
            Self::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "provider_unavailable"),
            Self::Disconnected { .. } => (StatusCode::BAD_GATEWAY, "provider_disconnected"),
            Self::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, "provider_busy"),
            Self::Unreachable { .. } => (StatusCode::BAD_GATEWAY, "provider_unreachable"),
            Self::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "provider_timeout"),
            Self::BadAnswer { .. } => (StatusCode::BAD_GATEWAY, "provider_error"),
        }
    }

    /// The error as a whole response in the dialect of its path.
    pub(crate) fn response(&self, dialect: Dialect, request_id: &str) -> Response<Body> {
        let (status, code) = self.status_and_code();
        let shape = match dialect {
            Dialect::Chat | Dialect::Responses => render::Dialect::OpenAi,
            Dialect::Messages => render::Dialect::Anthropic,
        };
        let body = render::body(shape, status.as_u16(), code, &self.to_string(), request_id);
        let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self {
            Self::Overloaded { .. }
            | Self::QueueFull { .. }
            | Self::KeyQueueFull { .. }
            | Self::QueueTimeout(_)
            | Self::Unavailable { .. }
            | Self::Busy { .. } => {
                let millis = u64::try_from(RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
                headers.insert("retry-after-ms", millis.into());
                headers.insert(header::RETRY_AFTER, RETRY_AFTER.as_secs().into());
            }
            Self::TooLarge { .. } => {
                headers.insert("x-should-retry", HeaderValue::from_static("false"));
            }
            Self::MethodNotAllowed(_, allow) => {
                headers.insert(header::ALLOW, HeaderValue::from_static(allow));
            }
            Self::NoKey | Self::WrongKey | Self::KeysGone => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

/// `error.code` of the event that ends a stream whose run was lost.
pub(crate) fn lost_code(lost: &RunLost) -> &'static str {
    match lost {
        RunLost::Connection(_) => "provider_disconnected",
        RunLost::Reset { .. } | RunLost::Protocol(_) | RunLost::Silent { .. } => "provider_error",
    }
}

/// A provider's name in messages.
pub(crate) fn provider_name(key: &ProviderKey) -> String {
    format!("provider `{}` of node `{}`", key.provider, key.node)
}

fn api_name(needed: Api) -> &'static str {
    match needed {
        api::CHAT => "chat completions",
        api::COMPLETIONS => "completions",
        api::EMBEDDINGS => "embeddings",
        _ => "it is only served by providers with an OpenAI-compatible API",
    }
}
