//! Normalized events as clients see them. Whatever a node sends, a client reads server-sent events or JSON, and both ways of
//! answering say the same.

use iop_edge::render::{Answer, AnswerError, AnswerStream, EncodingFormat};
use iop_transport::wire::{RunEvent, decode};
use serde_json::Value;

/// What a whole answer may hold here: small enough that bodies of the corpus reach it.
const LIMIT: usize = 256;

/// Events, each behind its length in one byte; the last takes what is left.
pub fn normalized_events(data: &[u8]) {
    let (mut events, mut rest) = (Vec::new(), data);
    while let Some((&length, after)) = rest.split_first() {
        let (event, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        // A node's session ends at the first frame that is no event.
        let Ok(event) = decode(event) else { break };
        events.push(event);
    }
    check_answers(&events);
}

/// Answers every kind of client with these events.
pub(super) fn check_answers(events: &[RunEvent]) {
    for include_usage in [false, true] {
        let chat = streamed(AnswerStream::chat("7", 9, "m\n", include_usage), events);
        let completion = streamed(AnswerStream::completion("7", 9, "m\n", include_usage), events);
        assert_eq!(chat.end, completion.end);
        compare(&chat, collected(Answer::chat("7", 9, "m\n", LIMIT), events), "/choices/0/message/content");
        compare(&completion, collected(Answer::completion("7", 9, "m\n", LIMIT), events), "/choices/0/text");
    }
    for format in [EncodingFormat::Float, EncodingFormat::Base64] {
        if let Ok(answer) = collected(Answer::embeddings("m\n", format, LIMIT), events) {
            let vectors = events.iter().filter(|event| matches!(event, RunEvent::Embedding(_))).count();
            assert_eq!(answer["data"].as_array().map(Vec::len), Some(vectors));
            assert!(answer["data"].as_array().into_iter().flatten().all(|item| !item["embedding"].is_null()));
        }
    }
}

/// A stream as a client reads it.
struct Streamed {
    text: String,
    /// Whether it ended well; `None` if it did not end.
    end: Option<bool>,
}

fn streamed(mut stream: AnswerStream, events: &[RunEvent]) -> Streamed {
    let mut bytes = Vec::new();
    for event in events {
        let was_ended = stream.is_ended();
        let more = stream.event(event.clone());
        assert!(!was_ended || more.is_empty(), "nothing follows the end");
        bytes.extend_from_slice(&more);
    }
    let text = String::from_utf8(bytes).expect("server-sent events are text");
    let mut read = Streamed { text: String::new(), end: None };
    assert!(text.is_empty() || text.ends_with("\n\n"), "the last event is whole: {text:?}");
    for event in text.split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").expect("an event is its data");
        assert!(!data.contains(['\n', '\r']) && read.end.is_none(), "{text:?}");
        if data == "[DONE]" {
            read.end = Some(true);
            continue;
        }
        let data: Value = serde_json::from_str(data).expect("data is JSON");
        if data["error"]["message"].is_string() {
            read.end = Some(false);
            continue;
        }
        assert_eq!(data["model"], "m\n");
        let choice = &data["choices"][0];
        read.text
            .push_str(choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default());
    }
    assert_eq!(read.end.is_some(), stream.is_ended());
    read
}

fn collected(mut answer: Answer, events: &[RunEvent]) -> Result<Value, AnswerError> {
    events.iter().try_for_each(|event| answer.event(event.clone()))?;
    Ok(serde_json::from_slice(&answer.finish()?).expect("an answer is JSON"))
}

/// Holds a whole answer against the same one as a stream.
fn compare(streamed: &Streamed, collected: Result<Value, AnswerError>, text: &str) {
    match collected {
        Ok(answer) => {
            assert_eq!(streamed.end, Some(true), "{answer}");
            assert_eq!(answer.pointer(text).and_then(Value::as_str).unwrap_or_default(), streamed.text);
            assert!(streamed.text.len() <= LIMIT);
        }
        // Of these the stream knows nothing: what it has sent it does not hold, and it ends where it is told to.
        Err(AnswerError::TooLarge { .. } | AnswerError::Unexpected(_)) => {}
        Err(AnswerError::Failed(_)) => assert_eq!(streamed.end, Some(false)),
        Err(AnswerError::Unfinished) => assert_eq!(streamed.end, None),
    }
}
