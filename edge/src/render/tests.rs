//! Answers and errors, byte for byte.

use iop_transport::wire::{Finish, RunEvent, Usage};

use super::{
    Answer, AnswerError, AnswerStream, EncodingFormat,
    error::{Dialect, StreamDialect, body, stream_event},
};

const USAGE: Usage = Usage { prompt_tokens: 3, completion_tokens: 4 };

fn text(piece: &str) -> RunEvent {
    RunEvent::Text(piece.to_owned())
}

fn reasoning(piece: &str) -> RunEvent {
    RunEvent::Reasoning(piece.to_owned())
}

fn call(index: u32, id: Option<&str>, name: Option<&str>, arguments: &str) -> RunEvent {
    let (id, name) = (id.map(str::to_owned), name.map(str::to_owned));
    RunEvent::ToolCall { index, id, name, arguments: arguments.to_owned() }
}

fn finished(finish: Finish) -> RunEvent {
    RunEvent::Finished { finish, usage: USAGE }
}

fn streamed(mut stream: AnswerStream, events: impl IntoIterator<Item = RunEvent>) -> String {
    let bytes: Vec<_> = events.into_iter().map(|event| stream.event(event)).collect();
    assert!(stream.is_ended(), "the events end the stream");
    String::from_utf8(bytes.concat()).expect("server-sent events are text")
}

fn collected(mut answer: Answer, events: impl IntoIterator<Item = RunEvent>) -> Result<String, AnswerError> {
    events.into_iter().try_for_each(|event| answer.event(event))?;
    answer.finish().map(|body| String::from_utf8(body.to_vec()).expect("JSON is text"))
}

/// What every chunk of a chat named "m" has around its choices.
fn chat_chunk(rest: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-7\",\"object\":\"chat.completion.chunk\",\"created\":9,\"model\":\"m\",{rest}}}\n\n"
    )
}

fn completion_chunk(rest: &str) -> String {
    format!(
        "data: {{\"id\":\"cmpl-7\",\"object\":\"text_completion\",\"created\":9,\"model\":\"m\",{rest}}}\n\n"
    )
}

#[test]
fn a_chat_streams_role_reasoning_text_and_finish() {
    let events =
        [reasoning("hm"), text(""), text("a\n\"b\""), text("é"), finished(Finish::Length), text("too late")];
    let expected = [
        chat_chunk(
            r#""choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"},"finish_reason":null}]"#,
        ),
        chat_chunk(r#""choices":[{"index":0,"delta":{"content":"a\n\"b\""},"finish_reason":null}]"#),
        chat_chunk(r#""choices":[{"index":0,"delta":{"content":"é"},"finish_reason":null}]"#),
        chat_chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"length"}]"#),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(streamed(AnswerStream::chat("7", 9, "m", false), events), expected.concat());
}

#[test]
fn usage_is_streamed_only_when_asked_for() {
    let expected = [
        chat_chunk(
            r#""choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}],"usage":null"#,
        ),
        chat_chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null"#),
        chat_chunk(r#""choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}"#),
        "data: [DONE]\n\n".to_owned(),
    ];
    let events = [text("a"), finished(Finish::Stop)];
    assert_eq!(streamed(AnswerStream::chat("7", 9, "m", true), events.clone()), expected.concat());
    assert!(!streamed(AnswerStream::chat("7", 9, "m", false), events).contains("usage"));
}

#[test]
fn tool_calls_stream_with_index_and_with_id_and_type_once() {
    let events = [
        call(0, Some("c0"), Some("look"), "{\"a\""),
        call(0, None, None, ":1}"),
        call(1, Some("c1"), Some("go"), "{}"),
        finished(Finish::ToolCalls),
    ];
    let expected = [
        chat_chunk(concat!(
            r#""choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"c0","type":"function","#,
            r#""function":{"name":"look","arguments":"{\"a\""}}]},"finish_reason":null}]"#
        )),
        chat_chunk(
            r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},"finish_reason":null}]"#,
        ),
        chat_chunk(concat!(
            r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c1","type":"function","#,
            r#""function":{"name":"go","arguments":"{}"}}]},"finish_reason":null}]"#
        )),
        chat_chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]"#),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(streamed(AnswerStream::chat("7", 9, "m", false), events), expected.concat());
}

