//! What the engine does with one request, as a value. It says what to do, not how: body.rs and server.rs act it out.

use bytes::Bytes;
use hyper::StatusCode;
use std::time::Duration;

/// How one request is answered.
#[derive(Debug, Clone)]
pub struct Script {
    /// Waits at the gate before the first byte even when the gate is open to others.
    pub hold: bool,
    /// Time between the whole request and the first byte of the answer.
    pub delay: Duration,
    /// The answer.
    pub reply: Reply,
    /// Time between two pieces of the body.
    pub interval: Duration,
    /// Where and how the answer breaks off; `None` lets it end cleanly.
    pub cut: Option<Cut>,
    /// Every piece of the body but the first waits at the gate, even when the gate is open to others.
    pub stepped: bool,
    /// Headers added to the answer, unless it is raw or none.
    pub headers: Vec<(String, String)>,
}

/// The answer itself.
#[derive(Debug, Clone)]
pub enum Reply {
    /// What the path calls for: JSON, or server-sent events when the body says `"stream": true`.
    OpenAi {
        /// Chunks of generated text, one event each when streamed.
        chunks: usize,
        /// Bytes of text in each chunk, at least; short ones are padded.
        chunk_bytes: usize,
    },
    /// Any answer in proper HTTP.
    Http {
        /// Its status.
        status: StatusCode,
        /// The pieces of its body.
        pieces: Vec<Bytes>,
        /// Whether its length is declared; else it is sent chunked.
        sized: bool,
    },
    /// These bytes and nothing else, then the connection closes unless `cut` says otherwise.
    Raw(Bytes),
    /// Not a byte; what happens to the connection is `cut`'s [`Then`], or an orderly close.
    Nothing,
}

/// The place where an answer breaks off.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Pieces of body sent before. A JSON answer has two pieces, an event stream one for each event.
    pub after: usize,
    /// What happens then.
    pub then: Then,
}

/// How an answer breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The connection is closed (FIN) in the middle of the answer.
    Close,
    /// The connection is reset (RST).
    Reset,
    /// Silence until the other side closes.
    Hang,
    /// Waits at the gate, then goes on to a clean end.
    Hold,
}

impl Default for Script {
    fn default() -> Self {
        Self::answer()
    }
}

impl Script {
    /// A whole answer of three chunks at once.
    pub fn answer() -> Self {
        Self::of(Reply::OpenAi { chunks: 3, chunk_bytes: 1 })
    }

    /// An answer of `chunks` chunks, `interval` apart when the request asks for a stream.
    pub fn stream(chunks: usize, interval: Duration) -> Self {
        Self { interval, ..Self::of(Reply::OpenAi { chunks, chunk_bytes: 1 }) }
    }

    /// A short answer with this status and an error body in OpenAI's shape, such as 429 or 503.
    ///
    /// # Panics
    /// When `status` is no HTTP status.
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("an HTTP status");
        let text = status.canonical_reason().unwrap_or("scripted");
        let body =
            serde_json::json!({"error": {"message": text, "type": "scripted", "code": status.as_u16()}});
        let json = Reply::Http { status, pieces: vec![Bytes::from(body.to_string())], sized: true };
        Self::of(json).header("content-type", "application/json")
    }

    /// Status 200 with this body, its length declared.
    pub fn body(body: impl Into<Bytes>) -> Self {
        Self::of(Reply::Http { status: StatusCode::OK, pieces: vec![body.into()], sized: true })
    }

    /// These bytes on the connection, which then closes.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::of(Reply::Raw(bytes.into()))
    }

    /// Something that is no HTTP, then the connection closes.
    pub fn garbage() -> Self {
        Self::raw("\u{1}\u{2}this is not HTTP\r\n\r\n")
    }

    /// Closes the connection without a byte once the request was read.
    pub fn no_answer() -> Self {
        Self::of(Reply::Nothing)
    }

    /// Reads the request and never answers.
    pub fn silence() -> Self {
        Self::of(Reply::Nothing).cut(0, Then::Hang)
    }

    fn of(reply: Reply) -> Self {
        Self {
            hold: false,
            delay: Duration::ZERO,
            reply,
            interval: Duration::ZERO,
            cut: None,
            stepped: false,
            headers: Vec::new(),
        }
    }

    /// The same, with its first byte `delay` later.
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same, waiting at the gate before its first byte.
    pub fn held(mut self) -> Self {
        self.hold = true;
        self
    }

    /// The same, breaking off after `after` pieces of body.
    pub fn cut(mut self, after: usize, then: Then) -> Self {
        self.cut = Some(Cut { after, then });
        self
    }

    /// The same, each piece of its body but the first waiting at the gate: a test lets them go one by one.
    pub fn stepped(mut self) -> Self {
        self.stepped = true;
        self
    }

    /// The same with one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The text a client should read from an answer of [`Reply::OpenAi`]; empty for any other reply.
    pub fn text(&self) -> String {
        match self.reply {
            Reply::OpenAi { chunks, chunk_bytes } => {
                (0..chunks).map(|index| chunk_text(index, chunk_bytes)).collect()
            }
            _ => String::new(),
        }
    }
}

/// The text of one chunk: its index, then padding, so that a lost or doubled chunk shows.
pub fn chunk_text(index: usize, chunk_bytes: usize) -> String {
    format!("{:.<width$}", format!("{index} "), width = chunk_bytes)
}
