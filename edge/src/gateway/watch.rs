//! What is noted of an answer's bytes on their way to the client: how many prompt tokens the provider counted, and where
//! in its stream of events an error event would stand. The bytes themselves pass unchanged.

use super::error::lost_code;
use super::route::Dialect;
use crate::render::error::{StreamDialect, stream_event};
use bytes::Bytes;
use iop_transport::tunnel::RunLost;

/// Bytes kept from one chunk to the next: the longest name with its number fits.
const TAIL_BYTES: usize = 48;

/// The notes on one answer.
pub(super) struct Watch {
    dialect: Dialect,
    /// The last bytes.
    last: Vec<u8>,
    /// Number of the last event, in streams of `/v1/responses`.
    sequence_number: Option<u64>,
    /// Prompt tokens as the provider counted them.
    pub(super) prompt_tokens: Option<u64>,
}

impl Watch {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, last: Vec::with_capacity(2 * TAIL_BYTES), sequence_number: None, prompt_tokens: None }
    }

    pub(super) fn see(&mut self, bytes: &[u8]) {
        let usage: &[u8] = match self.dialect {
            Dialect::Chat => b"\"prompt_tokens\":",
            Dialect::Responses => b"\"input_tokens\":",
            // Counts without what was cached, so it says nothing of the prompt's length.
            Dialect::Messages => b"",
        };
        let across = [&self.last[..], &bytes[..bytes.len().min(TAIL_BYTES)]].concat();
        let number = |name: &[u8]| last_number(name, bytes).or_else(|| last_number(name, &across));
        if !usage.is_empty() {
            self.prompt_tokens = number(usage).or(self.prompt_tokens);
        }
        if self.dialect == Dialect::Responses {
            self.sequence_number = number(b"\"sequence_number\":").or(self.sequence_number);
        }
        let new = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.last.len() + new.len()).saturating_sub(TAIL_BYTES);
        self.last.drain(..excess.min(self.last.len()));
        self.last.extend_from_slice(new);
    }

    /// The event that ends a stream that broke off here.
    pub(super) fn error_event(&self, lost: &RunLost) -> Bytes {
        let dialect = match self.dialect {
            Dialect::Chat => StreamDialect::Chat,
            Dialect::Messages => StreamDialect::Messages,
            Dialect::Responses => {
                StreamDialect::Responses { sequence_number: self.sequence_number.map_or(0, |last| last + 1) }
            }
        };
        let event = stream_event(dialect, lost_code(lost), &lost.to_string());
        let at_boundary =
            self.last.is_empty() || self.last.ends_with(b"\n\n") || self.last.ends_with(b"\r\n\r\n");
        if at_boundary { event } else { [b"\n\n", &event[..]].concat().into() }
    }
}

/// The last whole number behind this name. In a text it would stand behind an escaped quote, which is no match.
fn last_number(name: &[u8], bytes: &[u8]) -> Option<u64> {
    let mut starts = memchr::memmem::rfind_iter(bytes, name);
    starts.find_map(|at| {
        let rest = bytes[at + name.len()..].trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // Without a byte behind it the number may go on in the next chunk.
        rest.get(digits)?;
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(dialect: Dialect, chunks: &[&[u8]]) -> Watch {
        let mut watch = Watch::new(dialect);
        chunks.iter().for_each(|chunk| watch.see(chunk));
        watch
    }

    fn gone() -> RunLost {
        RunLost::Protocol("gone".into())
    }

    #[test]
    fn an_error_event_begins_on_a_line_of_its_own() {
        let cut = seen(Dialect::Chat, &[b"data: {\"a\"", b":1"]).error_event(&gone());
        assert!(cut.starts_with(b"\n\ndata: {\"error\""), "{cut:?}");
        let whole = seen(Dialect::Chat, &[b"data: {}\n", b"\n"]).error_event(&gone());
        assert!(whole.starts_with(b"data: {\"error\""), "{whole:?}");
        assert!(seen(Dialect::Chat, &[]).error_event(&gone()).starts_with(b"data: "));
    }

    #[test]
    fn an_error_event_of_responses_has_the_next_number_however_the_chunks_are_cut() {
        let stream = b"event: a\ndata: {\"sequence_number\":8}\n\nevent: b\ndata: {\"sequence_number\": 12,\"x\":1}\n\n";
        for cut in 0..stream.len() {
            let (head, rest) = stream.split_at(cut);
            let event = seen(Dialect::Responses, &[head, rest]).error_event(&gone());
            let text = String::from_utf8_lossy(&event).into_owned();
            assert!(text.contains("\"sequence_number\":13"), "cut at {cut}: {text}");
        }
    }

    #[test]
    fn the_reported_prompt_tokens_are_found_however_the_chunks_are_cut() {
        let body = b"{\"choices\":[{\"text\":\"\\\"prompt_tokens\\\": 5\"}],\"usage\":{\"prompt_tokens\": 1234,\"completion_tokens\":9}}";
        for cut in 0..body.len() {
            let (head, rest) = body.split_at(cut);
            assert_eq!(seen(Dialect::Chat, &[head, rest]).prompt_tokens, Some(1234), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(seen(Dialect::Chat, &bytes).prompt_tokens, Some(1234));
        assert_eq!(seen(Dialect::Messages, &[body]).prompt_tokens, None);
    }
}
