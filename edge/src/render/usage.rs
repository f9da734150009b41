//! Parts that streamed and whole answers share: usage, and the names of reasons to finish.

use iop_transport::wire::{Finish, Usage};
use serde::Serialize;

/// Usage of a chat or a completion.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct UsageBody {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u64,
}

impl From<Usage> for UsageBody {
    fn from(usage: Usage) -> Self {
        let total_tokens = u64::from(usage.prompt_tokens) + u64::from(usage.completion_tokens);
        Self { prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens, total_tokens }
    }
}

/// `finish_reason` of a chat.
pub(super) fn chat_finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
    }
}

/// `finish_reason` of a completion, which knows no tools.
pub(super) fn completion_finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::ToolCalls => "stop",
        Finish::Length => "length",
    }
}
