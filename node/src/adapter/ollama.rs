//! An Ollama server, by normalized runs over its native API. The translations are pure and stand in modules of their
//! own; here requests are sent and answers read. Nothing is asked twice.

mod embeddings;
mod events;
mod lines;
mod refusal;
mod request;

pub use embeddings::{BadVectors, DIMENSIONS, read_vectors};
pub use events::{BadLine, Reader};
pub use lines::{LINE_BYTES, LineTooLong, Lines};
pub use request::{BadRequest, Expected, Translated, translate};

use crate::execution::{End, Events, EventsLost};
use crate::upstream::{Answer, AnswerError, Call, Payload, Upstream};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use iop_transport::codes::StreamCode;
use iop_transport::wire::NormalizedRequest;
use std::collections::VecDeque;
use std::time::Duration;

/// JSON up to this size is read in place; larger bodies would hold up every stream of this thread.
const IN_PLACE_BYTES: usize = 1 << 20;

/// How long a server may take to end an answer whose last line has come, or to say why it refuses.
const TAIL_LIMIT: Duration = Duration::from_secs(2);

/// Largest answer to a request for vectors, in bytes.
const VECTORS_BYTES: usize = 64 << 20;

/// Most that is read of what a server says about an error, in bytes.
const ERROR_BYTES: usize = 16 << 10;

/// One Ollama server.
pub(crate) struct Ollama {
    upstream: Upstream,
}

/// Why an answer is not complete.
enum Broken {
    /// The edge takes no more.
    Lost(EventsLost),
    /// The connection to the server ended or fell silent.
    Answer(AnswerError),
    /// The server said something else than its API promises, or that it failed.
    Wrong(String),
}

impl Ollama {
    pub(crate) fn new(upstream: Upstream) -> Self {
        Self { upstream }
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Answers one request, whose body is the client's JSON. Dropped, it has closed its connection.
    pub(crate) async fn run(&self, request: NormalizedRequest, body: Bytes, events: &mut Events<'_>) -> End {
        let NormalizedRequest { operation, model } = request;
        let asked = model.clone();
        let translated = match aside(body.len(), move || translate(operation, &asked, &body)).await {
            Ok(Ok(translated)) => translated,
            Ok(Err(bad)) => return End::bad_request(bad.to_string()),
            Err(code) => return End::Failed(code),
        };
        let path = match self.upstream.target().join_native(translated.path) {
            Ok(path) => path,
            Err(error) => return End::bad_request(error.to_string()),
        };
        let json = HeaderValue::from_static("application/json");
        let call = Call {
            method: Method::POST,
            path,
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, json)]),
            payload: Payload::Whole(VecDeque::from([translated.body])),
        };
        let answer = match self.upstream.call(call).await {
            Ok(answer) => answer,
            Err(error) => return End::Refused(error.reason(), error.to_string()),
        };
        if answer.status() != StatusCode::OK {
            return self.refusal(answer, &model).await;
        }
        let ended = match translated.answer {
            Expected::Lines => lines(answer, events).await,
            Expected::Vectors(number) => vectors(answer, number, events).await,
        };
        match ended {
            Ok(()) => End::Complete,
            Err(Broken::Lost(lost)) => lost.into(),
            Err(Broken::Answer(error)) => events.broken_off(&error),
            Err(Broken::Wrong(problem)) => {
                events.failed(&format!("{}: {problem}", self.upstream.target().display())).await
            }
        }
    }

    async fn refusal(&self, mut answer: Answer, model: &str) -> End {
        let mut said = BytesMut::new();
        let reading = async {
            while let Ok(Some(bytes)) = answer.chunk().await {
                said.extend_from_slice(&bytes[..bytes.len().min(ERROR_BYTES - said.len())]);
                if said.len() == ERROR_BYTES {
                    break;
                }
            }
        };
        // What has come until then is said.
        let _in_time = tokio::time::timeout(TAIL_LIMIT, reading).await;
        let (reason, said) = refusal::read(answer.status(), &said, model);
        End::Refused(reason, format!("{} {said}", self.upstream.target().display()))
    }
}

/// Passes on a streamed answer, each line as it comes and no faster than the edge takes its events. When it returns, the
/// connection is closed or back in its pool.
async fn lines(mut answer: Answer, events: &mut Events<'_>) -> Result<(), Broken> {
    let (mut lines, mut reader) = (Lines::default(), Reader::default());
    while let Some(bytes) = answer.chunk().await? {
        lines.push(&bytes);
        while let Some(line) = lines.next_line()? {
            for event in reader.read(&line)? {
                events.send(&event).await?;
            }
            if reader.is_done() {
                end(answer).await;
                return Ok(());
            }
        }
    }
    if let Some(line) = lines.last() {
        for event in reader.read(&line)? {
            events.send(&event).await?;
        }
    }
    if reader.is_done() { Ok(()) } else { Err(Broken::Wrong("its answer ended before its last line".into())) }
}

/// Reads the end of an answer whose last line has come, so that its connection can serve again.
async fn end(mut answer: Answer) {
    let reading = async { while let Ok(Some(_)) = answer.chunk().await {} };
    let _in_time = tokio::time::timeout(TAIL_LIMIT, reading).await;
}

/// Passes on the vectors of an answer, which is one JSON object.
async fn vectors(answer: Answer, expected: usize, events: &mut Events<'_>) -> Result<(), Broken> {
    let body = whole(answer).await?;
    let read = aside(body.len(), move || read_vectors(&body, expected)).await;
    let read = read.map_err(|code| Broken::Wrong(code.explain().to_owned()))?;
    for event in read.map_err(|bad| Broken::Wrong(bad.to_string()))? {
        events.send(&event).await?;
    }
    Ok(())
}

async fn whole(mut answer: Answer) -> Result<Bytes, Broken> {
    let mut body = BytesMut::new();
    while let Some(bytes) = answer.chunk().await? {
        if body.len() + bytes.len() > VECTORS_BYTES {
            return Err(Broken::Wrong(format!("its answer is longer than {VECTORS_BYTES} bytes")));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body.freeze())
}

/// Does work on so many bytes, beside this thread if they are many. The code says that the work came to no end.
async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StreamCode> {
    if bytes <= IN_PLACE_BYTES {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|_panicked_or_shut_down| StreamCode::NodeDropped)
}

impl From<EventsLost> for Broken {
    fn from(lost: EventsLost) -> Self {
        Self::Lost(lost)
    }
}

impl From<AnswerError> for Broken {
    fn from(error: AnswerError) -> Self {
        Self::Answer(error)
    }
}

impl From<LineTooLong> for Broken {
    fn from(error: LineTooLong) -> Self {
        Self::Wrong(error.to_string())
    }
}

impl From<BadLine> for Broken {
    fn from(error: BadLine) -> Self {
        Self::Wrong(error.to_string())
    }
}
