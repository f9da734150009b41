//! `iop status` of running edges: what it shows is what the snapshot says, and `--watch` ends by Ctrl-C alone.

use crate::lab::{DEADLINE, EXIT_LIMIT, IOP, Site, assert_failed, assert_says, deploy, plan, wait_for_log};
use iop_tests::deadline::wait_until;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, send};
use iop_tests::process::{Finished, Process, Signal};
use serde_json::Value;
use std::time::Instant;

/// Two nodes, of which the test starts only `gpu-a`, and a model of each.
fn two_nodes(engine: &Engine) -> Plan {
    plan(engine, 1)
        .provider("gpu-a", "elsewhere", "http://192.0.2.1:8000", 1)
        .provider("gpu-b", "second", &engine.endpoint(), 2)
        .model("lonely", &[("gpu-b", "second")], "up")
}

async fn status(iop: &Deployment, options: &[&str]) -> Finished {
    let admin = format!("http://{}", iop.admin);
    let args = [&["status", "--admin", &admin], options].concat();
    let finished = iop.run(&args).await.expect_success("status");
    assert_eq!(finished.stderr, Vec::<String>::new());
    finished
}

fn watch(site: &Site, admin: &str, options: &[&str]) -> Process {
    site.start(&[&["status", "--watch", "--admin", admin], options].concat())
}

async fn assert_ends_by_ctrl_c(mut process: Process) {
    let begun = Instant::now();
    process.signal(Signal::INT);
    let status = process.wait_for_exit(DEADLINE).await;
    assert_eq!(status.code(), Some(0), "{:#?}", process.stderr());
    assert!(begun.elapsed() < EXIT_LIMIT, "{:?}", begun.elapsed());
}

/// The words of the line that begins with these.
fn words<'a>(lines: &'a [String], begin: &[&str]) -> Vec<&'a str> {
    let words = |line: &'a String| line.split_whitespace().collect::<Vec<_>>();
    let found = lines.iter().map(words).find(|words| words.starts_with(begin));
    found.unwrap_or_else(|| panic!("no line begins with {begin:?}: {lines:#?}"))
}

// [offline-snapshot] [snapshot-source]
#[tokio::test]
async fn a_running_and_a_waiting_request_an_offline_node_and_a_refused_provider_are_shown() {
    let engine = Engine::start();
    engine.set_script(Script::answer().held());
    let mut iop = Deployment::start_edge(IOP, two_nodes(&engine)).await;
    iop.start_node("gpu-a").await;
    let calls: Vec<_> =
        (0..2).map(|_| tokio::spawn(send(iop.http, Call::chat("ornith:35b", false)))).collect();
    engine.wait_held(1, DEADLINE).await;
    iop_tests::deadline::wait_until_async("one to wait", DEADLINE, async || {
        let snapshot = iop.snapshot().await;
        if snapshot["queue"]["length"] == 1 { Ok(()) } else { Err(snapshot) }
    })
    .await;

    let lines = status(&iop, &[]).await.stdout;
    assert_eq!(words(&lines, &["edge"])[1], format!("{},", iop.admin));
    assert_eq!(words(&lines, &["queue"])[1..6], ["1", "of", "256", "waiting,", "the"]);
    assert_eq!(words(&lines, &["leases"])[1..3], ["1", "active;"]);
    assert_eq!(words(&lines, &["models"])[1..], ["1", "of", "2", "available"]);
    assert_eq!(words(&lines, &["nodes"])[1..], ["1", "of", "2", "connected"]);
    assert_eq!(words(&lines, &["config"])[1..], ["revision", "1,", "edge.yaml"]);
    let node = iop.snapshot().await["nodes"][0].take();
    let address = format!(", {}, rtt ", node["address"].as_str().expect("an address"));
    assert_says(&lines, &["gpu-a ", " connected ", &address, node["software"].as_str().expect("a name")]);
    assert_eq!(words(&lines, &["engine"])[1..], ["available", "1", "of", "1", "-", "1"]);
    assert_eq!(words(&lines, &["elsewhere"])[1..], ["refused", "-", "-", "0"]);
    assert_says(&lines, &["http://192.0.2.1:8000"]);
    assert_eq!(words(&lines, &["gpu-b"]), ["gpu-b", "offline"]);
    assert_eq!(words(&lines, &["second"]), ["second", "offline", "-", "-", "0"]);
    assert_eq!(words(&lines, &["lonely"]), ["lonely", "gpu-b/second", "is", "offline"]);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");

    engine.set_script(Script::answer());
    engine.release_all();
    for call in calls {
        assert_eq!(call.await.expect("it does not panic").expect("an answer").status, 200);
    }
    iop.shut_down().await;
}

