//! The JSON of whole answers: `chat.completion`, `text_completion` and the list of embeddings.

use std::collections::BTreeMap;

use bytes::Bytes;
use iop_transport::wire::{Finish, Usage};
use serde::Serialize;

use super::{
    answer::{Call, EncodingFormat},
    base64::encode_vector,
    usage::{UsageBody, chat_finish, completion_finish},
};

/// What a chat answered.
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    pub(super) reasoning: &'a str,
    pub(super) calls: &'a BTreeMap<u32, Call>,
}

/// Who answered, and when.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) id: &'a str,
    pub(super) created: u64,
    pub(super) model: &'a str,
}

/// A `chat.completion`.
pub(super) fn chat(origin: Origin<'_>, said: &Said<'_>, finish: Finish, usage: Usage) -> Bytes {
    let tool_calls: Vec<_> = said.calls.iter().map(|(index, call)| ToolCall::new(*index, call)).collect();
    let message = Message {
        role: "assistant",
        content: (!said.text.is_empty() || tool_calls.is_empty()).then_some(said.text),
        refusal: (),
        reasoning_content: (!said.reasoning.is_empty()).then_some(said.reasoning),
        tool_calls,
    };
    let choice = ChatChoice { index: 0, message, logprobs: (), finish_reason: chat_finish(finish) };
    completed(origin, "chat.completion", choice, usage)
}

/// A `text_completion`.
pub(super) fn completion(origin: Origin<'_>, text: &str, finish: Finish, usage: Usage) -> Bytes {
    let choice = TextChoice { index: 0, text, logprobs: (), finish_reason: completion_finish(finish) };
    completed(origin, "text_completion", choice, usage)
}

fn completed(origin: Origin<'_>, object: &'static str, choice: impl Serialize, usage: Usage) -> Bytes {
    let Origin { id, created, model } = origin;
    json(&Completed { id, object, created, model, choices: [choice], usage: usage.into() })
}

/// A list of embeddings, in the order of the vectors.
pub(super) fn embeddings(model: &str, format: EncodingFormat, vectors: &[Vec<f32>], usage: Usage) -> Bytes {
    let embedding = |vector| match format {
        EncodingFormat::Float => Vector::Float(vector),
        EncodingFormat::Base64 => Vector::Base64(encode_vector(vector)),
    };
    let data = vectors.iter().enumerate();
    let data =
        data.map(|(index, vector)| Embedding { object: "embedding", index, embedding: embedding(vector) });
    let usage = EmbeddingUsage { prompt_tokens: usage.prompt_tokens, total_tokens: usage.prompt_tokens };
    json(&EmbeddingList { object: "list", data: data.collect(), model, usage })
}

#[derive(Serialize)]
struct Completed<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [C; 1],
    usage: UsageBody,
}

#[derive(Serialize)]
struct ChatChoice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: (),
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: String,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> ToolCall<'a> {
    fn new(index: u32, call: &'a Call) -> Self {
        // A client answers a call by its id: one that the provider left out is made from the call's position.
        let id = call.id.clone().unwrap_or_else(|| format!("call_{index}"));
        Self { id, r#type: "function", function: Function { name: &call.name, arguments: &call.arguments } }
    }
}

#[derive(Serialize)]
struct TextChoice<'a> {
    index: u32,
    text: &'a str,
    logprobs: (),
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct EmbeddingList<'a> {
    object: &'static str,
    data: Vec<Embedding<'a>>,
    model: &'a str,
    usage: EmbeddingUsage,
}

#[derive(Serialize)]
struct Embedding<'a> {
    object: &'static str,
    index: usize,
    embedding: Vector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector<'a> {
    Float(&'a [f32]),
    Base64(String),
}

#[derive(Serialize)]
struct EmbeddingUsage {
    prompt_tokens: u32,
    total_tokens: u32,
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("a struct of texts and numbers is always JSON").into()
}
