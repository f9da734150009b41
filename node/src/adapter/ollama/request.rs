//! OpenAI's requests as Ollama's. Nothing is sent here, and what a model makes of a request is not judged. What Ollama
//! cannot do at all is an error; hints that it has no word for (`user`, `store`, …) are left out.

mod message;
mod options;
#[cfg(test)]
mod tests;
mod thinking;

use bytes::Bytes;
use iop_transport::wire::Operation;
use message::{Message, messages};
use options::Options;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use thinking::Think;

const CHAT: &str = "/api/chat";
const GENERATE: &str = "/api/generate";
const EMBED: &str = "/api/embed";

/// A request as Ollama takes it.
#[derive(Debug)]
pub struct Translated {
    /// Path of Ollama's API.
    pub path: &'static str,
    /// Its JSON.
    pub body: Bytes,
    /// What a good answer to it is.
    pub answer: Expected,
}

/// The kinds of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Lines, each a JSON object.
    Lines,
    /// One JSON object with so many vectors.
    Vectors(usize),
}

/// Always the client's fault.
#[derive(Debug, thiserror::Error)]
pub enum BadRequest {
    /// Not the JSON that the path takes.
    #[error("the request is not what this path takes: {0}")]
    Shape(#[from] serde_json::Error),
    /// A role that no message has.
    #[error("messages[{index}].role: found `{found}`, expected system, developer, user, assistant or tool")]
    Role {
        /// Position of the message.
        index: usize,
        /// The role that it has.
        found: String,
    },
    /// Content that is neither text nor a list of parts.
    #[error("messages[{index}].content: {source}")]
    Content {
        /// Position of the message.
        index: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A part that Ollama does not take.
    #[error("messages[{index}].content: Ollama takes parts of type text and image_url, found `{found}`")]
    Part {
        /// Position of the message.
        index: usize,
        /// The part's type.
        found: String,
    },
    /// An image elsewhere, or none.
    #[error(
        "messages[{index}].content: Ollama fetches no images, so an image_url must be a data URL like \
         data:image/png;base64,…; found `{found}`"
    )]
    Image {
        /// Position of the message.
        index: usize,
        /// How the URL begins.
        found: String,
    },
    /// Arguments of a call that are not an object.
    #[error("messages[{index}].tool_calls[{call}].function.arguments: expected the JSON text of an object")]
    Arguments {
        /// Position of the message.
        index: usize,
        /// Position of the call in it.
        call: usize,
    },
    /// A form of answer that is not known.
    #[error("response_format.type: found `{0}`, expected text, json_object or json_schema")]
    Format(String),
    /// A schema was announced and is not there.
    #[error("response_format.json_schema.schema is missing")]
    NoSchema,
    /// Text was due.
    #[error("{field}: Ollama takes text here, no token ids and nothing else: {source}")]
    Text {
        /// The request's field.
        field: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// None or several prompts.
    #[error("prompt: Ollama takes one prompt per request, found {0}")]
    Prompts(usize),
    /// Another number of choices than one.
    #[error("n: Ollama gives one choice per request, found {0}")]
    Choices(u32),
}

#[derive(Deserialize)]
struct ChatRequest<'a> {
    #[serde(borrow)]
    messages: Vec<message::Given<'a>>,
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow)]
    response_format: Option<ResponseFormat<'a>>,
    n: Option<u32>,
}

#[derive(Deserialize)]
struct ResponseFormat<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    json_schema: Option<JsonSchema<'a>>,
}

#[derive(Deserialize)]
struct JsonSchema<'a> {
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CompletionRequest<'a> {
    #[serde(borrow)]
    prompt: &'a RawValue,
    suffix: Option<String>,
    n: Option<u32>,
}

#[derive(Deserialize)]
struct EmbeddingsRequest<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    dimensions: Option<u32>,
}

