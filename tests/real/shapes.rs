//! Answers as servers like vLLM, llama.cpp, SGLang and Ollama write them, for what no real server here does on demand.

use bytes::Bytes;
use iop_tests::engine::{Reply, Script};
use serde_json::{Value, json};
use std::time::Duration;

/// Time between two events of the streams here, so that a stream that is held back shows.
pub(crate) const INTERVAL: Duration = Duration::from_millis(40);

/// The text of the streams of responses and messages here.
pub(crate) const TEXT: &str = "Grüße, world";
/// The same in pieces.
const PIECES: [&str; 4] = ["Grü", "ße", ", wor", "ld"];

/// Status 200 with this JSON.
pub(crate) fn whole(body: &Value) -> Script {
    Script::body(body.to_string()).header("content-type", "application/json")
}

/// Status 200 with these pieces, [`INTERVAL`] apart.
pub(crate) fn pieces(content_type: &str, pieces: Vec<Bytes>) -> Script {
    let mut script = Script::body("");
    script.reply = Reply::Http { status: hyper::StatusCode::OK, pieces, sized: false };
    script.interval = INTERVAL;
    script.header("content-type", content_type)
}

/// Events that only have data, with `[DONE]` at their end.
fn unnamed(events: Vec<Value>) -> Script {
    let events = events.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
    pieces("text/event-stream", events.map(|data| Bytes::from(format!("data: {data}\n\n"))).collect())
}

/// Events that are named for their type.
fn named(events: Vec<Value>) -> Script {
    let event = |event: &Value| {
        let name = event["type"].as_str().expect("each event has a type");
        Bytes::from(format!("event: {name}\ndata: {event}\n\n"))
    };
    pieces("text/event-stream", events.iter().map(event).collect())
}

/// Names and arguments of the calls here.
pub(crate) fn calls() -> Value {
    json!([
        {"id": "call_a", "name": "get_weather", "arguments": "{\"city\":\"Köln\"}"},
        {"id": "call_b", "name": "get_weather", "arguments": "{\"city\": \"a \\\"b\\\"\"}"},
    ])
}

/// Two calls of a tool in one whole answer.
pub(crate) fn chat_calls() -> Script {
    let call = |call: &Value| {
        json!({"id": call["id"], "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]}})
    };
    let calls: Vec<Value> = calls().as_array().expect("a list").iter().map(call).collect();
    whole(
        &json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": null,
            "message": {"role": "assistant", "content": null, "refusal": null, "tool_calls": calls}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 39}}),
    )
}

/// The same streamed: each call by its index, its arguments in pieces.
pub(crate) fn chat_call_chunks() -> Script {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
    };
    let begin = |index: u32, id: &str| {
        let function = json!({"name": "get_weather", "arguments": ""});
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    };
    let piece =
        |index: u32, text: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
    let deltas = [
        json!({"role": "assistant", "content": null}),
        begin(0, "call_a"),
        piece(0, "{\"city\":\"Kö"),
        piece(0, "ln\"}"),
        begin(1, "call_b"),
        piece(1, "{\"city\": \"a \\\"b"),
        piece(1, "\\\"\"}"),
    ];
    let deltas = deltas.into_iter().map(|delta| chunk(delta, Value::Null));
    unnamed(deltas.chain([chunk(json!({}), json!("tool_calls"))]).collect())
}

/// Indices of the pieces of [`chat_call_chunks`].
pub(crate) const CHUNK_INDICES: [u32; 6] = [0, 0, 0, 1, 1, 1];

/// Two vectors of two numbers in Base64, which the Node client asks for and takes for granted.
pub(crate) fn packed_embeddings() -> Script {
    let item = |index: u32, packed: &str| json!({"object": "embedding", "index": index, "embedding": packed});
    whole(&json!({"object": "list", "model": "scripted", "usage": {"prompt_tokens": 2, "total_tokens": 2},
        "data": [item(0, "AACAPwAAIMA="), item(1, "AAAgwAAAgD8=")]}))
}

fn response(status: &str, text: &str) -> Value {
    let output = match status {
        "completed" => json!([message_item("completed", json!([text_part(text)]))]),
        _ => json!([]),
    };
    json!({"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "model": "scripted",
        "output": output, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "error": null,
        "incomplete_details": null, "instructions": null, "metadata": {}, "temperature": 1.0, "top_p": 1.0,
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0}}})
}

fn message_item(status: &str, content: Value) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content})
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A whole answer of `/v1/responses`.
pub(crate) fn responses() -> Script {
    whole(&response("completed", TEXT))
}

/// The same streamed; pieces of text are its events 3 to 6.
pub(crate) fn responses_stream() -> Script {
    let place = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0});
    let at = |kind: &str, mut fields: Value| {
        fields["type"] = kind.into();
        for (name, value) in place.as_object().expect("an object") {
            fields[name] = value.clone();
        }
        fields
    };
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", "")}),
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": message_item("in_progress", json!([]))}),
        at("response.content_part.added", json!({"part": text_part("")})),
    ];
    let delta = |piece: &&str| at("response.output_text.delta", json!({"delta": piece, "logprobs": []}));
    events.extend(PIECES.iter().map(delta));
    events.push(at("response.output_text.done", json!({"text": TEXT, "logprobs": []})));
    events.push(at("response.content_part.done", json!({"part": text_part(TEXT)})));
    events.push(json!({"type": "response.output_item.done", "output_index": 0,
        "item": message_item("completed", json!([text_part(TEXT)]))}));
    events.push(json!({"type": "response.completed", "response": response("completed", TEXT)}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    named(events)
}

fn message(content: Value, stop: Value) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 3, "output_tokens": 4}})
}

/// A whole answer of `/v1/messages`.
pub(crate) fn messages() -> Script {
    whole(&message(json!([{"type": "text", "text": TEXT}]), json!("end_turn")))
}

/// The same streamed; pieces of text are its events 2 to 5.
pub(crate) fn messages_stream() -> Script {
    let delta = |piece: &&str| json!({"type": "text_delta", "text": piece});
    let deltas = PIECES.iter().map(delta).collect();
    messages_events(json!({"type": "text", "text": ""}), deltas, "end_turn")
}

/// The call of a tool in a stream of `/v1/messages`.
pub(crate) fn messages_call() -> Script {
    let pieces = ["", "{\"city\": ", "\"Kö", "ln\"}"];
    let delta = |piece: &&str| json!({"type": "input_json_delta", "partial_json": piece});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}});
    messages_events(call, pieces.iter().map(delta).collect(), "tool_use")
}

fn messages_events(block: Value, deltas: Vec<Value>, stop: &str) -> Script {
    let mut events = vec![
        json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
    ];
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    events.extend(deltas.into_iter().map(delta));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": 4}}));
    events.push(json!({"type": "message_stop"}));
    named(events)
}