#[tokio::test]
async fn json_is_the_snapshot_itself_in_one_line() {
    let engine = Engine::start();
    let mut iop = Deployment::start_edge(IOP, two_nodes(&engine)).await;
    iop.start_node("gpu-a").await;
    let lines = status(&iop, &["--json"]).await.stdout;
    let [line] = lines.as_slice() else { panic!("one line: {lines:#?}") };
    let mut shown: Value = serde_json::from_str(line).expect("JSON");
    let mut snapshot = iop.snapshot().await;
    for snapshot in [&mut shown, &mut snapshot] {
        // It moves with every packet.
        assert!(snapshot["nodes"][0]["rtt_ms"].take().is_number(), "{snapshot:#}");
    }
    assert_eq!(shown, snapshot);
    iop.shut_down().await;
}

#[tokio::test]
async fn an_error_of_the_configuration_stands_below_its_file() {
    let engine = Engine::start();
    let mut iop = deploy(plan(&engine, 1)).await;
    iop.rewrite_edge_config(|config| config["provider_pool"]["max_queue"] = (-1).into());
    let refresh = send(iop.admin, Call::new("POST".parse().expect("a method"), "/admin/v1/refresh")).await;
    assert_eq!(refresh.expect("an answer").status, 422);
    let lines = status(&iop, &[]).await.stdout;
    assert_says(&lines, &["NOT IN FORCE"]);
    assert_says(&lines, &["provider_pool.max_queue: found `-1`, expected"]);
    iop.shut_down().await;
}

#[tokio::test]
async fn a_key_is_sent_from_the_variable_that_is_named_and_its_lack_says_what_to_do() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1).admin_key("operators-key-1")).await;
    let admin = iop.admin.to_string();
    let site = Site::empty();
    let ask = async |key: &str, options: &[&str]| {
        let program = site.program(&[&["status", "--admin", &admin], options].concat());
        program.env("STATUS_TEST_KEY", key).run(DEADLINE).await
    };
    let with_key = ["--key-env", "STATUS_TEST_KEY"];
    let shown = ask("operators-key-1", &with_key).await.expect_success("status with the key");
    assert_says(&shown.stdout, &["gpu-a", "connected"]);
    assert_failed(&ask("", &[]).await, 1, &[&admin, "asks for a key", "--key-env NAME"]);
    let wrong = ask("operators-key-2", &with_key).await;
    assert_failed(&wrong, 1, &[&admin, "refuses the key in `STATUS_TEST_KEY`", "admin.key_env"]);
    assert!(!wrong.stderr.concat().contains("operators-key"), "{wrong:#?}");
    iop.shut_down().await;
}

#[tokio::test]
async fn a_watch_prints_every_reading_says_once_that_the_edge_is_gone_and_sees_it_again() {
    let site = Site::new().await;
    site.write_edge();
    let mut edge = site.start(&["edge", "--config", "edge.yaml"]);
    let ready = edge.wait_for_ready(DEADLINE).await;
    let (http, admin, quic) = (&ready["http"], &ready["admin"], &ready["quic"]);
    let readings = |process: &Process, begin: &str| {
        process.stdout().iter().filter(|line| line.starts_with(begin)).count()
    };
    let more = async |process: &Process, begin: &str| {
        let before = readings(process, begin);
        wait_until("two more readings", DEADLINE, || {
            let now = readings(process, begin);
            if now >= before + 2 { Ok(()) } else { Err(process.stdout()) }
        })
        .await;
    };
    let pages = watch(&site, admin, &[]);
    let lines = watch(&site, admin, &["--json"]);
    more(&pages, "queue ").await;
    more(&lines, "{\"revision\":").await;
    edge.signal(Signal::TERM);
    edge.wait_for_exit(DEADLINE).await;
    for process in [&pages, &lines] {
        wait_for_log(process, &["iop:", admin, "nothing listens", "looking again"], DEADLINE).await;
    }
    site.write_edge_at(http, admin, quic);
    let mut edge = site.start(&["edge", "--config", "edge.yaml"]);
    edge.wait_for_ready(DEADLINE).await;
    more(&pages, "queue ").await;
    more(&lines, "{\"revision\":").await;
    assert!(lines.stdout().iter().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    let said = pages.stderr().iter().filter(|line| line.contains("looking again")).count();
    assert!(said < 3, "not at every look: {:#?}", pages.stderr());
    assert!(pages.stdout().iter().all(|line| !line.contains('\u{1b}')), "no terminal, no escapes");
    assert_ends_by_ctrl_c(pages).await;
    assert_ends_by_ctrl_c(lines).await;
}
