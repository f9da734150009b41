//! Reads server-sent events as the HTML standard defines them, as far as inference APIs use them.

use serde_json::Value;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its `event` field; empty where there is none.
    pub name: String,
    /// Its `data` lines, joined by newlines.
    pub data: String,
}

impl Event {
    /// Its data as JSON; `Null` when it is none, as with `[DONE]`.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    /// The text a chat or completion event adds.
    pub fn text(&self) -> String {
        let event = self.json();
        let choice = &event["choices"][0];
        let text = choice["delta"]["content"].as_str().or_else(|| choice["text"].as_str());
        text.unwrap_or_default().to_owned()
    }
}

/// Takes a stream in pieces, cut anywhere, and returns the events each piece completes.
/// An event without data is none; comments are dropped.
#[derive(Debug, Default)]
pub struct EventParser {
    line: Vec<u8>,
    event: Option<Event>,
}

impl EventParser {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            match line.trim_end_matches('\r') {
                "" => events.extend(self.event.take().filter(|event| !event.data.is_empty())),
                line => self.field(line),
            }
        }
        events
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let event = self.event.get_or_insert_default();
        match name {
            "data" if event.data.is_empty() => value.clone_into(&mut event.data),
            "data" => event.data = format!("{}\n{value}", event.data),
            "event" => value.clone_into(&mut event.name),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let stream =
            ": comment\n\nevent: a\ndata: 1\ndata: 2\r\n\r\ndata:{\"choices\":[{\"text\":\"x\"}]}\n\ndata: é";
        let whole = EventParser::default().push(stream.as_bytes());
        assert_eq!(whole.len(), 2, "a comment and an unfinished event are no events");
        assert_eq!(whole[0], Event { name: "a".to_owned(), data: "1\n2".to_owned() });
        assert_eq!(whole[1].text(), "x");
        for size in 1..stream.len() {
            let mut parser = EventParser::default();
            let cut: Vec<Event> = stream.as_bytes().chunks(size).flat_map(|part| parser.push(part)).collect();
            assert_eq!(cut, whole, "cut every {size} bytes");
        }
    }
}
