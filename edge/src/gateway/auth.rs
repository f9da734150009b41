//! Who may call, and from which web pages.

use super::{Body, GatewayError};
use crate::bearer::{bearer, is_shown};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use iop_config::{Auth, CorsOrigins};
use std::net::SocketAddr;
use std::sync::Arc;

/// How long a browser may remember a preflight, in seconds.
const PREFLIGHT_SECONDS: u64 = 3600;

/// Asks for the keys of the configuration that a request began with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    /// Whether the listener is one that only this machine reaches.
    is_loopback: bool,
}

impl Guard {
    /// For a listener that was bound to `address`.
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { is_loopback: address.ip().is_loopback() }
    }

    /// The name of the client's key; `None` where no keys are configured. The file may name none while it names loopback;
    /// the socket is still the one that was bound at the start, and lets nobody in without a key if others reach it.
    pub(super) fn key(self, auth: &Auth, headers: &HeaderMap) -> Result<Option<Arc<str>>, GatewayError> {
        if auth.keys.is_empty() {
            return if self.is_loopback { Ok(None) } else { Err(GatewayError::KeysGone) };
        }
        let shown = shown_key(headers).ok_or(GatewayError::NoKey)?;
        // Every key is compared, each in constant time, so that timing tells nothing about them.
        let mut found = None;
        for known in &auth.keys {
            if is_shown(&known.key, shown) {
                found = Some(Arc::from(known.name.as_str()));
            }
        }
        found.map(Some).ok_or(GatewayError::WrongKey)
    }
}

/// `Authorization: Bearer`, or `x-api-key` as Anthropic's clients send it.
fn shown_key(headers: &HeaderMap) -> Option<&[u8]> {
    bearer(headers).or_else(|| headers.get("x-api-key").map(|value| value.as_bytes().trim_ascii()))
}

/// Whether a browser asks beforehand. Such a request never carries a key.
pub(super) fn is_preflight(request: &Parts) -> bool {
    request.method == Method::OPTIONS
}

/// The answer to a preflight: what is asked for is allowed; the origin is checked by [`add_cors_headers`].
pub(super) fn preflight(request: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");
    headers.insert(header::ALLOW, methods.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let asked = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let allowed = asked.unwrap_or_else(|| HeaderValue::from_static("authorization, content-type, x-api-key"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS.into());
    response
}

/// The value of `access-control-allow-origin` for this request, if its page may call.
pub(super) fn allowed_origin(allowed: &CorsOrigins, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    match allowed {
        CorsOrigins::Any => Some(HeaderValue::from_static("*")),
        CorsOrigins::Only(origins) => {
            origins.iter().any(|known| known.as_str().as_bytes() == origin.as_bytes()).then(|| origin.clone())
        }
    }
}

/// Lets the page read the response.
pub(super) fn add_cors_headers(headers: &mut HeaderMap, origin: Option<HeaderValue>) {
    let Some(origin) = origin else { return };
    if origin != "*" {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("x-request-id, retry-after, retry-after-ms"),
    );
}
