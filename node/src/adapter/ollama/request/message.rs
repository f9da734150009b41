//! The messages of a chat: roles, parts, images, calls of tools and their results.

use super::BadRequest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most of a wrong value that an error shows, in bytes.
const SHOWN_BYTES: usize = 60;

/// A message as OpenAI's clients write it.
#[derive(Deserialize)]
pub(super) struct Given<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    /// Of the function whose result this is, in requests of an old form.
    name: Option<String>,
    tool_call_id: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<GivenCall<'a>>>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
}

#[derive(Deserialize)]
struct GivenCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: GivenFunction<'a>,
}

#[derive(Deserialize)]
struct GivenFunction<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    text: Option<String>,
    refusal: Option<String>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ImageUrl<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
}

/// A text that is borrowed where that is possible: images are large.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A message as Ollama takes it.
#[derive(Default, Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    /// Base64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize)]
struct Call {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: Box<RawValue>,
}

/// The messages for Ollama. A tool's result names its tool there, which OpenAI's messages only say by the call's id.
pub(super) fn messages(given: Vec<Given<'_>>) -> Result<Vec<Message<'_>>, BadRequest> {
    // Clients may use an id again in a later turn: the last call before the result is meant.
    let mut tools: BTreeMap<String, String> = BTreeMap::new();
    let mut messages = Vec::with_capacity(given.len());
    for (index, given) in given.into_iter().enumerate() {
        let mut message = Message { role: role(index, &given.role)?, ..Message::default() };
        if let Some(content) = given.content {
            message.read_content(index, content)?;
        }
        message.thinking =
            given.reasoning_content.or(given.reasoning).filter(|thinking| !thinking.is_empty());
        for (number, call) in given.tool_calls.unwrap_or_default().into_iter().enumerate() {
            let arguments =
                object(&call.function.arguments).ok_or(BadRequest::Arguments { index, call: number })?;
            if let Some(id) = &call.id {
                tools.insert(id.clone(), call.function.name.clone());
            }
            let function = Function { name: call.function.name, arguments };
            message.tool_calls.push(Call { id: call.id, function });
        }
        if message.role == "tool" {
            let called = given.tool_call_id.as_ref().and_then(|id| tools.get(id).cloned());
            message.tool_name = called.or(given.name);
            message.tool_call_id = given.tool_call_id;
        }
        messages.push(message);
    }
    Ok(messages)
}

fn role(index: usize, role: &str) -> Result<&'static str, BadRequest> {
    match role {
        "system" | "developer" => Ok("system"),
        "user" => Ok("user"),
        "assistant" => Ok("assistant"),
        "tool" | "function" => Ok("tool"),
        other => Err(BadRequest::Role { index, found: shown(other) }),
    }
}

/// Arguments as an object. Some clients write nothing where there are none.
fn object(arguments: &str) -> Option<Box<RawValue>> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let object: Box<RawValue> = serde_json::from_str(arguments).ok()?;
    object.get().starts_with('{').then_some(object)
}

impl<'a> Message<'a> {
    fn read_content(&mut self, index: usize, content: &'a RawValue) -> Result<(), BadRequest> {
        let wrong = |source| BadRequest::Content { index, source };
        if !content.get().starts_with('[') {
            self.content = serde_json::from_str(content.get()).map_err(wrong)?;
            return Ok(());
        }
        let parts: Vec<Part<'a>> = serde_json::from_str(content.get()).map_err(wrong)?;
        let mut texts = Vec::new();
        for part in parts {
            match (&*part.kind, part.text, part.refusal, part.image_url) {
                ("text", Some(text), _, _) | ("refusal", _, Some(text), _) => texts.push(text),
                ("image_url", _, _, Some(url)) => self.images.push(image(index, url)?),
                _ => return Err(BadRequest::Part { index, found: shown(&part.kind) }),
            }
        }
        self.content = texts.join("\n");
        Ok(())
    }
}

/// The Base64 of a data URL.
fn image(index: usize, given: &RawValue) -> Result<Cow<'_, str>, BadRequest> {
    let url = if given.get().starts_with('"') {
        serde_json::from_str(given.get()).map(|Text(url)| url)
    } else {
        serde_json::from_str(given.get()).map(|ImageUrl { url }| url)
    };
    let url = url.map_err(|source| BadRequest::Content { index, source })?;
    let Some(start) = data_start(&url) else { return Err(BadRequest::Image { index, found: shown(&url) }) };
    Ok(match url {
        Cow::Borrowed(url) => Cow::Borrowed(&url[start..]),
        Cow::Owned(mut url) => Cow::Owned(url.split_off(start)),
    })
}

/// Where the data of a data URL with Base64 begins.
fn data_start(url: &str) -> Option<usize> {
    let (head, data) = url.split_once(',')?;
    let base64 = head.strip_prefix("data:")?.to_ascii_lowercase().ends_with(";base64");
    (base64 && !data.is_empty()).then_some(head.len() + 1)
}

fn shown(text: &str) -> String {
    let short = &text[..text.floor_char_boundary(SHOWN_BYTES)];
    if short.len() < text.len() { format!("{short}…") } else { short.to_owned() }
}
