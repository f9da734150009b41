//! Lines as Ollama's documentation shows them, and lines that no Ollama would write.

use super::{BadLine, PIECE_BYTES, Reader};
use crate::adapter::ollama::lines::Lines;
use iop_transport::wire::{EVENT_FRAME_BYTES, Finish, RunEvent, Usage, encode};
use proptest::prelude::*;

fn text(piece: &str) -> RunEvent {
    RunEvent::Text(piece.into())
}

fn finished(finish: Finish, prompt_tokens: u32, completion_tokens: u32) -> RunEvent {
    RunEvent::Finished { finish, usage: Usage { prompt_tokens, completion_tokens } }
}

fn call(index: u32, id: &str, name: &str, arguments: &str) -> RunEvent {
    RunEvent::ToolCall { index, id: Some(id.into()), name: Some(name.into()), arguments: arguments.into() }
}

/// The events of an answer with these lines.
fn read(lines: &[&str]) -> Result<Vec<RunEvent>, BadLine> {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    for line in lines {
        assert!(!reader.is_done(), "no line follows the last one");
        events.extend(reader.read(line.as_bytes())?);
    }
    assert_eq!(reader.is_done(), matches!(events.last(), Some(RunEvent::Finished { .. })));
    Ok(events)
}

#[test]
fn the_pieces_of_a_chat_become_text_and_its_last_line_the_finish_with_usage() {
    let events = read(&[
        r#"{"model":"llama3.2","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":"The","images":null},"done":false}"#,
        r#"{"model":"llama3.2","created_at":"2023-08-04T08:52:19.4-07:00","message":{"role":"assistant","content":" sky"},"done":false}"#,
        r#"{"model":"llama3.2","created_at":"2023-08-04T19:22:45.499127Z","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}"#,
    ]);
    assert_eq!(events.expect("good lines"), [text("The"), text(" sky"), finished(Finish::Stop, 26, 282)]);
}

#[test]
fn the_pieces_of_a_completion_become_text() {
    let events = read(&[
        r#"{"model":"llama3.2","created_at":"2023-08-04T08:52:19Z","response":"The","done":false}"#,
        r#"{"model":"llama3.2","created_at":"2023-08-04T19:22:45Z","response":"","done":true,"done_reason":"length","context":[1,2,3],"prompt_eval_count":26,"eval_count":259}"#,
    ]);
    assert_eq!(events.expect("good lines"), [text("The"), finished(Finish::Length, 26, 259)]);
}

#[test]
fn thinking_becomes_reasoning_before_the_text_of_the_same_line() {
    let events = read(&[
        r#"{"message":{"role":"assistant","content":"","thinking":"Let me"},"done":false}"#,
        r#"{"message":{"role":"assistant","content":"Yes","thinking":" see"},"done":false}"#,
        r#"{"response":"No","thinking":"Hm","done":false}"#,
    ]);
    let reasoning = |piece: &str| RunEvent::Reasoning(piece.into());
    let expected = [reasoning("Let me"), reasoning(" see"), text("Yes"), reasoning("Hm"), text("No")];
    assert_eq!(events.expect("good lines"), expected);
}

