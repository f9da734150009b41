//! iop between the official OpenAI client and inference servers, real ones included.
//! Built only with the feature `real`, since it needs what tests/run installs; a missing piece is a failure.

use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::{Deployment, PROCESS_DEADLINE, Plan};
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, open, send};
use iop_tests::process::{Finished, Process, Program};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Longest run of one client script; its single calls have 60 s.
const CLIENT_DEADLINE: Duration = Duration::from_secs(120);
/// Time in which a cancelled stream must have freed its slot of the server. It takes milliseconds.
const CANCEL_DEADLINE: Duration = Duration::from_secs(5);
/// Tokens nobody waits for: the tiny model takes minutes for them.
const ENDLESS_TOKENS: u32 = 30_000;

fn required(name: &str) -> String {
    match std::env::var(name) {
        Ok(value) => value,
        Err(_) => panic!("{name} is not set: run these tests with tests/run, which installs what they need"),
    }
}

fn python(script: &str) -> Program {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    Program::new(required("IOP_TESTS_PYTHON")).named("python").args([script])
}

async fn iop(plan: Plan) -> Deployment {
    Deployment::start(env!("CARGO_BIN_EXE_iop"), plan).await
}

/// The official client's checks against the edge, and the lines it printed.
async fn openai_client(edge: SocketAddr, model: &str, options: &[&str]) -> Finished {
    let client = python("clients/openai_client.py").args([format!("http://{edge}/v1").as_str(), model]);
    let finished = client.args(options).run(CLIENT_DEADLINE).await;
    finished.expect_success("the OpenAI client")
}

/// A llama.cpp server with the tiny model.
struct Llama {
    address: SocketAddr,
    _process: Process,
}