#[test]
fn an_empty_chat_still_streams_its_role() {
    let expected = [
        chat_chunk(
            r#""choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]"#,
        ),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(streamed(AnswerStream::chat("7", 9, "m", false), [finished(Finish::Stop)]), expected.concat());
}

#[test]
fn a_completion_streams_text_and_usage() {
    let events = [reasoning("hm"), text("a"), finished(Finish::ToolCalls)];
    let expected = [
        completion_chunk(
            r#""choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null}],"usage":null"#,
        ),
        completion_chunk(
            r#""choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],"usage":null"#,
        ),
        completion_chunk(
            r#""choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}"#,
        ),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(streamed(AnswerStream::completion("7", 9, "m", true), events), expected.concat());
}

#[test]
fn a_failed_stream_ends_with_an_error_and_without_done() {
    let error = |message: &str| {
        format!(
            "data: {{\"error\":{{\"message\":\"{message}\",\"type\":\"server_error\",\"param\":null,\"code\":\"provider_error\"}}}}\n\n"
        )
    };
    let failed = [RunEvent::Failed("out of memory".to_owned()), finished(Finish::Stop)];
    let strange = [RunEvent::Embedding(vec![1.0]), finished(Finish::Stop)];
    assert_eq!(streamed(AnswerStream::chat("7", 9, "m", true), failed), error("out of memory"));
    let message = "the provider sent a vector where text was due";
    assert_eq!(streamed(AnswerStream::completion("7", 9, "m", true), strange), error(message));
}

#[test]
fn a_chat_is_collected() {
    let plain = collected(Answer::chat("7", 9, "m", 100), [text("a"), text("b"), finished(Finish::Stop)]);
    let expected = concat!(
        r#"{"id":"chatcmpl-7","object":"chat.completion","created":9,"model":"m","choices":[{"index":0,"#,
        r#""message":{"role":"assistant","content":"ab","refusal":null},"logprobs":null,"finish_reason":"stop"}],"#,
        r#""usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#
    );
    assert_eq!(plain, Ok(expected.to_owned()));
}

#[test]
fn a_chat_with_reasoning_and_tool_calls_is_collected() {
    let events = [
        reasoning("h"),
        reasoning("m"),
        call(1, None, Some("go"), "{}"),
        call(0, Some("c0"), Some("look"), "{\"a\""),
        call(0, None, None, ":1}"),
        finished(Finish::ToolCalls),
    ];
    let expected = concat!(
        r#"{"id":"chatcmpl-7","object":"chat.completion","created":9,"model":"m","choices":[{"index":0,"#,
        r#""message":{"role":"assistant","content":null,"refusal":null,"reasoning_content":"hm","tool_calls":["#,
        r#"{"id":"c0","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}},"#,
        r#"{"id":"call_1","type":"function","function":{"name":"go","arguments":"{}"}}]},"#,
        r#""logprobs":null,"finish_reason":"tool_calls"}],"#,
        r#""usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#
    );
    assert_eq!(collected(Answer::chat("7", 9, "m", 1000), events), Ok(expected.to_owned()));
}

#[test]
fn a_completion_is_collected() {
    let events = [reasoning("hm"), call(0, None, None, ""), text("a"), finished(Finish::Length)];
    let expected = concat!(
        r#"{"id":"cmpl-7","object":"text_completion","created":9,"model":"m","choices":[{"index":0,"text":"a","#,
        r#""logprobs":null,"finish_reason":"length"}],"#,
        r#""usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#
    );
    assert_eq!(collected(Answer::completion("7", 9, "m", 1), events), Ok(expected.to_owned()));
}

#[test]
fn embeddings_are_collected_as_numbers_or_base64() {
    let list = |first: &str, second: &str| {
        Ok(format!(
            concat!(
                r#"{{"object":"list","data":[{{"object":"embedding","index":0,"embedding":{}}},"#,
                r#"{{"object":"embedding","index":1,"embedding":{}}}],"model":"m","#,
                r#""usage":{{"prompt_tokens":3,"total_tokens":3}}}}"#
            ),
            first, second
        ))
    };
    let events =
        [RunEvent::Embedding(vec![1.0, -2.5]), RunEvent::Embedding(vec![0.1]), finished(Finish::Stop)];
    let float = collected(Answer::embeddings("m", EncodingFormat::Float, 1000), events.clone());
    assert_eq!(float, list("[1.0,-2.5]", "[0.1]"));
    let base64 = collected(Answer::embeddings("m", EncodingFormat::Base64, 1000), events);
    assert_eq!(base64, list("\"AACAPwAAIMA=\"", "\"zczMPQ==\""));
}

#[test]
fn an_answer_that_cannot_be_given_says_why() {
    let chat = || Answer::chat("7", 9, "m", 10);
    let embeddings = || Answer::embeddings("m", EncodingFormat::Float, 100);
    let cases = [
        (chat(), vec![text("123456"), text("78901")], AnswerError::TooLarge { limit: 10 }),
        (chat(), vec![call(0, None, None, "")], AnswerError::TooLarge { limit: 10 }),
        (embeddings(), vec![RunEvent::Embedding(vec![0.0; 10])], AnswerError::TooLarge { limit: 100 }),
        (chat(), vec![RunEvent::Failed("no".to_owned())], AnswerError::Failed("no".to_owned())),
        (chat(), vec![text("a")], AnswerError::Unfinished),
        (chat(), vec![RunEvent::Embedding(vec![])], AnswerError::Unexpected("a vector where text was due")),
        (embeddings(), vec![text("a")], AnswerError::Unexpected("text where a vector was due")),
        (
            embeddings(),
            vec![RunEvent::Embedding(vec![f32::NAN])],
            AnswerError::Unexpected("a vector with a number that is not finite"),
        ),
        (
            chat(),
            vec![finished(Finish::Stop), text("a")],
            AnswerError::Unexpected("an event after its last one"),
        ),
    ];
    for (answer, events, error) in cases {
        assert_eq!(collected(answer, events), Err(error));
    }
}

#[test]
fn error_bodies_have_the_shape_of_their_api() {
    let body = |dialect, status| body(dialect, status, "queue_full", "the queue\nis full", "req-1");
    assert_eq!(
        body(Dialect::OpenAi, 429),
        r#"{"error":{"message":"the queue\nis full","type":"rate_limit_error","param":null,"code":"queue_full"}}"#
    );
    assert_eq!(
        body(Dialect::Anthropic, 429),
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"the queue\nis full"},"request_id":"req-1"}"#
    );
    for (status, openai, anthropic) in [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (403, "permission_error", "permission_error"),
        (404, "invalid_request_error", "not_found_error"),
        (413, "invalid_request_error", "request_too_large"),
        (502, "server_error", "api_error"),
        (503, "server_error", "overloaded_error"),
        (504, "server_error", "timeout_error"),
    ] {
        for (dialect, name) in [(Dialect::OpenAi, openai), (Dialect::Anthropic, anthropic)] {
            let body = String::from_utf8(body(dialect, status).to_vec()).expect("JSON is text");
            assert!(body.contains(&format!(r#""type":"{name}""#)), "{status}: {body}");
        }
    }
}

#[test]
fn error_events_have_the_shape_of_their_stream() {
    let event = |dialect| stream_event(dialect, "provider_disconnected", "gone\n\nfor good");
    assert_eq!(
        event(StreamDialect::Chat),
        concat!(
            r#"data: {"error":{"message":"gone\n\nfor good","type":"server_error","param":null,"#,
            r#""code":"provider_disconnected"}}"#,
            "\n\n"
        )
    );
    assert_eq!(
        event(StreamDialect::Responses { sequence_number: 12 }),
        concat!(
            "event: error\n",
            r#"data: {"type":"error","code":"provider_disconnected","message":"gone\n\nfor good","param":null,"#,
            r#""sequence_number":12}"#,
            "\n\n"
        )
    );
    assert_eq!(
        event(StreamDialect::Messages),
        concat!(
            "event: error\n",
            r#"data: {"type":"error","error":{"type":"api_error","message":"gone\n\nfor good"}}"#,
            "\n\n"
        )
    );
}
