//! `iop demo` with the built-in model: what it prints is true, both names answer, and it leaves nothing behind.

use crate::lab::{DEADLINE, EXIT_LIMIT, Site, assert_failed, curl_arguments, curl_request};
use iop_tests::http::{Call, open, send};
#[cfg(feature = "real")]
use iop_tests::process::Program;
use iop_tests::process::{Process, Signal, ready_values};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// A running demo whose temporary files are in a folder of the test's.
pub(crate) struct Demo {
    pub(crate) process: Process,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    ready: String,
    site: Site,
}

impl Demo {
    pub(crate) async fn start(options: &[&str]) -> Self {
        let site = Site::empty();
        std::fs::create_dir(site.path("tmp")).expect("the folder is empty");
        let args = [&["demo", "--http", ":0", "--admin", ":0", "--quic", ":0"], options].concat();
        let temporary = site.path("tmp").display().to_string();
        let mut process = site.program(&args).env("TMPDIR", &temporary).start();
        let ready = process.wait_for_line("ready ", DEADLINE).await;
        let address = |name: &str| ready_values(&ready)[name].parse().expect("an address");
        let (http, admin) = (address("http"), address("admin"));
        Self { process, http, admin, ready, site }
    }

    /// Files and folders that the demo has among the temporary ones now.
    pub(crate) fn temporary(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.site.path("tmp")).expect("the folder is there");
        entries.map(|entry| entry.expect("the folder can be read").path()).collect()
    }

    pub(crate) async fn snapshot(&self) -> Value {
        send(self.admin, Call::get("/admin/v1/snapshot")).await.expect("the admin listener answers").json()
    }

    pub(crate) async fn stop(mut self, signal: Signal) {
        self.process.signal(signal);
        let status = self.process.wait_for_exit(DEADLINE).await;
        assert_eq!(status.code(), Some(0), "{:#?}", self.process.stderr());
    }

    /// What stands behind this label on standard output.
    fn printed(&self, label: &str) -> String {
        let lines = self.process.stdout();
        let mut found = lines.iter().filter_map(|line| line.strip_prefix(label));
        let value = found.next().map(str::trim).map(str::to_owned);
        assert_eq!(found.next(), None, "one such line: {lines:#?}");
        value.unwrap_or_else(|| panic!("no {label:?} in {lines:#?}"))
    }
}

fn chat(model: &str, stream: bool) -> Call {
    let messages = json!([{"role": "user", "content": "one two three"}]);
    Call::post(
        "/v1/chat/completions",
        &json!({"model": model, "stream": stream, "max_tokens": 4, "messages": messages}),
    )
}

#[tokio::test]
async fn a_demo_prints_its_real_addresses_and_one_ready_line() {
    let demo = Demo::start(&[]).await;
    let values = ready_values(&demo.ready);
    assert_eq!(values.keys().collect::<Vec<_>>(), ["admin", "http", "quic"]);
    let ports: Vec<u16> =
        values.values().map(|text| text.parse::<SocketAddr>().expect("an address").port()).collect();
    assert!(ports.iter().all(|&port| port != 0), "{values:?}");

    let (base, state) = (demo.printed("Base URL for clients:"), demo.printed("State of everything:"));
    assert!(base.starts_with(&format!("http://{}/v1 ", demo.http)), "{base}");
    assert_eq!(state, format!("http://{}/admin/v1/snapshot", demo.admin));
    assert!(demo.printed("Try it:").contains(&format!("http://{}/v1/chat/completions", demo.http)));
    let ready = demo.process.stdout().iter().filter(|line| line.starts_with("ready")).count();
    assert_eq!((ready, demo.process.stdout().len()), (1, 4), "{:#?}", demo.process.stdout());

    let models = send(demo.http, Call::get("/v1/models")).await.expect("the edge answers").json();
    assert_eq!(models["data"][0]["id"], "demo");
    let node = demo.snapshot().await["nodes"][0].take();
    assert_eq!((&node["connected"], &node["providers"][0]["capacity"]), (&json!(true), &json!(2)));
    demo.stop(Signal::INT).await;
}

#[tokio::test]
async fn both_names_of_the_demo_answer_plain_and_streamed() {
    let demo = Demo::start(&[]).await;
    for model in ["demo", "demo-fast"] {
        let answer = send(demo.http, chat(model, false)).await.expect("the edge answers");
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        assert_eq!(body["model"], model);
        assert_eq!(body["choices"][0]["message"]["content"], "one two three one");

        let mut stream = open(demo.http, chat(model, true)).await.expect("the stream begins");
        let (events, end) = stream.events().await;
        end.expect("a clean end");
        let texts: Vec<String> = events.iter().map(|(event, _)| event.text()).collect();
        assert_eq!(texts, ["one", " two", " three", " one", "", ""], "{events:?}");
        assert_eq!(events.last().expect("events").0.data, "[DONE]");
        assert_eq!(events[0].0.json()["model"], model);
    }
    let missing = send(demo.http, chat("demo-slow", false)).await.expect("the edge answers");
    assert_eq!((missing.status.as_u16(), &missing.json()["error"]["code"]), (404, &json!("model_not_found")));
    demo.stop(Signal::INT).await;
}

