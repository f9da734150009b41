//! An edge process with an honest node under load, and what is true of both when an attack is over.

use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::{Engine, Reply, Script};
use iop_tests::http::{Call, EventParser, open, send};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The built binary.
pub(crate) const IOP: &str = env!("CARGO_BIN_EXE_iop");

/// Longest wait for what has no bound of its own to show. Generous: the machine may be busy with other things.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The honest node and its model.
pub(crate) const HONEST: &str = "honest";
pub(crate) const GOOD: &str = "good";

/// The hostile node, its tunnel provider and model, and its provider and model of normalized runs.
pub(crate) const HOSTILE: &str = "hostile";
pub(crate) const BAD: &str = "bad";
pub(crate) const WORSE: &str = "worse";

/// Slots of each of the hostile node's providers.
pub(crate) const SLOTS: u32 = 40;

/// What an attack may make a process larger by, in KiB. An allocator keeps what a burst once took; what an attack could
/// make the edge hold without a bound would be many times that.
pub(crate) const GROWTH_KIB: u64 = 64 * 1024;

/// Warnings that an attack may write into the edge's log.
pub(crate) const WARNINGS: usize = 60;

/// Requests that the honest node serves at least, also when an attack is over at once.
const SERVED: usize = 20;

/// A running site.
pub(crate) struct Site {
    pub(crate) deployment: Deployment,
    honest: Option<JoinHandle<Result<usize, String>>>,
    stop: tokio::sync::watch::Sender<bool>,
    memory_kib: u64,
    /// Its connections are closed when this is dropped.
    _engine: Engine,
}

impl Site {
    /// Starts the edge and the honest node, and begins to ask the honest node one thing after another.
    pub(crate) async fn start() -> Self {
        let engine = Engine::start();
        let mut script = Script::answer();
        script.reply = Reply::OpenAi { chunks: 20, chunk_bytes: 200 };
        engine.set_script(script.clone());
        let mut plan = Plan::new()
            .provider(HONEST, "one", &engine.endpoint(), 4)
            .provider(HOSTILE, "one", "http://127.0.0.1:9", SLOTS)
            .provider(HOSTILE, "two", "", SLOTS)
            .model(GOOD, &[(HONEST, "one")], "good-upstream")
            .model(BAD, &[(HOSTILE, "one")], "bad-upstream")
            .model(WORSE, &[(HOSTILE, "two")], "echo");
        plan.edge["nodes"][1]["providers"][1] = json!({"id": "two", "adapter": "echo", "capacity": SLOTS});
        let mut deployment = Deployment::start_edge(IOP, plan).await;
        deployment.start_node(HONEST).await;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let honest = tokio::spawn(honest_client(deployment.http, script.text(), stopped));
        let memory_kib = memory_kib(deployment.edge.id());
        Self { deployment, honest: Some(honest), stop, memory_kib, _engine: engine }
    }

    /// What must be true after every attack: the honest node served all the while, nothing is held, nothing failed, and the
    /// edge is hardly larger and has not said too much.
    pub(crate) async fn assert_unharmed(mut self) {
        self.stop.send_replace(true);
        let honest = self.honest.take().expect("it was started");
        let served = honest.await.expect("the honest client ends").expect("the honest node served rightly");
        self.wait_for_rest().await;
        let grown = memory_kib(self.deployment.edge.id()).saturating_sub(self.memory_kib);
        println!("measured: edge grown by {grown} KiB, {served} honest requests meanwhile");
        assert!(grown <= GROWTH_KIB, "the edge has grown by {grown} KiB");
        let lines = self.deployment.edge.stderr();
        // A request has a line of its own, whoever answers it.
        let said = lines.iter().filter(|line| !line.contains(" INFO ")).count();
        assert!(said <= WARNINGS, "{said} warnings in the edge's log");
        assert_clean(&lines);
        assert_clean(&self.deployment.node(HONEST).stderr());
        self.deployment.shut_down().await;
    }

    /// Waits until no lease is out and every counter is 0.
    pub(crate) async fn wait_for_rest(&self) {
        wait_until_async("every counter at 0", DEADLINE, async || {
            let snapshot = self.deployment.snapshot().await;
            let leases = &snapshot["leases"];
            let sum = |name: &str| leases[name].as_u64().expect("a lease count is a number");
            assert_eq!(
                sum("acquired_total"),
                sum("released_total") + sum("fenced_total") + sum("active"),
                "{leases}"
            );
            let nodes = snapshot["nodes"].as_array().expect("nodes are a list");
            let mut providers = nodes.iter().flat_map(|node| node["providers"].as_array().expect("a list"));
            let idle = providers.all(|it| it["in_flight"] == 0 && it["queued"] == 0);
            if idle && sum("active") == 0 && snapshot["queue"]["length"] == 0 {
                Ok(())
            } else {
                Err(snapshot)
            }
        })
        .await;
    }

    /// Changes the edge's file and refreshes the edge.
    pub(crate) async fn refresh(&mut self, change: impl FnOnce(&mut Value)) {
        self.deployment.rewrite_edge_config(change);
        let refresh = Call::post("/admin/v1/refresh", &json!({}));
        let answer = send(self.deployment.admin, refresh).await.expect("the admin listener answers");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// The node's part of the snapshot.
    pub(crate) async fn node(&self, node: &str) -> Value {
        let snapshot = self.deployment.snapshot().await;
        let nodes = snapshot["nodes"].as_array().expect("nodes are a list");
        nodes.iter().find(|entry| entry["id"] == node).expect("a configured node").clone()
    }
}

/// Nothing panicked, and no line carries what a terminal would obey.
pub(crate) fn assert_clean(lines: &[String]) {
    for line in lines {
        assert!(!line.contains("panicked") && !line.contains("RUST_BACKTRACE"), "{line}");
        assert!(!line.chars().any(|it| it.is_control()), "{line:?}");
        assert!(!line.starts_with("forged"), "a peer wrote a line of its own: {line}");
    }
}

/// Memory of a process, in KiB.
pub(crate) fn memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number of KiB")
}

/// Asks the honest node one thing after another, and says how often, or what was wrong.
async fn honest_client(
    edge: SocketAddr,
    text: String,
    stop: tokio::sync::watch::Receiver<bool>,
) -> Result<usize, String> {
    let mut served = 0;
    while !*stop.borrow() || served < SERVED {
        let stream = served % 2 == 0;
        let got = if stream {
            let mut answer =
                open(edge, Call::chat(GOOD, true)).await.map_err(|error| format!("{error:#}"))?;
            let (pieces, end) = answer.rest().await;
            end.map_err(|error| format!("{error:#}"))?;
            let mut parser = EventParser::default();
            let events = pieces.iter().flat_map(|piece| parser.push(&piece.bytes)).collect::<Vec<_>>();
            if events.last().is_none_or(|event| event.data != "[DONE]") {
                return Err(format!("request {served} ended without [DONE]: {events:?}"));
            }
            events.iter().map(|event| event.text()).collect()
        } else {
            let answer = send(edge, Call::chat(GOOD, false)).await.map_err(|error| format!("{error:#}"))?;
            let body = answer.json();
            body["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
        };
        if got != text {
            return Err(format!("request {served} got other bytes: {got}"));
        }
        served += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(served)
}
