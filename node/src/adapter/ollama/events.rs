//! A line of Ollama's answer to a chat or a completion, as events. Fields that are not known here are ignored.

use iop_transport::wire::{Finish, RunEvent, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longest text in one event, in bytes: far below the limit of a frame.
const PIECE_BYTES: usize = 256 << 10;

/// Why an answer is of no use from here on. Always the inference server's fault.
#[derive(Debug, thiserror::Error)]
pub enum BadLine {
    /// It said so itself.
    #[error("{0}")]
    Reported(String),
    /// The line is not what Ollama's API promises.
    #[error("a line of its answer is not usable: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// Reads the lines of one answer, in their order.
#[derive(Debug, Default)]
pub struct Reader {
    calls: u32,
    done: bool,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    response: Option<String>,
    thinking: Option<String>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
struct Message<'a> {
    content: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Reader {
    /// What the line says: any number of events, also none. Of the last line, the last event is `Finished`.
    pub fn read(&mut self, line: &[u8]) -> Result<Vec<RunEvent>, BadLine> {
        let line: Line<'_> = serde_json::from_slice(line)?;
        if let Some(error) = &line.error {
            return Err(BadLine::Reported(words(error)));
        }
        let message = line.message.unwrap_or_default();
        let mut events = Vec::new();
        for thinking in [message.thinking, line.thinking].into_iter().flatten() {
            events.extend(pieces(&thinking).map(|piece| RunEvent::Reasoning(piece.to_owned())));
        }
        for text in [message.content, line.response].into_iter().flatten() {
            events.extend(pieces(&text).map(|piece| RunEvent::Text(piece.to_owned())));
        }
        for call in message.tool_calls.unwrap_or_default() {
            self.call(call, &mut events)?;
        }
        if line.done {
            self.done = true;
            let finish = match line.done_reason.as_deref() {
                _ if self.calls > 0 => Finish::ToolCalls,
                Some("length") => Finish::Length,
                _ => Finish::Stop,
            };
            let usage = Usage {
                prompt_tokens: count(line.prompt_eval_count),
                completion_tokens: count(line.eval_count),
            };
            events.push(RunEvent::Finished { finish, usage });
        }
        Ok(events)
    }

    /// Whether the answer's last line was read.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// A call comes whole in one line. Only newer versions give it an id, and its index starts anew in each line.
    fn call(&mut self, call: Call<'_>, events: &mut Vec<RunEvent>) -> Result<(), BadLine> {
        let index = self.calls;
        self.calls = self.calls.saturating_add(1);
        let arguments = match call.function.arguments.map(RawValue::get) {
            None | Some("null" | "\"\"") => "{}".to_owned(),
            Some(text) if text.starts_with('"') => serde_json::from_str(text)?,
            Some(text) => text.to_owned(),
        };
        let id = call.id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{index}"));
        let mut head = (Some(id), Some(call.function.name));
        for piece in pieces(&arguments) {
            let (id, name) = std::mem::take(&mut head);
            events.push(RunEvent::ToolCall { index, id, name, arguments: piece.to_owned() });
        }
        Ok(())
    }
}

/// What an `error` says: a text, as a rule.
pub(super) fn words(error: &serde_json::Value) -> String {
    error.as_str().map_or_else(|| error.to_string(), str::to_owned)
}

/// Tokens. Ollama leaves out what it took from its cache.
pub(super) fn count(tokens: Option<u64>) -> u32 {
    u32::try_from(tokens.unwrap_or(0)).unwrap_or(u32::MAX)
}

/// The text in pieces that fit into an event; none of an empty one.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE_BYTES));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests;