/// Body of `/api/chat`. It is always streamed: only so is a silent server told from a busy one.
#[derive(Serialize)]
struct Chat<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    #[serde(skip_serializing_if = "Options::is_empty")]
    options: Options,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Format<'a> {
    Word(&'static str),
    Schema(&'a RawValue),
}

/// Body of `/api/generate`.
#[derive(Serialize)]
struct Generate<'a> {
    model: &'a str,
    stream: bool,
    prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    suffix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    #[serde(skip_serializing_if = "Options::is_empty")]
    options: Options,
}

/// Body of `/api/embed`.
#[derive(Serialize)]
struct Embed<'a> {
    model: &'a str,
    input: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

/// The request for Ollama, whose name for the model is `model`, whatever the body says.
pub fn translate(operation: Operation, model: &str, body: &[u8]) -> Result<Translated, BadRequest> {
    let (path, body, answer) = match operation {
        Operation::Chat => (CHAT, chat(model, body)?, Expected::Lines),
        Operation::Completion => (GENERATE, completion(model, body)?, Expected::Lines),
        Operation::Embeddings => {
            let (body, vectors) = embeddings(model, body)?;
            (EMBED, body, Expected::Vectors(vectors))
        }
    };
    Ok(Translated { path, body: body.into(), answer })
}

fn chat(model: &str, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
    let request: ChatRequest<'_> = serde_json::from_slice(body)?;
    one_choice(request.n)?;
    // Ollama cannot be told to call a tool, but without tools it calls none.
    let no_tools = request.tool_choice.is_some_and(|choice| choice.get() == r#""none""#);
    let chat = Chat {
        model,
        stream: true,
        messages: messages(request.messages)?,
        tools: if no_tools { Vec::new() } else { request.tools.unwrap_or_default() },
        format: request.response_format.map(format).transpose()?.flatten(),
        think: Think::read(body)?,
        options: Options::read(body)?,
    };
    Ok(serde_json::to_vec(&chat)?)
}

fn format(wanted: ResponseFormat<'_>) -> Result<Option<Format<'_>>, BadRequest> {
    match &*wanted.kind {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::Word("json"))),
        "json_schema" => {
            let schema = wanted.json_schema.and_then(|holder| holder.schema).ok_or(BadRequest::NoSchema)?;
            Ok(Some(Format::Schema(schema)))
        }
        other => Err(BadRequest::Format(other.to_owned())),
    }
}

fn completion(model: &str, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
    let request: CompletionRequest<'_> = serde_json::from_slice(body)?;
    one_choice(request.n)?;
    let prompts = texts("prompt", request.prompt)?;
    let [prompt] = <[String; 1]>::try_from(prompts).map_err(|prompts| BadRequest::Prompts(prompts.len()))?;
    let generate = Generate {
        model,
        stream: true,
        prompt,
        suffix: request.suffix,
        think: Think::read(body)?,
        options: Options::read(body)?,
    };
    Ok(serde_json::to_vec(&generate)?)
}

fn embeddings(model: &str, body: &[u8]) -> Result<(Vec<u8>, usize), BadRequest> {
    let request: EmbeddingsRequest<'_> = serde_json::from_slice(body)?;
    let input = texts("input", request.input)?;
    let vectors = input.len();
    let embed = Embed { model, input, dimensions: request.dimensions };
    Ok((serde_json::to_vec(&embed)?, vectors))
}

fn one_choice(n: Option<u32>) -> Result<(), BadRequest> {
    match n {
        None | Some(1) => Ok(()),
        Some(other) => Err(BadRequest::Choices(other)),
    }
}

/// One text or several.
fn texts(field: &'static str, given: &RawValue) -> Result<Vec<String>, BadRequest> {
    let text = given.get();
    let texts = if text.starts_with('"') {
        serde_json::from_str(text).map(|one| vec![one])
    } else {
        serde_json::from_str(text)
    };
    texts.map_err(|source| BadRequest::Text { field, source })
}