#[tokio::test]
async fn the_printed_curl_line_is_good_shell_and_the_request_in_it_is_answered() {
    let demo = Demo::start(&[]).await;
    let arguments = curl_arguments(&demo.printed("Try it:")).await;
    let mut stream = open(demo.http, curl_request(&arguments, demo.http)).await.expect("the stream begins");
    assert_eq!(stream.status, 200);
    let (events, end) = stream.events().await;
    end.expect("a clean end");
    let text: String = events.iter().map(|(event, _)| event.text()).collect();
    assert!(text.starts_with("hello from my own machine hello"), "{text}");
    assert_eq!(events.last().expect("events").0.data, "[DONE]");
    demo.stop(Signal::INT).await;
}

#[cfg(feature = "real")]
#[tokio::test]
async fn the_printed_curl_line_works_with_the_real_curl() {
    let demo = Demo::start(&[]).await;
    let line = demo.printed("Try it:");
    let finished = Program::new("/bin/sh").args(["-c", &line]).run(DEADLINE).await;
    let finished = finished.expect_success("curl, which must be installed");
    let events = finished.stdout.iter().filter(|line| line.starts_with("data: ")).count();
    assert!(events > 10, "{finished:#?}");
    assert!(finished.stdout.iter().any(|line| line == "data: [DONE]"), "{finished:#?}");
    demo.stop(Signal::INT).await;
}

/// [provider-state]
#[tokio::test]
async fn two_models_of_a_provider_with_capacity_1_take_turns_and_are_both_answered() {
    let demo = Demo::start(&["--capacity", "1"]).await;
    let call = |model: &'static str| {
        let messages = json!([{"role": "user", "content": "word"}]);
        let call = Call::post("/v1/chat/completions", &json!({"model": model, "messages": messages}));
        let http = demo.http;
        tokio::spawn(async move { send(http, call).await.expect("the edge answers") })
    };
    let begun = Instant::now();
    let calls = [call("demo"), call("demo-fast")];
    let (mut in_flight, mut queued) = (0, 0);
    while !calls.iter().all(tokio::task::JoinHandle::is_finished) {
        let snapshot = demo.snapshot().await;
        let provider = &snapshot["nodes"][0]["providers"][0];
        in_flight = in_flight.max(provider["in_flight"].as_u64().expect("a count"));
        queued = queued.max(snapshot["queue"]["length"].as_u64().expect("a count"));
        assert!(begun.elapsed() < DEADLINE, "the calls do not end: {snapshot:#}");
    }
    assert_eq!((in_flight, queued), (1, 1), "most at one time: running and waiting");
    for call in calls {
        let answer = call.await.expect("the call ended");
        assert_eq!((answer.status.as_u16(), &answer.json()["usage"]["completion_tokens"]), (200, &json!(32)));
    }
    let leases = demo.snapshot().await["leases"].take();
    assert_eq!(leases, json!({"active": 0, "acquired_total": 2, "released_total": 2, "fenced_total": 0}));
    demo.stop(Signal::INT).await;
}

#[tokio::test]
async fn a_demo_that_other_machines_could_call_is_refused_with_both_ways_out() {
    for (option, address, ways) in [
        ("--http", "0.0.0.0:8080", ["--http :8080", "`iop edge` with `auth.keys`"]),
        ("--admin", "[::]:9090", ["--admin :9090", "`iop edge` with `admin.key_env`"]),
    ] {
        let finished = Site::empty().run(&["demo", option, address]).await;
        assert_failed(&finished, 2, &[&[option, address, "not a loopback address"][..], &ways].concat());
        assert_eq!(finished.stderr.len(), 1, "one line says it all: {finished:#?}");
    }
}

#[tokio::test]
async fn a_stopped_demo_is_gone_at_once_with_its_temporary_folder() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut demo = Demo::start(&[]).await;
        assert_eq!(demo.temporary().len(), 1, "certificates are kept in one folder");
        let begun = Instant::now();
        demo.process.signal(signal);
        let status = demo.process.wait_for_exit(DEADLINE).await;
        assert_eq!(status.code(), Some(0), "{:#?}", demo.process.stderr());
        assert!(begun.elapsed() < EXIT_LIMIT, "{signal:?}: {:?}", begun.elapsed());
        assert_eq!(demo.temporary(), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn a_stopped_demo_lets_a_running_answer_end() {
    let mut demo = Demo::start(&[]).await;
    let messages = json!([{"role": "user", "content": "word"}]);
    let body = json!({"model": "demo", "stream": true, "messages": messages});
    let mut stream = open(demo.http, Call::post("/v1/chat/completions", &body)).await.expect("it begins");
    stream.next().await.expect("words flow").expect("the stream goes on");
    demo.process.signal(Signal::INT);
    let (events, end) = stream.events().await;
    end.expect("a clean end");
    assert_eq!(events.last().expect("more words").0.data, "[DONE]", "{events:?}");
    assert_eq!(demo.process.wait_for_exit(DEADLINE).await.code(), Some(0));
}
