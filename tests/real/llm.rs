//! The `llm` command line, which knows the edge by a file of its own.

use crate::lab::{DEADLINE, MODEL, assert_tunnelled, deploy, llama, required, scripted, wait_for_no_lease};
use crate::llama::Llama;
use crate::shapes;
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script};
use iop_tests::process::Program;
use serde_json::{Value, json};
use std::time::Duration;

/// Runs `llm` on the edge's model and returns what it printed.
async fn llm(iop: &Deployment, model: &str, arguments: &[&str]) -> String {
    let folder = iop.path("llm");
    std::fs::create_dir_all(&folder).expect("the deployment's folder can be written to");
    let entry = json!([{"model_id": "through-iop", "model_name": model, "api_base": format!("http://{}/v1", iop.http),
        "supports_tools": true, "supports_schema": true}]);
    // JSON is YAML.
    std::fs::write(folder.join("extra-openai-models.yaml"), entry.to_string()).expect("written");
    let program = Program::new(required("IOP_TESTS_PYTHON")).named("llm").args(["-m", "llm"]);
    let program = program.env("LLM_USER_PATH", &folder.display().to_string());
    let finished = program.args(["prompt", "-m", "through-iop"]).args(arguments).run(3 * DEADLINE).await;
    finished.expect_success("llm").stdout.join("\n")
}

#[tokio::test]
async fn the_llm_command_is_served_by_the_scripted_engine() {
    let engine = Engine::start();
    let script = Script::stream(8, Duration::from_millis(20));
    engine.set_script(script.clone());
    let iop = deploy(scripted(&engine)).await;
    for streamed in [&["hello"][..], &["--no-stream", "hello"]] {
        let printed = llm(&iop, MODEL, streamed).await;
        assert_eq!(printed.trim(), script.text().trim(), "{streamed:?}");
    }
    // It runs the tool, sends the results, and prints the answer to them.
    engine.queue_scripts([shapes::chat_call_chunks()]);
    let weather = "def get_weather(city: str) -> str:\n    return 'sunny in ' + city";
    let printed = llm(&iop, MODEL, &["--functions", weather, "hello"]).await;
    assert_eq!(printed.trim(), script.text().trim());
    let messages = engine.request(3).json()["messages"].take();
    let results: Vec<Value> = messages.as_array().expect("a list").iter().rev().take(2).cloned().collect();
    assert_eq!(results[1]["content"], "sunny in Köln", "{messages}");
    assert_eq!(results[0]["content"], "sunny in a \"b\"", "{messages}");
    assert_tunnelled(&engine, &iop, 4).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn the_llm_command_is_served_by_llama_cpp() {
    let (text, embedder) = (Llama::start().await, Llama::embedder().await);
    let iop = deploy(llama(&text, &embedder)).await;
    for streamed in [&["hello"][..], &["--no-stream", "hello"]] {
        let printed = llm(&iop, "tiny", &[&["-o", "max_tokens", "16"], streamed].concat()).await;
        assert!(!printed.trim().is_empty(), "{streamed:?}");
    }
    let printed = llm(&iop, "tiny", &["-o", "max_tokens", "100", "--schema", "ok bool", "hello"]).await;
    let answer: Value = serde_json::from_str(&printed).expect("the answer is JSON");
    assert!(answer["ok"].is_boolean(), "{answer}");
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}