#[test]
fn tool_calls_are_numbered_through_the_answer_and_keep_their_arguments_as_written() {
    let events = read(&[
        r#"{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_current_weather","arguments":{"format":"celsius","location":"Paris, FR"}}}]},"done":false}"#,
        r#"{"message":{"content":"","tool_calls":[{"id":"call_x7","function":{"index":0,"name":"b","arguments":{"z":1.50,"a":[ ]}}},{"function":{"index":1,"name":"c","arguments":null}}]},"done":false}"#,
        r#"{"message":{"content":"","tool_calls":[{"id":"","function":{"name":"d"}},{"function":{"name":"e","arguments":"{\"q\":\"ü\"}"}}]},"done":false}"#,
        r#"{"message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"prompt_eval_count":122,"eval_count":33}"#,
    ]);
    let expected = [
        call(0, "call_0", "get_current_weather", r#"{"format":"celsius","location":"Paris, FR"}"#),
        call(1, "call_x7", "b", r#"{"z":1.50,"a":[ ]}"#),
        call(2, "call_2", "c", "{}"),
        call(3, "call_3", "d", "{}"),
        call(4, "call_4", "e", r#"{"q":"ü"}"#),
        finished(Finish::ToolCalls, 122, 33),
    ];
    assert_eq!(events.expect("good lines"), expected);
}

#[test]
fn other_reasons_to_be_done_are_a_stop_and_missing_counts_are_zero() {
    for reason in [r#","done_reason":"load""#, r#","done_reason":"unload""#, r#","done_reason":null"#, ""] {
        let events = read(&[&format!(r#"{{"done":true{reason}}}"#)]).expect("a good line");
        assert_eq!(events, [finished(Finish::Stop, 0, 0)], "{reason}");
    }
    let events =
        read(&[r#"{"done":true,"prompt_eval_count":5000000000,"eval_count":1}"#]).expect("a good line");
    assert_eq!(events, [finished(Finish::Stop, u32::MAX, 1)]);
}

#[test]
fn an_error_that_the_server_reports_ends_the_reading_in_its_words() {
    for (line, words) in [
        (
            r#"{"error":"an error was encountered while running the model"}"#,
            "an error was encountered while running the model",
        ),
        (r#"{"error":{"message":"m"},"message":{"content":"x"}}"#, r#"{"message":"m"}"#),
    ] {
        let error = read(&[r#"{"message":{"content":"Yes"},"done":false}"#, line]).expect_err("an error");
        assert!(matches!(error, BadLine::Reported(_)), "{error:?}");
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn a_line_that_is_no_such_object_is_an_error() {
    for line in [
        "",
        "{",
        "[]",
        "null",
        "7",
        r#"{"message":"x"}"#,
        r#"{"message":{"content":7}}"#,
        r#"{"done":"yes"}"#,
        r#"{"message":{"tool_calls":[{}]}}"#,
        r#"{"message":{"tool_calls":[{"function":{}}]}}"#,
        r#"{"eval_count":-1}"#,
        "data: {}",
    ] {
        assert!(matches!(read(&[line]), Err(BadLine::Unreadable(_))), "{line}");
    }
}

#[test]
fn what_is_larger_than_a_frame_is_passed_on_in_pieces_that_fit() {
    let long = "ü€x".repeat(PIECE_BYTES / 2);
    let line = serde_json::json!({"message": {"content": long, "thinking": long, "tool_calls":
        [{"function": {"name": "f", "arguments": {"a": long}}}]}, "done": true});
    let events = read(&[&line.to_string()]).expect("a good line");
    let (mut said, mut thought, mut arguments, mut ids) = (String::new(), String::new(), String::new(), 0);
    for event in &events {
        encode(&[], event, EVENT_FRAME_BYTES).expect("each event fits");
        match event {
            RunEvent::Text(piece) => said.push_str(piece),
            RunEvent::Reasoning(piece) => thought.push_str(piece),
            RunEvent::ToolCall { index: 0, id, arguments: piece, .. } => {
                ids += usize::from(id.is_some());
                arguments.push_str(piece);
            }
            RunEvent::Finished { .. } => {}
            other => panic!("not expected: {other:?}"),
        }
    }
    assert!(said == long && thought == long && events.len() > 10);
    assert_eq!((ids, arguments), (1, serde_json::json!({"a": long}).to_string()));
}

/// A line of an answer, good or nearly.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        "[a-z ]{0,9}".prop_map(|text| format!(r#"{{"message":{{"content":"{text}"}},"done":false}}"#)),
        "[0-9a-z\\[\\]{}\":,. -]{0,60}".prop_map(|json| format!(r#"{{"message":{json}}}"#)),
        "[0-9a-z\\[\\]{}\":,. -]{0,30}".prop_map(|json| format!(
            r#"{{"message":{{"tool_calls":[{{"function":{{"name":"f","arguments":{json}}}}}]}}}}"#
        )),
        Just(r#"{"done":true,"done_reason":"stop"}"#.to_owned()),
        Just(r#"{"error":"e"}"#.to_owned()),
    ]
}

proptest! {
    #[test]
    fn bytes_of_any_kind_cut_anywhere_are_read_the_same_and_never_panic(
        lines in prop::collection::vec(prop_oneof![
            line().prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..40)
        ], 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = lines.join(&b'\n');
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let read = |pieces: &[&[u8]]| {
            let (mut lines, mut reader, mut outcome) = (Lines::default(), Reader::default(), Vec::new());
            for piece in pieces {
                lines.push(piece);
                while let Some(line) = lines.next_line().expect("short lines") {
                    outcome.push(reader.read(&line).map_err(|error| error.to_string()));
                }
            }
            outcome.extend(lines.last().map(|line| reader.read(&line).map_err(|error| error.to_string())));
            outcome
        };
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &whole[ends[0]..ends[1]]).collect();
        prop_assert_eq!(read(&pieces), read(&[&whole]));
    }
}
