//! A normalized run as server-sent events: chunks of a chat or of a completion. It keeps nothing of the answer.

use bytes::Bytes;
use iop_transport::wire::{Finish, RunEvent, Usage};
use serde::Serialize;

use super::{
    error::{StreamDialect, stream_event},
    usage::{UsageBody, chat_finish, completion_finish},
};

/// The last event of a complete stream.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The rendering of one streamed answer.
#[derive(Debug)]
pub struct AnswerStream {
    shape: Shape,
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    begun: bool,
    ended: bool,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Chat,
    Completion,
}

impl AnswerStream {
    /// A stream of `chat.completion.chunk` objects with the id `chatcmpl-ID`. `created` is in seconds since 1970; `model`
    /// is the name that the client knows.
    pub fn chat(id: &str, created: u64, model: &str, include_usage: bool) -> Self {
        Self::new(Shape::Chat, format!("chatcmpl-{id}"), created, model, include_usage)
    }

    /// A stream of `text_completion` objects with the id `cmpl-ID`. That shape has no place for reasoning and tool calls,
    /// which are left out.
    pub fn completion(id: &str, created: u64, model: &str, include_usage: bool) -> Self {
        Self::new(Shape::Completion, format!("cmpl-{id}"), created, model, include_usage)
    }

    fn new(shape: Shape, id: String, created: u64, model: &str, include_usage: bool) -> Self {
        Self { shape, id, created, model: model.to_owned(), include_usage, begun: false, ended: false }
    }

    /// The bytes that an event is for the client: any number of whole server-sent events, also none. After the event that
    /// ends the stream there are none.
    pub fn event(&mut self, event: RunEvent) -> Bytes {
        if self.ended {
            return Bytes::new();
        }
        let mut bytes = Vec::new();
        match event {
            RunEvent::Text(text) => self.text(&text, &mut bytes),
            RunEvent::Reasoning(text) => self.reasoning(&text, &mut bytes),
            RunEvent::ToolCall { index, id, name, arguments } => {
                self.tool_call(index, id.as_deref(), name.as_deref(), &arguments, &mut bytes);
            }
            RunEvent::Finished { finish, usage } => self.finish(finish, usage, &mut bytes),
            RunEvent::Failed(message) => return self.fail(&message),
            RunEvent::Embedding(_) => return self.fail("the provider sent a vector where text was due"),
        }
        bytes.into()
    }

    /// Whether the last event has been rendered, be it of success or of failure.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    fn text(&mut self, text: &str, bytes: &mut Vec<u8>) {
        match self.shape {
            _ if text.is_empty() => {}
            Shape::Chat => self.delta(Delta { content: Some(text), ..Delta::default() }, None, bytes),
            Shape::Completion => self.text_choice(text, None, bytes),
        }
    }

    fn reasoning(&mut self, text: &str, bytes: &mut Vec<u8>) {
        if matches!(self.shape, Shape::Chat) && !text.is_empty() {
            self.delta(Delta { reasoning_content: Some(text), ..Delta::default() }, None, bytes);
        }
    }

    fn tool_call(
        &mut self,
        index: u32,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
        bytes: &mut Vec<u8>,
    ) {
        if matches!(self.shape, Shape::Chat) {
            let r#type = id.map(|_| "function");
            let call = ToolCallDelta { index, id, r#type, function: FunctionDelta { name, arguments } };
            self.delta(Delta { tool_calls: Some([call]), ..Delta::default() }, None, bytes);
        }
    }

    fn finish(&mut self, finish: Finish, usage: Usage, bytes: &mut Vec<u8>) {
        match self.shape {
            Shape::Chat => {
                // An answer without any piece still has its role and its (empty) text.
                let content = (!self.begun).then_some("");
                self.delta(Delta { content, ..Delta::default() }, Some(chat_finish(finish)), bytes);
            }
            Shape::Completion => self.text_choice("", Some(completion_finish(finish)), bytes),
        }
        if self.include_usage {
            self.chunk::<()>(&[], Some(usage.into()), bytes);
        }
        bytes.extend_from_slice(DONE);
        self.ended = true;
    }

    fn fail(&mut self, message: &str) -> Bytes {
        self.ended = true;
        stream_event(StreamDialect::Chat, "provider_error", message)
    }

    fn delta(&mut self, mut delta: Delta<'_>, finish_reason: Option<&'static str>, bytes: &mut Vec<u8>) {
        if !self.begun {
            delta.role = Some("assistant");
            self.begun = true;
        }
        self.chunk(&[DeltaChoice { index: 0, delta, finish_reason }], None, bytes);
    }

    fn text_choice(&self, text: &str, finish_reason: Option<&'static str>, bytes: &mut Vec<u8>) {
        self.chunk(&[TextChoice { index: 0, text, logprobs: (), finish_reason }], None, bytes);
    }

    fn chunk<C: Serialize>(&self, choices: &[C], usage: Option<UsageBody>, bytes: &mut Vec<u8>) {
        let object = match self.shape {
            Shape::Chat => "chat.completion.chunk",
            Shape::Completion => "text_completion",
        };
        // A client that asked for usage gets null in every chunk but the last; one that did not, gets no such key.
        let usage = self.include_usage.then_some(usage);
        let chunk = Chunk { id: &self.id, object, created: self.created, model: &self.model, choices, usage };
        bytes.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut *bytes, &chunk).expect("a struct of texts and numbers is always JSON");
        bytes.extend_from_slice(b"\n\n");
    }
}

#[derive(Serialize)]
struct Chunk<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [C],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageBody>>,
}

#[derive(Serialize)]
struct DeltaChoice<'a> {
    index: u32,
    delta: Delta<'a>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ToolCallDelta<'a>; 1]>,
}

#[derive(Serialize)]
struct ToolCallDelta<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    function: FunctionDelta<'a>,
}

#[derive(Serialize)]
struct FunctionDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

#[derive(Serialize)]
struct TextChoice<'a> {
    index: u32,
    text: &'a str,
    logprobs: (),
    finish_reason: Option<&'static str>,
}