impl Llama {
    async fn start(options: &[&str]) -> Self {
        let model = required("IOP_TESTS_MODEL");
        let mut process =
            python("engines/llama_server.py").named("llama").args([model.as_str()]).args(options).start();
        let ready = process.wait_for_ready(PROCESS_DEADLINE).await;
        let address = ready["http"].parse().expect("the server's ready line has its address");
        Self { address, _process: process }
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Slots of the server at work now.
    async fn busy_slots(&self) -> usize {
        let slots = send(self.address, Call::get("/slots")).await.expect("the server answers").json();
        let slots = slots.as_array().expect("slots are a list");
        assert_eq!(slots.len(), 2, "the server has two slots");
        slots.iter().filter(|slot| slot["is_processing"] == Value::Bool(true)).count()
    }

    async fn wait_for_busy_slots(&self, count: usize, deadline: Duration) {
        wait_until_async(&format!("{count} busy slots of the server"), deadline, async || {
            let busy = self.busy_slots().await;
            if busy == count { Ok(()) } else { Err(busy) }
        })
        .await;
    }
}

async fn wait_for_no_lease(iop: &Deployment) {
    wait_until_async("every lease returned", CANCEL_DEADLINE, async || {
        let leases = iop.snapshot().await["leases"].take();
        if leases["active"] == 0 { Ok(()) } else { Err(leases) }
    })
    .await;
}

/// The control: what the client is content with here is what iop must not spoil.
#[tokio::test]
async fn the_official_client_takes_the_scripted_engine_for_a_real_server() {
    let engine = Engine::start();
    let script = Script::stream(4, Duration::from_millis(50));
    engine.set_script(script.clone());
    let checks = "models,chat,stream,completion,completion-stream,embeddings";
    let text = script.text();
    let options =
        ["--checks", checks, "--expect", text.as_str(), "--min-chunks", "4", "--min-spread-ms", "75"];
    let finished = openai_client(engine.address(), "scripted", &options).await;
    assert_eq!(finished.stdout.len(), 6, "{finished:?}");
}

#[tokio::test]
async fn the_official_client_is_served_by_a_scripted_engine_through_edge_and_node() {
    let engine = Engine::start();
    let script = Script::stream(8, Duration::from_millis(50));
    engine.set_script(script.clone());
    let plan = Plan::new().provider("gpu-a", "engine", &engine.endpoint(), 1).model(
        "ornith:35b",
        &[("gpu-a", "engine")],
        "scripted",
    );
    let iop = iop(plan).await;

    // Seven gaps of 50 ms: half of that is far more than a buffered answer would show.
    let text = script.text();
    let options = ["--expect", text.as_str(), "--min-chunks", "8", "--min-spread-ms", "175"];
    let finished = openai_client(iop.http, "ornith:35b", &options).await;
    assert_eq!(finished.stdout.iter().filter(|line| line.starts_with("ok ")).count(), 7, "{finished:?}");

    let paths: Vec<String> = engine.look(|log| log.scripted().map(|request| request.path.clone()).collect());
    let (chat, completions) = ("/v1/chat/completions", "/v1/completions");
    assert_eq!(paths, [chat, chat, completions, completions, "/v1/embeddings"]);
    engine.look(|log| {
        for request in log.scripted() {
            assert_eq!(request.json()["model"], "scripted", "the upstream model's name: {request:?}");
            assert_eq!(
                request.header("authorization"),
                "",
                "the client's key stays at the edge: {request:?}"
            );
        }
    });
    assert_eq!((engine.peak(), engine.in_progress()), (1, 0));
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn the_official_client_is_served_by_llama_cpp_through_edge_and_node() {
    let llama = Llama::start(&[]).await;
    let embedder = Llama::start(&["--embeddings"]).await;
    let plan = Plan::new()
        .provider("gpu-a", "llama", &llama.endpoint(), 2)
        .provider("gpu-a", "embedder", &embedder.endpoint(), 2)
        .model("tiny", &[("gpu-a", "llama")], "tiny")
        .model("tiny-embedding", &[("gpu-a", "embedder")], "tiny");
    let iop = iop(plan).await;

    let options = ["--tokens", "32", "--ignore-eos", "--embeddings-model", "tiny-embedding"];
    let finished = openai_client(iop.http, "tiny", &options).await;
    assert_eq!(finished.stdout.iter().filter(|line| line.starts_with("ok ")).count(), 7, "{finished:?}");

    llama.wait_for_busy_slots(0, CANCEL_DEADLINE).await;
    embedder.wait_for_busy_slots(0, CANCEL_DEADLINE).await;
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_cancelled_stream_frees_its_slot_of_llama_cpp() {
    let llama = Llama::start(&["--context", "32768"]).await;
    let plan = Plan::new().provider("gpu-a", "llama", &llama.endpoint(), 2);
    let iop = iop(plan.model("tiny", &[("gpu-a", "llama")], "tiny")).await;

    let body = json!({"model": "tiny", "stream": true, "ignore_eos": true, "max_tokens": ENDLESS_TOKENS,
        "messages": [{"role": "user", "content": "hello"}]});
    let call = Call::post("/v1/chat/completions", &body);
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = open(iop.http, call.clone()).await.expect("the stream begins");
        assert_eq!(stream.status, 200);
        stream.next().await.expect("tokens flow").expect("the stream goes on");
        streams.push(stream);
    }
    llama.wait_for_busy_slots(2, CANCEL_DEADLINE).await;
    let third = tokio::spawn(open(iop.http, call));
    wait_until_async("the third request queued", CANCEL_DEADLINE, async || {
        let length = iop.snapshot().await["queue"]["length"].take();
        if length == 1 { Ok(()) } else { Err(length) }
    })
    .await;

    streams.pop();
    let mut third = third.await.expect("the call ended").expect("the third stream begins in the freed slot");
    third.next().await.expect("tokens flow").expect("the stream goes on");
    llama.wait_for_busy_slots(2, CANCEL_DEADLINE).await;
    drop((streams, third));
    llama.wait_for_busy_slots(0, CANCEL_DEADLINE).await;
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}
