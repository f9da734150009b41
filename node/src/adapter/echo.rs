//! The built-in provider: says the words of the last user message again, at a set pace. For demos and tests; it needs no
//! inference server. Words stand in for tokens.

mod request;
mod vector;

use crate::execution::{End, Events, EventsLost};
use iop_transport::wire::{Finish, Operation, RunEvent, Usage};
use request::{Embed, Generate};
use std::time::Duration;

/// What it says when it was told nothing.
const SILENT_PROMPT: [&str; 4] = ["nothing", "was", "said", "here"];

/// Longest word said, in bytes, so that no event comes near the limit of a frame.
const WORD_BYTES: usize = 256;

/// The adapter's settings; it has no state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Echo {
    words: u32,
    word_interval: Duration,
}

impl Echo {
    pub(crate) fn new(words: u32, word_interval: Duration) -> Self {
        Self { words, word_interval }
    }

    /// Answers one request, whose body is the client's JSON.
    pub(crate) async fn run(&self, operation: Operation, body: &[u8], events: &mut Events<'_>) -> End {
        let sent = match operation {
            Operation::Chat => match Generate::chat(body) {
                Ok(request) => self.generate(&request, events).await,
                Err(problem) => return End::bad_request(problem.to_string()),
            },
            Operation::Completion => match Generate::completion(body) {
                Ok(request) => self.generate(&request, events).await,
                Err(problem) => return End::bad_request(problem.to_string()),
            },
            Operation::Embeddings => match Embed::parse(body) {
                Ok(request) => embed(&request, events).await,
                Err(problem) => return End::bad_request(problem.to_string()),
            },
        };
        sent.map_or_else(End::from, |()| End::Complete)
    }

    async fn generate(&self, request: &Generate, events: &mut Events<'_>) -> Result<(), EventsLost> {
        let said: Vec<&str> = request.say.split_whitespace().collect();
        let said = if said.is_empty() { &SILENT_PROMPT[..] } else { &said };
        let limit = request.max_words.unwrap_or(u32::MAX);
        let count = self.words.min(limit);
        for (number, word) in (0..count).zip(said.iter().cycle()) {
            if number > 0 {
                self.pause().await;
            }
            let space = if number > 0 { " " } else { "" };
            events.send(&RunEvent::Text(format!("{space}{}", shortened(word)))).await?;
        }
        let finish = if count < self.words { Finish::Length } else { Finish::Stop };
        let usage = Usage { prompt_tokens: request.prompt_words, completion_tokens: count };
        events.send(&RunEvent::Finished { finish, usage }).await
    }

    async fn pause(&self) {
        if self.word_interval.is_zero() {
            // Others on this thread have their turn in the middle of an answer without pauses.
            tokio::task::coop::consume_budget().await;
        } else {
            tokio::time::sleep(self.word_interval).await;
        }
    }
}

async fn embed(request: &Embed, events: &mut Events<'_>) -> Result<(), EventsLost> {
    for input in request.inputs() {
        events.send(&RunEvent::Embedding(vector::of(&input))).await?;
        tokio::task::coop::consume_budget().await;
    }
    let usage = Usage { prompt_tokens: request.words(), completion_tokens: 0 };
    events.send(&RunEvent::Finished { finish: Finish::Stop, usage }).await
}

fn shortened(word: &str) -> &str {
    &word[..word.floor_char_boundary(WORD_BYTES)]
}
