//! Requests as OpenAI's clients send them, beside what Ollama gets.

use super::{Expected, translate};
use iop_transport::wire::Operation;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The body for Ollama, as its text.
fn text(operation: Operation, body: &Value) -> String {
    let translated = translate(operation, "up", body.to_string().as_bytes()).expect("a good request");
    String::from_utf8(translated.body.to_vec()).expect("JSON is UTF-8")
}

fn translated(operation: Operation, body: &Value) -> Value {
    serde_json::from_str(&text(operation, body)).expect("JSON")
}

/// A chat with these messages, as Ollama gets them.
fn messages(messages: Value) -> Value {
    translated(Operation::Chat, &json!({"model": "m", "messages": messages}))["messages"].clone()
}

fn problem(operation: Operation, body: &str) -> String {
    translate(operation, "up", body.as_bytes()).expect_err("no good request").to_string()
}

#[test]
fn a_chat_is_streamed_under_the_providers_name_of_the_model_and_without_needless_fields() {
    let body = json!({
        "model": "ornith:35b", "stream": false, "stream_options": {"include_usage": true}, "user": "u",
        "messages": [{"role": "user", "content": "why is the sky blue?"}], "n": 1, "store": false,
        "max_tokens": null, "stop": null, "tools": null, "response_format": null,
    });
    let expected = json!({
        "model": "up", "stream": true, "messages": [{"role": "user", "content": "why is the sky blue?"}],
    });
    assert_eq!(translated(Operation::Chat, &body), expected);
}

#[test]
fn every_role_has_its_counterpart() {
    let found = messages(json!([
        {"role": "system", "content": "s"}, {"role": "developer", "content": "d"},
        {"role": "user", "content": "u", "name": "n"}, {"role": "assistant", "content": null},
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        {"role": "assistant", "reasoning": "q"},
    ]));
    let expected = json!([
        {"role": "system", "content": "s"}, {"role": "system", "content": "d"},
        {"role": "user", "content": "u"}, {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "a", "thinking": "r"},
        {"role": "assistant", "content": "", "thinking": "q"},
    ]);
    assert_eq!(found, expected);
}

