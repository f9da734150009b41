//! A normalized run collected into one answer, for clients that do not stream. What it holds is bounded.

use std::collections::BTreeMap;

use bytes::Bytes;
use iop_transport::wire::{Finish, RunEvent, Usage};

use super::body::{self, Origin, Said};

/// What a tool call or a vector takes beside its contents, in bytes: so that many empty ones are bounded too.
const ITEM_BYTES: usize = 64;

/// Why there is no answer. The provider's fault in each case; asking again would run the request a second time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is longer than may be held.
    #[error("the provider's answer is longer than {limit} bytes; stream it instead")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The provider reported an error after it had begun.
    #[error("the provider failed: {0}")]
    Failed(String),
    /// An event that does not belong into such an answer.
    #[error("the provider sent {0}")]
    Unexpected(&'static str),
    /// The run ended without its last event.
    #[error("the provider's answer ended before it was complete")]
    Unfinished,
}

/// How embeddings are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EncodingFormat {
    /// Arrays of numbers.
    #[default]
    Float,
    /// Base64 of little-endian 32-bit floats.
    Base64,
}

/// One answer being collected.
#[derive(Debug)]
pub struct Answer {
    shape: Shape,
    model: String,
    limit: usize,
    /// Bytes held, as far as the limit counts them.
    held: usize,
    text: String,
    reasoning: String,
    calls: BTreeMap<u32, Call>,
    vectors: Vec<Vec<f32>>,
    finished: Option<(Finish, Usage)>,
}

#[derive(Debug)]
enum Shape {
    Chat { id: String, created: u64 },
    Completion { id: String, created: u64 },
    Embeddings(EncodingFormat),
}

/// A tool call put together from its pieces.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Answer {
    /// A `chat.completion` with the id `chatcmpl-ID`. `created` is in seconds since 1970; `model` is the name that the
    /// client knows; `limit` bounds what is held, in bytes.
    pub fn chat(id: &str, created: u64, model: &str, limit: usize) -> Self {
        Self::new(Shape::Chat { id: format!("chatcmpl-{id}"), created }, model, limit)
    }

    /// A `text_completion` with the id `cmpl-ID`. Reasoning and tool calls, for which it has no place, are left out.
    pub fn completion(id: &str, created: u64, model: &str, limit: usize) -> Self {
        Self::new(Shape::Completion { id: format!("cmpl-{id}"), created }, model, limit)
    }

    /// A list of embeddings.
    pub fn embeddings(model: &str, format: EncodingFormat, limit: usize) -> Self {
        Self::new(Shape::Embeddings(format), model, limit)
    }

    fn new(shape: Shape, model: &str, limit: usize) -> Self {
        Self {
            shape,
            model: model.to_owned(),
            limit,
            held: 0,
            text: String::new(),
            reasoning: String::new(),
            calls: BTreeMap::new(),
            vectors: Vec::new(),
            finished: None,
        }
    }

    /// Takes the next event. After an error the answer is of no use.
    pub fn event(&mut self, event: RunEvent) -> Result<(), AnswerError> {
        if self.finished.is_some() {
            return Err(AnswerError::Unexpected("an event after its last one"));
        }
        match (&self.shape, event) {
            (_, RunEvent::Finished { finish, usage }) => self.finished = Some((finish, usage)),
            (_, RunEvent::Failed(message)) => return Err(AnswerError::Failed(message)),
            (Shape::Embeddings(_), RunEvent::Embedding(vector)) => {
                // JSON has no word for the others.
                if !vector.iter().all(|number| number.is_finite()) {
                    return Err(AnswerError::Unexpected("a vector with a number that is not finite"));
                }
                self.hold(ITEM_BYTES + size_of_val(vector.as_slice()))?;
                self.vectors.push(vector);
            }
            (Shape::Embeddings(_), _) => return Err(AnswerError::Unexpected("text where a vector was due")),
            (_, RunEvent::Embedding(_)) => {
                return Err(AnswerError::Unexpected("a vector where text was due"));
            }
            (_, RunEvent::Text(piece)) => {
                self.hold(piece.len())?;
                self.text.push_str(&piece);
            }
            (Shape::Completion { .. }, _) => {}
            (Shape::Chat { .. }, RunEvent::Reasoning(piece)) => {
                self.hold(piece.len())?;
                self.reasoning.push_str(&piece);
            }
            (Shape::Chat { .. }, RunEvent::ToolCall { index, id, name, arguments }) => {
                self.tool_call(index, id, name, &arguments)?;
            }
        }
        Ok(())
    }

    fn tool_call(
        &mut self,
        index: u32,
        id: Option<String>,
        name: Option<String>,
        arguments: &str,
    ) -> Result<(), AnswerError> {
        let item = if self.calls.contains_key(&index) { 0 } else { ITEM_BYTES };
        let names = id.as_ref().map_or(0, String::len) + name.as_ref().map_or(0, String::len);
        self.hold(item + names + arguments.len())?;
        let call = self.calls.entry(index).or_default();
        call.id = id.or(call.id.take());
        call.name.push_str(&name.unwrap_or_default());
        call.arguments.push_str(arguments);
        Ok(())
    }

    fn hold(&mut self, bytes: usize) -> Result<(), AnswerError> {
        self.held = self.held.saturating_add(bytes);
        if self.held > self.limit { Err(AnswerError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// The JSON body of the answer.
    pub fn finish(self) -> Result<Bytes, AnswerError> {
        let (finish, usage) = self.finished.ok_or(AnswerError::Unfinished)?;
        let (text, model) = (&self.text, &self.model);
        Ok(match &self.shape {
            Shape::Chat { id, created } => {
                let said = Said { text, reasoning: &self.reasoning, calls: &self.calls };
                body::chat(Origin { id, created: *created, model }, &said, finish, usage)
            }
            Shape::Completion { id, created } => {
                body::completion(Origin { id, created: *created, model }, text, finish, usage)
            }
            Shape::Embeddings(format) => body::embeddings(model, *format, &self.vectors, usage),
        })
    }
}
