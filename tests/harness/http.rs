//! A small HTTP/1.1 client for tests: every connection is the test's own, to be kept, starved or dropped.
//! No redirects, no retries, no pool. raw.rs speaks below HTTP, sse.rs above it.

mod raw;
mod sse;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{self, Poll, ready};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Sleep, timeout};

pub use raw::RawConnection;
pub use sse::{Event, EventParser};

/// Longest wait for any one step of an exchange: connecting, headers, one piece of body. Longer than every
/// timeout of the product that tests let happen.
pub const STEP_DEADLINE: Duration = Duration::from_secs(60);

/// A request that is yet to be sent.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Headers besides `host` and the body's own.
    pub headers: Vec<(String, String)>,
    /// The pieces of its body; more than one piece is sent piece by piece.
    pub pieces: Vec<Bytes>,
    /// Time before each piece but the first.
    pub interval: Duration,
    /// Sent with `transfer-encoding: chunked` instead of a length.
    pub chunked: bool,
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, path: &str) -> Self {
        let (headers, pieces) = (Vec::new(), Vec::new());
        Self { method, path: path.to_owned(), headers, pieces, interval: Duration::ZERO, chunked: false }
    }

    /// `GET path`.
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// `POST path` with a JSON body.
    pub fn post(path: &str, body: &Value) -> Self {
        Self::new(Method::POST, path)
            .header(CONTENT_TYPE.as_str(), "application/json")
            .pieces([body.to_string()], Duration::ZERO)
    }

    /// A chat completion of `model`, streamed or not.
    pub fn chat(model: &str, stream: bool) -> Self {
        let messages = serde_json::json!([{"role": "user", "content": "hello"}]);
        let body = serde_json::json!({"model": model, "messages": messages, "stream": stream});
        Self::post("/v1/chat/completions", &body)
    }

    /// The same with one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with a body of these pieces, `interval` apart.
    pub fn pieces<B: Into<Bytes>>(mut self, pieces: impl IntoIterator<Item = B>, interval: Duration) -> Self {
        self.pieces = pieces.into_iter().map(Into::into).collect();
        self.interval = interval;
        self
    }

    /// The same with its body sent chunked, its length undeclared.
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// One header as text; empty when it is absent or no text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none; the message shows the answer.
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("no JSON ({error}) in {self:?}"),
        }
    }
}

/// One piece of a body and when it arrived.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Its bytes.
    pub bytes: Bytes,
    /// When the reading task got it.
    pub at: Instant,
}

/// An answer whose body is still to be read. Nothing is read ahead beyond one buffer: not asking is not reading.
/// Dropping it closes the connection.
#[derive(Debug)]
pub struct Streaming {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: Incoming,
    _connection: Connection,
}

impl Streaming {
    /// The next piece as it came from the socket; `None` at a clean end, an error at any other.
    pub async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            let frame =
                timeout(STEP_DEADLINE, self.body.frame()).await.context("no piece of body in time")?;
            let Some(frame) = frame else { return Ok(None) };
            if let Ok(bytes) = frame.context("the body broke off")?.into_data() {
                return Ok(Some(Piece { bytes, at: Instant::now() }));
            }
        }
    }

    /// All further pieces, and whether the end was a clean one.
    pub async fn rest(&mut self) -> (Vec<Piece>, Result<()>) {
        let mut pieces = Vec::new();
        loop {
            match self.next().await {
                Ok(Some(piece)) => pieces.push(piece),
                Ok(None) => return (pieces, Ok(())),
                Err(error) => return (pieces, Err(error)),
            }
        }
    }

    /// All further server-sent events with their times of arrival, and whether the end was a clean one.
    pub async fn events(&mut self) -> (Vec<(Event, Instant)>, Result<()>) {
        let (pieces, end) = self.rest().await;
        let mut parser = EventParser::default();
        let timed = |piece: Piece| parser.push(&piece.bytes).into_iter().map(move |event| (event, piece.at));
        let mut events = Vec::new();
        pieces.into_iter().map(timed).for_each(|some| events.extend(some));
        (events, end)
    }
}

/// One connection that is kept for several requests. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<CallBody>,
    host: String,
    driver: AbortHandle,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = timeout(STEP_DEADLINE, TcpStream::connect(address))
            .await
            .context("not connected in time")?
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Its error comes to whoever reads the answer.
        let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, host: address.to_string(), driver })
    }

    /// Sends a request and reads its whole answer.
    pub async fn send(&mut self, call: Call) -> Result<Answer> {
        let (head, body) = self.exchange(call).await?.into_parts();
        let body = timeout(STEP_DEADLINE, body.collect()).await.context("the body did not end in time")?;
        let body = body.context("the body broke off")?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Sends a request and gives up the connection to its answer.
    pub async fn into_streaming(mut self, call: Call) -> Result<Streaming> {
        let (head, body) = self.exchange(call).await?.into_parts();
        Ok(Streaming { status: head.status, headers: head.headers, body, _connection: self })
    }

    async fn exchange(&mut self, call: Call) -> Result<hyper::Response<Incoming>> {
        let mut request = Request::builder().method(call.method.clone()).uri(&call.path);
        if !call.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(HOST.as_str())) {
            request = request.header(HOST, &self.host);
        }
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let request = request.body(CallBody::new(call)).context("a request that HTTP allows")?;
        timeout(STEP_DEADLINE, self.sender.ready())
            .await
            .context("the connection was not ready in time")??;
        let answer = timeout(STEP_DEADLINE, self.sender.send_request(request)).await;
        answer.context("no answer in time")?.context("no answer")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Sends a request on a connection of its own and reads the whole answer.
pub async fn send(address: SocketAddr, call: Call) -> Result<Answer> {
    Connection::open(address).await?.send(call).await
}

/// Sends a request on a connection of its own and returns at its answer's headers.
pub async fn open(address: SocketAddr, call: Call) -> Result<Streaming> {
    Connection::open(address).await?.into_streaming(call).await
}

/// A request's body, piece by piece.
#[derive(Debug)]
struct CallBody {
    pieces: std::vec::IntoIter<Bytes>,
    interval: Duration,
    first: bool,
    pause: Option<Pin<Box<Sleep>>>,
    chunked: bool,
}

impl CallBody {
    fn new(call: Call) -> Self {
        let Call { pieces, interval, chunked, .. } = call;
        Self { pieces: pieces.into_iter(), interval, first: true, pause: None, chunked }
    }
}

impl Body for CallBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let interval = self.interval;
        if !self.first && !interval.is_zero() && !self.pieces.as_slice().is_empty() {
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(interval)));
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        self.first = false;
        Poll::Ready(self.pieces.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.as_slice().is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.chunked {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.pieces.as_slice().iter().map(|piece| piece.len() as u64).sum())
    }
}