#[test]
fn parts_become_one_text_and_images() {
    let found = messages(json!([{"role": "user", "content": [
        {"type": "text", "text": "what is"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
        {"type": "text", "text": "in these?"},
        {"type": "image_url", "image_url": "data:;base64,/9j/4AAQ"},
        {"type": "image_url", "image_url": {"url": "data:image/webp;x=y;BASE64,UklGR"}},
    ]}]));
    let expected = json!([{"role": "user", "content": "what is\nin these?",
        "images": ["iVBORw0KGgo=", "/9j/4AAQ", "UklGR"]}]);
    assert_eq!(found, expected);
    // A client that escapes slashes means the same.
    let body = br#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,a\/b="}}]}]}"#;
    let found = translate(Operation::Chat, "up", body).expect("a good request").body;
    assert!(String::from_utf8_lossy(&found).contains(r#""images":["a/b="]"#), "{found:?}");
}

#[test]
fn calls_of_tools_and_their_results_find_each_other_by_the_last_call_of_that_id() {
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let found = messages(json!([
        {"role": "assistant", "content": null, "tool_calls": [
            call("call_0", "get_weather", "{\"city\":\"Paris\"}"), call("call_1", "now", "")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "11 degrees"},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "noon"}]},
        {"role": "assistant", "content": "", "tool_calls": [call("call_0", "add", " {\"b\":1,\"a\":2.0} ")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "3"},
        {"role": "tool", "tool_call_id": "call_9", "name": "unknown", "content": "?"},
        {"role": "function", "name": "old", "content": "x"},
    ]));
    let expected = json!([
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_0", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}},
            {"id": "call_1", "function": {"name": "now", "arguments": {}}}]},
        {"role": "tool", "content": "11 degrees", "tool_name": "get_weather", "tool_call_id": "call_0"},
        {"role": "tool", "content": "noon", "tool_name": "now", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_0", "function": {"name": "add", "arguments": {"b": 1, "a": 2.0}}}]},
        {"role": "tool", "content": "3", "tool_name": "add", "tool_call_id": "call_0"},
        {"role": "tool", "content": "?", "tool_name": "unknown", "tool_call_id": "call_9"},
        {"role": "tool", "content": "x", "tool_name": "old"},
    ]);
    assert_eq!(found, expected);
}

#[test]
fn tools_and_schemas_pass_as_they_were_written() {
    let tools = r#"[{"type":"function","function":{"name":"f","parameters":{"z":1.50,"a":{"type":["string","null"]}}}}]"#;
    let schema = r#"{"type":"object","properties":{"zeta":{},"alpha":{"maximum":1e2}}}"#;
    let body = format!(
        r#"{{"messages":[],"tools":{tools},"response_format":{{"type":"json_schema","json_schema":{{"name":"n","strict":true,"schema":{schema}}}}}}}"#
    );
    let found = translate(Operation::Chat, "up", body.as_bytes()).expect("a good request").body;
    let found = String::from_utf8_lossy(&found);
    assert!(found.contains(&format!(r#""tools":{tools},"format":{schema}"#)), "{found}");

    for (choice, sent) in
        [(json!("none"), false), (json!("auto"), true), (json!("required"), true), (json!(null), true)]
    {
        let body = json!({"messages": [], "tools": [{"type": "function"}], "tool_choice": choice});
        assert_eq!(translated(Operation::Chat, &body).get("tools").is_some(), sent, "{choice}");
    }
}

#[test]
fn json_mode_is_the_format_json_and_text_is_no_format() {
    for (kind, format) in [("json_object", Some(json!("json"))), ("text", None)] {
        let body = json!({"messages": [], "response_format": {"type": kind}});
        assert_eq!(translated(Operation::Chat, &body).get("format").cloned(), format, "{kind}");
    }
}

#[test]
fn sampling_has_its_place_among_the_options_of_chats_and_completions() {
    let sampling = json!({
        "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "seed": 42,
        "stop": "\n", "frequency_penalty": 1, "presence_penalty": -1.5,
    });
    let options = json!({
        "num_predict": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "seed": 42,
        "stop": ["\n"], "frequency_penalty": 1.0, "presence_penalty": -1.5,
    });
    for (operation, key, value) in
        [(Operation::Chat, "messages", json!([])), (Operation::Completion, "prompt", json!("p"))]
    {
        let mut body = sampling.clone();
        body[key] = value;
        assert_eq!(translated(operation, &body)["options"], options, "{operation:?}");
        body["stop"] = json!(["a", "b"]);
        body["max_completion_tokens"] = json!(9);
        let found = translated(operation, &body);
        assert_eq!(
            (&found["options"]["stop"], &found["options"]["num_predict"]),
            (&json!(["a", "b"]), &json!(9))
        );
    }
}

#[test]
fn the_effort_of_reasoning_becomes_think() {
    let cases = [
        (json!({}), None),
        (json!({"reasoning_effort": null}), None),
        (json!({"reasoning_effort": "none"}), Some(json!(false))),
        (json!({"reasoning_effort": "minimal"}), Some(json!("low"))),
        (json!({"reasoning_effort": "medium"}), Some(json!("medium"))),
        (json!({"reasoning_effort": "xhigh"}), Some(json!("high"))),
        (json!({"reasoning": {"effort": "high", "summary": "auto"}}), Some(json!("high"))),
        (json!({"think": true, "reasoning_effort": "none"}), Some(json!(true))),
        (json!({"think": "low"}), Some(json!("low"))),
    ];
    for (mut body, think) in cases {
        body["messages"] = json!([]);
        assert_eq!(translated(Operation::Chat, &body).get("think").cloned(), think, "{body}");
    }
}

#[test]
fn a_completion_is_a_prompt_with_its_suffix() {
    let body = json!({"model": "m", "prompt": "def f(a, b):", "suffix": "    return r", "stream": true, "echo": false});
    let expected = json!({"model": "up", "stream": true, "prompt": "def f(a, b):", "suffix": "    return r"});
    assert_eq!(translated(Operation::Completion, &body), expected);
    assert_eq!(translated(Operation::Completion, &json!({"prompt": ["only"]}))["prompt"], "only");
}

#[test]
fn all_inputs_are_embedded_in_one_call() {
    for (input, sent) in
        [(json!("one"), json!(["one"])), (json!(["a", "b ü"]), json!(["a", "b ü"])), (json!([]), json!([]))]
    {
        let body = json!({"model": "m", "input": input, "dimensions": 256, "encoding_format": "base64"});
        let expected = json!({"model": "up", "input": sent, "dimensions": 256});
        assert_eq!(translated(Operation::Embeddings, &body), expected);
        let translated =
            translate(Operation::Embeddings, "up", body.to_string().as_bytes()).expect("a good request");
        assert_eq!(
            (translated.path, translated.answer),
            ("/api/embed", Expected::Vectors(sent.as_array().map_or(0, Vec::len)))
        );
    }
}

#[test]
fn what_ollama_cannot_do_is_refused_in_words_that_help() {
    let chat = |messages: &str| format!(r#"{{"messages":[{{"role":"user","content":"x"}},{messages}]}}"#);
    let image = |url: &str| {
        chat(&format!(r#"{{"role":"user","content":[{{"type":"image_url","image_url":{url}}}]}}"#))
    };
    let fetch = "messages[1].content: Ollama fetches no images, so an image_url must be a data URL like data:image/png;base64,…; found `";
    let call = |arguments: &str| {
        chat(&format!(
            r#"{{"role":"assistant","tool_calls":[{{"function":{{"name":"f","arguments":{arguments}}}}}]}}"#
        ))
    };
    let arguments = "messages[1].tool_calls[0].function.arguments: expected the JSON text of an object";
    let cases = [
        (image(r#"{"url":"https://example.com/cat.png"}"#), format!("{fetch}https://example.com/cat.png`")),
        (image(r#""data:image/png,raw""#), format!("{fetch}data:image/png,raw`")),
        (image(r#""data:image/png;base64,""#), fetch.to_owned()),
        (image(&format!(r#""{}""#, "ü".repeat(99))), format!("{fetch}{}…`", "ü".repeat(30))),
        (image("7"), "messages[1].content: invalid type".into()),
        (
            chat(r#"{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}"#),
            "messages[1].content: Ollama takes parts of type text and image_url, found `input_audio`".into(),
        ),
        (
            chat(r#"{"role":"user","content":[{"type":"text"}]}"#),
            "messages[1].content: Ollama takes parts".into(),
        ),
        (chat(r#"{"role":"user","content":7}"#), "messages[1].content: invalid type: integer".into()),
        (chat(r#"{"role":"bot","content":"x"}"#), "messages[1].role: found `bot`, expected system".into()),
        (call(r#""[1]""#), arguments.into()),
        (call(r#""{""#), arguments.into()),
        (call(r#""{} {}""#), arguments.into()),
        (r#"{"messages":[],"n":2}"#.into(), "n: Ollama gives one choice per request, found 2".into()),
        (
            r#"{"messages":[],"response_format":{"type":"xml"}}"#.into(),
            "response_format.type: found `xml`".into(),
        ),
        (
            r#"{"messages":[],"response_format":{"type":"json_schema"}}"#.into(),
            "response_format.json_schema.schema is missing".into(),
        ),
        (
            r#"{"messages":[],"temperature":"hot"}"#.into(),
            "the request is not what this path takes: invalid type".into(),
        ),
        (
            r#"{"messages":[],"stop":[1]}"#.into(),
            "the request is not what this path takes: stop: expected".into(),
        ),
        (
            r#"{"messages":[],"think":2}"#.into(),
            "the request is not what this path takes: think: expected".into(),
        ),
        (
            r#"{"prompt":"x"}"#.into(),
            "the request is not what this path takes: missing field `messages`".into(),
        ),
        ("[]".into(), "the request is not what this path takes".into()),
    ];
    for (body, words) in cases {
        let problem = problem(Operation::Chat, &body);
        assert!(problem.starts_with(&words), "{problem} / {words}");
    }
    let cases = [
        (
            Operation::Completion,
            r#"{"prompt":["a","b"]}"#,
            "prompt: Ollama takes one prompt per request, found 2",
        ),
        (Operation::Completion, r#"{"prompt":[]}"#, "prompt: Ollama takes one prompt per request, found 0"),
        (Operation::Completion, r#"{"prompt":[1,2]}"#, "prompt: Ollama takes text here, no token ids"),
        (Operation::Completion, r#"{"prompt":"a","n":3}"#, "n: Ollama gives one choice"),
        (Operation::Embeddings, r#"{"input":[[1,2]]}"#, "input: Ollama takes text here, no token ids"),
        (Operation::Embeddings, r#"{"input":null}"#, "input: Ollama takes text here"),
        (Operation::Embeddings, "{}", "the request is not what this path takes: missing field `input`"),
    ];
    for (operation, body, words) in cases {
        let problem = problem(operation, body);
        assert!(problem.starts_with(words), "{problem} / {words}");
    }
}

/// Any JSON, of little depth.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z:;,/ ü]{0,12}".prop_map(Value::from),
        Just(json!("data:image/png;base64,AAAA")),
        Just(json!("{}")),
        Just(json!("tool")),
        Just(json!("assistant")),
        Just(json!("text")),
        Just(json!("image_url")),
    ];
    let key = prop::sample::select(vec![
        "messages",
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "url",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "tool_call_id",
        "tools",
        "response_format",
        "json_schema",
        "schema",
        "stop",
        "think",
        "prompt",
        "input",
        "n",
        "dimensions",
        "reasoning",
        "effort",
    ]);
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..7)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_body_is_translated_into_json_or_refused_and_never_panics(
        body in any_json(), bytes in prop::collection::vec(any::<u8>(), 0..60), cut in any::<prop::sample::Index>(),
    ) {
        let text = body.to_string();
        for body in [text.as_bytes(), &bytes, &text.as_bytes()[..cut.index(text.len() + 1)]] {
            for operation in [Operation::Chat, Operation::Completion, Operation::Embeddings] {
                if let Ok(translated) = translate(operation, "up", body) {
                    let sent: Value = serde_json::from_slice(&translated.body).expect("JSON");
                    prop_assert_eq!(&sent["model"], "up");
                }
            }
        }
    }
}
