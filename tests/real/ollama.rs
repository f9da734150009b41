//! OpenAI's clients on a server that speaks Ollama's native API alone: the node asks it, the edge writes OpenAI's answers.

use crate::clients::Client;
use crate::lab::{MODEL, deploy, scripted, wait_for_no_lease};
use crate::large::write;
use crate::shapes;
use bytes::Bytes;
use iop_tests::engine::{Engine, Script};
use serde_json::{Value, json};

/// What Ollama calls its model in these answers.
const NAME: &str = "scripted";

/// Lines as Ollama writes them, one in each piece, and the last one with its counts.
fn lines(mut lines: Vec<Value>) -> Script {
    let last = lines.last_mut().expect("an answer has a last line");
    last["done"] = true.into();
    last["done_reason"] = "stop".into();
    last["total_duration"] = 5_043_500_667_u64.into();
    last["prompt_eval_count"] = 26.into();
    last["eval_count"] = 4.into();
    let lines = lines.iter().map(|line| Bytes::from(format!("{line}\n")));
    shapes::pieces("application/x-ndjson", lines.collect())
}

fn line(rest: Value) -> Value {
    let mut line = json!({"model": NAME, "created_at": "2026-08-04T08:52:19.385406455Z", "done": false});
    let fields = rest.as_object().expect("an object").clone();
    line.as_object_mut().expect("an object").extend(fields);
    line
}

fn chat(texts: &[&str]) -> Script {
    let message = |text: &&str| line(json!({"message": {"role": "assistant", "content": text}}));
    lines(texts.iter().map(message).collect())
}

fn completion(texts: &[&str]) -> Script {
    lines(texts.iter().map(|text| line(json!({"response": text}))).collect())
}

/// Two calls, each whole in a line of its own and both with the index 0, as Ollama numbers them.
fn calls() -> Script {
    let call = |city: &str| {
        let function = json!({"index": 0, "name": "get_weather", "arguments": {"city": city}});
        line(json!({"message": {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}}))
    };
    let last = line(json!({"message": {"role": "assistant", "content": ""}}));
    lines(vec![call("Köln"), call("Roma"), last])
}

fn vectors() -> Script {
    shapes::whole(&json!({"model": NAME, "embeddings": [[0.25, -0.5, 1e-7], [0.125, 0.5, 1.0]],
        "total_duration": 14_143_917, "load_duration": 1_019_500, "prompt_eval_count": 8}))
}

fn expected_calls(seen: &Value) -> Vec<(Value, Value)> {
    let calls = seen["calls"].as_array().expect("a list");
    let arguments =
        |call: &Value| serde_json::from_str(call["arguments"].as_str().expect("text")).expect("JSON");
    calls.iter().map(|call| (call["name"].clone(), arguments(call))).collect()
}

#[tokio::test]
async fn openais_clients_are_served_by_an_ollama_server() {
    let ollama = Engine::start();
    let plan = scripted(&ollama).edge_value("/nodes/0/providers/0/adapter", json!("ollama"));
    let iop = deploy(plan).await;
    let texts = ["Grü", "ße", ", world", ""];
    let cases = [
        (Client::OpenAi, 2, 2, &["chat", "stream", "completion", "completion-stream"][..]),
        (Client::OpenAiNode, 1, 1, &["chat", "stream", "completion"]),
    ];
    for (client, tool_runs, vector_runs, checks) in cases {
        let answers = [calls(), chat(&["sunny", ""])];
        ollama.queue_scripts(answers.into_iter().take(tool_runs).chain([calls()]));
        ollama.queue_scripts([chat(&texts), chat(&texts)]);
        ollama.queue_scripts((2..checks.len()).map(|_| completion(&texts)));
        ollama.queue_scripts((0..vector_runs).map(|_| vectors()));
        let all = [&["tools", "tools-stream"], checks, &["embeddings"]].concat();
        let seen = client.check(iop.http, MODEL, &all, &[]).await;

        seen.assert_text(checks, "Grüße, world");
        assert_eq!((&seen.of("stream")["chunks"], &seen.of("stream")["tokens"]), (&json!(3), &json!(4)));
        for check in ["tools", "tools-stream"] {
            let seen = seen.of(check);
            assert_eq!(seen["finish"], "tool_calls", "{client:?} {check}");
            let due = ["Köln", "Roma"].map(|city| (json!("get_weather"), json!({"city": city})));
            assert_eq!(expected_calls(seen), due, "{client:?} {check}");
            let ids = [&seen["calls"][0]["id"], &seen["calls"][1]["id"]];
            assert!(ids[0] != ids[1] && ids.iter().all(|id| id.is_string()), "{client:?} {check}: {ids:?}");
        }
        let dimensions = &seen.of("embeddings")["dimensions"];
        assert!([json!(3), json!([3, 3])].contains(dimensions), "{client:?}: {dimensions}");
    }
    assert_asked_natively(&ollama);
    assert_eq!(ollama.peak(), 1, "capacity 1");
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

/// Passes when the server got requests of its own API: the first are those of the Python client's checks.
fn assert_asked_natively(ollama: &Engine) {
    ollama.look(|log| {
        let requests: Vec<(&str, Value)> =
            log.scripted().map(|request| (request.path.as_str(), request.json())).collect();
        let paths: Vec<&str> = requests.iter().map(|(path, _)| *path).collect();
        let (chat, generate, embed) = ("/api/chat", "/api/generate", "/api/embed");
        let python = [chat, chat, chat, chat, chat, generate, generate, embed, embed];
        let node = [chat, chat, chat, chat, generate, embed];
        assert_eq!(paths, [&python[..], &node].concat());
        assert!(requests.iter().all(|(_, body)| body["model"] == NAME), "{requests:?}");
        let (asked, told) = (&requests[0].1, &requests[1].1);
        assert_eq!(asked["tools"][0]["function"]["name"], "get_weather");
        let result = &told["messages"][2];
        let seen = [&result["role"], &result["content"], &result["tool_name"]];
        assert_eq!(seen, [&json!("tool"), &json!("sunny"), &json!("get_weather")]);
        assert_eq!(told["messages"][1]["tool_calls"][0]["function"]["arguments"], json!({"city": "Köln"}));
        assert_eq!(requests[3].1["options"]["num_predict"], 16, "max_tokens: {}", requests[3].1);
        assert_eq!(requests[7].1["input"], json!(["hello", "world"]));
    });
}

#[tokio::test]
async fn a_schema_and_an_image_reach_an_ollama_server_in_its_own_words() {
    let ollama = Engine::start();
    let plan = scripted(&ollama).edge_value("/nodes/0/providers/0/adapter", json!("ollama"));
    let iop = deploy(plan).await;
    ollama.queue_scripts([chat(&["{\"ok\":", "true}"]), chat(&["a cat"])]);
    let file = write(&iop, "image.txt", "iVBORw0KGgo=");
    let checks = ["json-schema", "vision"];
    let seen = Client::OpenAi.check(iop.http, MODEL, &checks, &["--file", &file]).await;
    assert_eq!(*seen.of("json-schema"), json!("{\"ok\":true}"));
    seen.assert_text(&["vision"], "a cat");
    let (schema, image) = (ollama.request(0).json(), ollama.request(1).json());
    assert_eq!(schema["format"]["properties"], json!({"ok": {"type": "boolean"}}), "{schema}");
    assert_eq!(image["messages"][0]["content"], "what is this?", "{image}");
    assert_eq!(image["messages"][0]["images"], json!(["iVBORw0KGgo="]), "{image}");
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}
