//! What an OpenAI-compatible server says to each path. Shapes only: the text is numbered chunks.

use super::script::chunk_text;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

/// The model that the engine has at first, and that every answer names where the request names none.
pub(super) const MODEL: &str = "scripted";
/// Length of an embedding.
const DIMENSIONS: usize = 8;

/// The pieces of an answer, made one at a time, so that a stream may be as long as a test likes.
#[derive(Debug)]
pub(super) enum Pieces {
    /// A body that is known whole.
    Listed { pieces: std::vec::IntoIter<Bytes> },
    /// Server-sent events.
    Events { dialect: Dialect, next: usize, chunks: usize, chunk_bytes: usize, usage: bool },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Dialect {
    Chat,
    Completion,
}

/// Status, content type and pieces of the standard answer.
pub(super) struct Standard {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) pieces: Pieces,
}

/// The standard answer to a request.
pub(super) fn standard(
    method: &Method,
    path: &str,
    body: &Value,
    listed: &[String],
    chunks: usize,
    chunk_bytes: usize,
) -> Standard {
    let path = path.split('?').next().unwrap_or_default();
    let dialect = match path {
        "/v1/chat/completions" => Some(Dialect::Chat),
        "/v1/completions" => Some(Dialect::Completion),
        _ => None,
    };
    if let (Some(dialect), &Method::POST, Some(true)) = (dialect, method, body["stream"].as_bool()) {
        let usage = body["stream_options"]["include_usage"].as_bool().unwrap_or_default();
        let pieces = Pieces::Events { dialect, next: 0, chunks, chunk_bytes, usage };
        return Standard { status: StatusCode::OK, content_type: "text/event-stream", pieces };
    }
    let text: String = (0..chunks).map(|index| chunk_text(index, chunk_bytes)).collect();
    let (status, value) = match (method, path, dialect) {
        (&Method::GET, "/v1/models", _) => (StatusCode::OK, models(listed)),
        (&Method::GET, "/health", _) => (StatusCode::OK, json!({"status": "ok"})),
        (&Method::GET, ..) => (StatusCode::NOT_FOUND, not_found(path)),
        (_, _, Some(dialect)) => (StatusCode::OK, completion(dialect, body, &text, chunks)),
        (_, "/v1/embeddings", _) => (StatusCode::OK, embeddings(body)),
        _ => (StatusCode::OK, json!({"object": "scripted", "path": path, "text": text})),
    };
    Standard { status, content_type: "application/json", pieces: Pieces::halves(value.to_string().into()) }
}

impl Pieces {
    pub(super) fn list(pieces: Vec<Bytes>) -> Self {
        Self::Listed { pieces: pieces.into_iter() }
    }

    /// A body in two pieces, so that it can break off in its middle.
    fn halves(mut whole: Bytes) -> Self {
        let rest = whole.split_off(whole.len() / 2);
        Self::list(vec![whole, rest])
    }

    /// Bytes of the whole body, where they are known in advance.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        match self {
            Self::Listed { pieces } => Some(pieces.as_slice().iter().map(|piece| piece.len() as u64).sum()),
            Self::Events { .. } => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Listed { pieces } => pieces.as_slice().is_empty(),
            Self::Events { next, chunks, .. } => *next > chunks + 2,
        }
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Listed { pieces } => pieces.next(),
            Self::Events { dialect, next, chunks, chunk_bytes, usage } => {
                let index = *next;
                *next += 1;
                // Without usage its place is skipped, so that `is_empty` is a plain comparison.
                if index == *chunks && !*usage {
                    *next += 1;
                }
                let event = match index.checked_sub(*chunks) {
                    None => dialect.chunk(&chunk_text(index, *chunk_bytes), index == 0),
                    Some(0) => dialect.last(),
                    Some(1) => dialect.usage(*chunks),
                    Some(2) => return Some(Bytes::from_static(b"data: [DONE]\n\n")),
                    Some(_) => return None,
                };
                Some(Bytes::from(format!("data: {event}\n\n")))
            }
        }
    }
}

impl Dialect {
    fn chunk(self, text: &str, first: bool) -> Value {
        match self {
            Self::Chat if first => self.event(json!([{"index": 0, "delta": {"role": "assistant",
                "content": text}, "finish_reason": null}])),
            Self::Chat => {
                self.event(json!([{"index": 0, "delta": {"content": text}, "finish_reason": null}]))
            }
            Self::Completion => self.event(json!([{"index": 0, "text": text, "finish_reason": null}])),
        }
    }

    fn last(self) -> Value {
        match self {
            Self::Chat => self.event(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}])),
            Self::Completion => self.event(json!([{"index": 0, "text": "", "finish_reason": "stop"}])),
        }
    }

    fn usage(self, chunks: usize) -> Value {
        let mut event = self.event(json!([]));
        event["usage"] = usage(chunks);
        event
    }

    fn event(self, choices: Value) -> Value {
        let object = match self {
            Self::Chat => "chat.completion.chunk",
            Self::Completion => "text_completion",
        };
        json!({"id": "scripted-1", "object": object, "created": 1_700_000_000, "model": MODEL,
            "choices": choices})
    }
}

fn completion(dialect: Dialect, body: &Value, text: &str, chunks: usize) -> Value {
    let model = body["model"].as_str().unwrap_or(MODEL);
    let (object, choice) = match dialect {
        Dialect::Chat => (
            "chat.completion",
            json!({"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": text}}),
        ),
        Dialect::Completion => {
            ("text_completion", json!({"index": 0, "finish_reason": "stop", "text": text}))
        }
    };
    json!({"id": "scripted-1", "object": object, "created": 1_700_000_000, "model": model,
        "choices": [choice], "usage": usage(chunks)})
}

fn usage(chunks: usize) -> Value {
    json!({"prompt_tokens": 1, "completion_tokens": chunks, "total_tokens": chunks + 1})
}

fn models(listed: &[String]) -> Value {
    let model =
        |id: &String| json!({"id": id, "object": "model", "created": 1_700_000_000, "owned_by": "scripted"});
    json!({"object": "list", "data": listed.iter().map(model).collect::<Vec<_>>()})
}

fn embeddings(body: &Value) -> Value {
    let inputs = body["input"].as_array().map_or(1, Vec::len);
    let embedding = |index: usize| {
        let vector: Vec<f64> = (0..DIMENSIONS).map(|place| (index + place) as f64 / 16.0).collect();
        json!({"object": "embedding", "index": index, "embedding": vector})
    };
    let data: Vec<Value> = (0..inputs).map(embedding).collect();
    json!({"object": "list", "model": MODEL, "data": data,
        "usage": {"prompt_tokens": inputs, "total_tokens": inputs}})
}

fn not_found(path: &str) -> Value {
    json!({"error": {"message": format!("no such path: {path}"), "type": "invalid_request_error",
        "code": "not_found"}})
}
