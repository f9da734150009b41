//! The client of one inference server: requests in, answers out, connections kept for reuse. What the answers mean, who
//! may ask and how many at once is decided elsewhere.

mod answer;
mod body;
mod connect;
mod connection;
mod error;
mod headers;
mod pool;
mod silence;
mod target;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use answer::Answer;
pub(crate) use body::{Payload, Upload};
pub use connect::{ByteStream, ConnectError, Connecting, Connector, TcpConnector};
pub(crate) use error::{AnswerError, CallError};
pub(crate) use headers::{
    request as request_headers, response as response_headers, setting as header_setting,
};
pub(crate) use target::Target;
pub(crate) use tls::{Trust, TrustError};

use connection::Connection;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, StatusCode, Version};
use hyper::body::Incoming;
use pool::Pool;
use silence::Silence;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// How soon a kept connection that was dead shows it. A server that closes later had the request and worked on it.
const STALE_LIMIT: Duration = Duration::from_secs(1);

/// What makes two upstreams the same: the settings that requests depend on. Its secrets are masked in Debug.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamSettings {
    pub(crate) target: Target,
    /// Added to every request, in place of headers of the same name; credentials among them.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) connect_limit: Duration,
    pub(crate) first_byte_limit: Duration,
    pub(crate) idle_limit: Duration,
}

/// One inference server.
pub(crate) struct Upstream {
    settings: UpstreamSettings,
    connector: Arc<dyn Connector>,
    pool: Arc<Pool>,
}

/// A request, without what the node itself adds.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Payload,
}

impl Upstream {
    pub(crate) fn new(settings: UpstreamSettings, connector: Arc<dyn Connector>, capacity: u32) -> Self {
        Self { settings, connector, pool: Arc::new(Pool::new(capacity)) }
    }

    pub(crate) fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    pub(crate) fn target(&self) -> &Target {
        &self.settings.target
    }

    /// No more idle connections than runs at once.
    pub(crate) fn set_capacity(&self, capacity: u32) {
        self.pool.set_limit(capacity);
    }

    /// Asks, and waits for the head of the answer. Dropped, it has closed its connection. A kept connection that turns
    /// out to be dead is replaced once by a fresh one, if the request can be sent again.
    pub(crate) async fn call(&self, mut call: Call) -> Result<Answer, CallError> {
        self.add_own_headers(&mut call);
        // A body that cannot be sent again is not risked on a connection that may be dead.
        let kept = if call.payload.is_whole() { self.pool.take().await } else { None };
        if let Some(mut connection) = kept {
            let sent_at = Instant::now();
            let result = self.exchange(&mut connection, &call).await;
            let stale = matches!(result, Err(CallError::NoAnswer { .. }))
                && connection.was_stale()
                && sent_at.elapsed() < STALE_LIMIT;
            if !stale {
                return self.answer(result, connection);
            }
        }
        let mut connection = self.connect().await?;
        let result = self.exchange(&mut connection, &call).await;
        self.answer(result, connection)
    }

    fn answer(
        &self,
        result: Result<http::Response<Incoming>, CallError>,
        connection: Connection,
    ) -> Result<Answer, CallError> {
        let response = result?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.not_http("it switched protocols"));
        }
        Ok(Answer::new(response, connection, Arc::clone(&self.pool), self.settings.idle_limit))
    }

    fn add_own_headers(&self, call: &mut Call) {
        call.headers.insert(header::HOST, self.target().host_header());
        if call.payload.len() > 0 || [Method::POST, Method::PUT, Method::PATCH].contains(&call.method) {
            call.headers.insert(header::CONTENT_LENGTH, call.payload.len().into());
        }
        for (name, value) in &self.settings.headers {
            call.headers.insert(name, value.clone());
        }
    }

    async fn connect(&self) -> Result<Connection, CallError> {
        let target = self.target();
        let limit = self.settings.connect_limit;
        let stream = tokio::time::timeout(limit, self.connector.connect(target.host(), target.port()))
            .await
            .map_err(|_elapsed| CallError::ConnectTimeout { endpoint: target.display(), limit })?
            .map_err(|source| CallError::Unreachable { endpoint: target.display(), source })?;
        Connection::open(stream).await.map_err(|error| self.call_error(&error))
    }

    /// Sends the request once. The limit for the first byte starts anew while the server still takes the body.
    async fn exchange(
        &self,
        connection: &mut Connection,
        call: &Call,
    ) -> Result<http::Response<Incoming>, CallError> {
        let mut request = Request::new(call.payload.clone().into());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = call.path.clone().into();
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = call.headers.clone();
        let limit = self.settings.first_byte_limit;
        let started = Instant::now();
        let mut silence = Silence::new(limit);
        let mut response = pin!(connection.send(request));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(result) = response.as_mut().poll(cx) {
                return Poll::Ready(result.map_err(|error| self.call_error(&error)));
            }
            let since = call.payload.taken_at().map_or(started, |taken| taken.max(started));
            std::task::ready!(silence.poll(since, cx));
            Poll::Ready(Err(CallError::FirstByteTimeout { endpoint: self.target().display(), limit }))
        })
        .await
    }

    fn call_error(&self, error: &hyper::Error) -> CallError {
        if error.is_parse() {
            return self.not_http(&error.to_string());
        }
        CallError::NoAnswer { endpoint: self.target().display() }
    }

    fn not_http(&self, problem: &str) -> CallError {
        CallError::NotHttp { endpoint: self.target().display(), problem: problem.to_owned() }
    }
}
