//! What reached the engine and when. Counting happens here and nowhere else: a request is in progress from its
//! parsed headers until its answer is wholly written or its connection is closed.

use super::server::Door;
use hyper::{HeaderMap, Method};
use std::fmt::{self, Debug, Formatter};
use std::time::Instant;

/// Requests kept; the engine answers 507 beyond it, so that no test loses records unnoticed.
pub(super) const MAX_REQUESTS: usize = 100_000;

/// Everything recorded so far.
#[derive(Default)]
pub struct Log {
    /// All requests in order of arrival.
    pub requests: Vec<Received>,
    /// Requests in progress now, without `GET`s.
    pub in_progress: usize,
    /// Most requests in progress at one moment, without `GET`s.
    pub peak: usize,
    /// TCP connections accepted since the start.
    pub connections_opened: usize,
    /// TCP connections open now.
    pub connections_open: usize,
    pub(super) door: Door,
}

/// One request as it was received.
#[derive(Clone)]
pub struct Received {
    /// Order of arrival, from 0.
    pub number: usize,
    /// Which of the accepted TCP connections carried it, from 0.
    pub connection: usize,
    /// Its method.
    pub method: Method,
    /// Path and query as they came.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// The bytes of its body that have arrived.
    pub body: Vec<u8>,
    /// Whether the body arrived to its end.
    pub body_complete: bool,
    /// When its headers were parsed.
    pub arrived: Instant,
    /// When the last byte of its answer was handed to the socket.
    pub answered: Option<Instant>,
    /// When its TCP connection closed, by whichever side.
    pub closed: Option<Instant>,
}

impl Received {
    /// Its body as JSON; `Null` when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// One header as text; empty when it is absent or no text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Whether the connection closed before the answer was wholly written.
    pub fn broken_off(&self) -> bool {
        self.closed.is_some() && self.answered.is_none()
    }

    fn takes_a_slot(&self) -> bool {
        self.method != Method::GET
    }
}

impl Log {
    /// The requests that scripts apply to and that count as in progress: all but `GET`s.
    pub fn scripted(&self) -> impl Iterator<Item = &Received> {
        self.requests.iter().filter(|request| request.takes_a_slot())
    }

    pub(super) fn opened(&mut self) -> usize {
        self.connections_opened += 1;
        self.connections_open += 1;
        self.connections_opened - 1
    }

    pub(super) fn arrived(&mut self, connection: usize, head: &hyper::http::request::Parts) -> usize {
        let number = self.requests.len();
        let path = head.uri.path_and_query().map(|path| path.as_str()).unwrap_or_default().to_owned();
        let request = Received {
            number,
            connection,
            method: head.method.clone(),
            path,
            headers: head.headers.clone(),
            body: Vec::new(),
            body_complete: false,
            arrived: Instant::now(),
            answered: None,
            closed: None,
        };
        if request.takes_a_slot() {
            self.in_progress += 1;
            self.peak = self.peak.max(self.in_progress);
        }
        self.requests.push(request);
        number
    }

    pub(super) fn answered(&mut self, number: usize) {
        let request = &mut self.requests[number];
        assert!(request.answered.is_none(), "request {number} answered twice");
        request.answered = Some(Instant::now());
        self.in_progress -= usize::from(request.takes_a_slot());
    }

    pub(super) fn closed(&mut self, connection: usize) {
        let now = Instant::now();
        self.connections_open -= 1;
        for request in self.requests.iter_mut().filter(|request| request.connection == connection) {
            request.closed = Some(now);
            let was_in_progress = request.answered.is_none() && request.takes_a_slot();
            self.in_progress -= usize::from(was_in_progress);
        }
    }
}

/// Last requests shown when a wait fails.
const SHOWN: usize = 12;

impl Debug for Log {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} requests, {} in progress, peak {}, {} connections opened, {} open",
            self.requests.len(),
            self.in_progress,
            self.peak,
            self.connections_opened,
            self.connections_open
        )?;
        let hidden = self.requests.len().saturating_sub(SHOWN);
        self.requests.iter().skip(hidden).try_for_each(|request| write!(out, "; {request:?}"))
    }
}

impl Debug for Received {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let since = |moment: Instant| moment.duration_since(self.arrived);
        write!(
            out,
            "#{} {} {} on connection {}, {} body bytes{}, answered {:?}, closed {:?}",
            self.number,
            self.method,
            self.path,
            self.connection,
            self.body.len(),
            if self.body_complete { "" } else { " so far" },
            self.answered.map(since),
            self.closed.map(since)
        )
    }
}
