//! What an Ollama server says, and what it is asked: lines in any pieces, answers with vectors, clients' requests.

use super::events::check_answers;
use super::pieces;
use iop_node::adapter::ollama::{Expected, Lines, Reader, read_vectors, translate};
use iop_transport::wire::{EVENT_FRAME_BYTES, Operation, RunEvent, encode};
use serde_json::Value;

/// How an answer was read: its events, and what was wrong or whether its last line came.
type Read = (Vec<RunEvent>, Result<bool, String>);

/// How the answer is cut, and the answer. It is read line by line, up to its last one or the first that is wrong.
pub fn ollama_lines(data: &[u8]) {
    let [how, answer @ ..] = data else { return };
    let (events, end) = read(&pieces(*how, answer));
    let (expected, expected_end) = naive(answer);
    assert_eq!((&events, &end), (&expected, &expected_end), "the result depends on the pieces");
    let finished = events.iter().filter(|event| matches!(event, RunEvent::Finished { .. })).count();
    assert_eq!(finished, usize::from(end == Ok(true)), "one last event: {events:?}");
    assert!(finished == 0 || matches!(events.last(), Some(RunEvent::Finished { .. })), "{events:?}");
    check_sendable(&events);
    check_answers(&events);
}

/// As the adapter reads it.
fn read(pieces: &[&[u8]]) -> Read {
    let (mut lines, mut reader, mut events) = (Lines::default(), Reader::default(), Vec::new());
    for piece in pieces {
        lines.push(piece);
        while let Some(line) = lines.next_line().expect("the input is shorter than the longest line") {
            match reader.read(&line) {
                Ok(read) => events.extend(read),
                Err(error) => return (events, Err(error.to_string())),
            }
            if reader.is_done() {
                return (events, Ok(true));
            }
        }
    }
    match lines.last().map(|line| reader.read(&line)) {
        None => {}
        Some(Ok(read)) => events.extend(read),
        Some(Err(error)) => return (events, Err(error.to_string())),
    }
    (events, Ok(reader.is_done()))
}

/// The same of an answer that is all there.
fn naive(answer: &[u8]) -> Read {
    let (mut reader, mut events) = (Reader::default(), Vec::new());
    for line in answer.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        match reader.read(line) {
            Ok(read) => events.extend(read),
            Err(error) => return (events, Err(error.to_string())),
        }
        if reader.is_done() {
            break;
        }
    }
    (events, Ok(reader.is_done()))
}

fn check_sendable(events: &[RunEvent]) {
    for event in events {
        encode(&[], event, EVENT_FRAME_BYTES).expect("an event fits into its frame");
    }
}

/// How many vectors are due, and the answer with them.
pub fn ollama_vectors(data: &[u8]) {
    let [expected, answer @ ..] = data else { return };
    let expected = usize::from(*expected);
    match read_vectors(answer, expected) {
        Err(error) => {
            assert!(!error.to_string().is_empty() || answer.windows(7).any(|part| part == b"\"error\""))
        }
        Ok(events) => {
            let (last, vectors) = events.split_last().expect("there is a last event");
            assert!(matches!(last, RunEvent::Finished { .. }), "{last:?}");
            assert_eq!(vectors.len(), expected);
            for vector in vectors {
                let RunEvent::Embedding(numbers) = vector else { panic!("{vector:?} among vectors") };
                assert!(numbers.iter().all(|number| number.is_finite()), "{numbers:?}");
            }
            check_sendable(&events);
            check_answers(&events);
        }
    }
}

/// Which operation the client asks for, and its body.
pub fn ollama_requests(data: &[u8]) {
    let [operation, body @ ..] = data else { return };
    let operations = [Operation::Chat, Operation::Completion, Operation::Embeddings];
    let operation = operations[usize::from(*operation) % operations.len()];
    match translate(operation, "up", body) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(translated) => {
            let sent: Value = serde_json::from_slice(&translated.body).expect("what is sent is JSON");
            assert_eq!(sent["model"], "up");
            match translated.answer {
                Expected::Lines => assert_eq!(sent["stream"], true),
                Expected::Vectors(number) => assert_eq!(sent["input"].as_array().map(Vec::len), Some(number)),
            }
        }
    }
}
