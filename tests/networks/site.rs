//! A deployment across the namespaces: edge and clients on one side, node and engine on the other. And what must hold at
//! the end of every case, whatever the network did.

use crate::load::{Load, Tally, prompt, script};
use crate::namespaces::{Network, PORT, Side};
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::Engine;
use iop_tests::process::Process;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longest wait for what has no bound of its own to show.
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);

/// The idle timeout of every case: the shortest that there is.
pub(crate) const IDLE: Duration = Duration::from_secs(5);

pub(crate) const GPU: &str = "gpu-a";
pub(crate) const MODEL: &str = "m";
pub(crate) const IOP: &str = env!("CARGO_BIN_EXE_iop");

/// Runs the provider has at once, and clients that ask: half of them wait.
const CAPACITY: u32 = 2;
const CLIENTS: usize = 4;

/// Bytes of one piece of an answer: many packets.
const PIECE_BYTES: usize = 16 << 10;

/// An edge that runs, and an engine in the node's namespace.
pub(crate) struct Site<'a> {
    pub(crate) network: &'a Network,
    pub(crate) deployment: Deployment,
    pub(crate) engine: Engine,
    piece_bytes: usize,
}

/// Runs a case in namespaces of its own, on a thread in the edge's.
pub(crate) fn in_namespaces(case: impl AsyncFnOnce(&Network) + Send) {
    let network = Network::new();
    network.within(Side::Edge, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(case(&network));
    });
}

/// A figure for README.md. Shown with `--nocapture`.
pub(crate) fn figure(what: &str, time: Duration) {
    println!("measured: {what}: {time:.2?}");
}

impl<'a> Site<'a> {
    /// Starts engine and edge. The nodes dial `host`.
    pub(crate) async fn start(
        network: &'a Network,
        host: &str,
        more: impl FnOnce(Plan, &Engine) -> Plan,
    ) -> Self {
        let engine = network.within(Side::Node, Engine::start);
        engine.set_script(script(PIECE_BYTES));
        let plan = Plan::new()
            .provider(GPU, "one", &engine.endpoint(), CAPACITY)
            .model(MODEL, &[(GPU, "one")], "up")
            .edge_value("/quic", json!({"listen": format!("0.0.0.0:{PORT}"), "idle_timeout_ms": 5000}))
            .node_value(GPU, "/keep_alive_ms", json!(1000))
            .node_value(GPU, "/edge/addresses", json!([format!("{host}:{PORT}")]));
        let deployment = Deployment::start_edge(IOP, more(plan, &engine)).await;
        Self { network, deployment, engine, piece_bytes: PIECE_BYTES }
    }

    /// The same with smaller answers, for a network that carries little.
    pub(crate) fn with_pieces_of(mut self, bytes: usize) -> Self {
        self.piece_bytes = bytes;
        self.engine.set_script(script(bytes));
        self
    }

    /// Sets clients to work.
    pub(crate) fn load(&self) -> Load {
        Load::start(self.deployment.http, CLIENTS, self.piece_bytes)
    }

    /// Starts a node's process in the node's namespace.
    pub(crate) fn launch(&self, node: &str) -> Process {
        self.network.within(Side::Node, || self.deployment.launch_node(node))
    }

    /// Starts the node, waits for its Welcome, and sets the clients to work.
    pub(crate) async fn under_load(&self) -> (Process, Load) {
        let mut node = self.launch(GPU);
        node.wait_for_ready(DEADLINE).await;
        let load = self.load();
        load.wait_complete(2).await;
        (node, load)
    }

    /// The node's part of the snapshot.
    pub(crate) async fn node(&self) -> Value {
        let snapshot = self.deployment.snapshot().await;
        snapshot["nodes"][0].clone()
    }

    /// Waits until the node's part of the snapshot satisfies the condition, and returns the moment.
    pub(crate) async fn wait_node(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Instant {
        wait_until_async(what, DEADLINE, async || {
            let node = self.node().await;
            if condition(&node) { Ok(Instant::now()) } else { Err(node) }
        })
        .await
    }

    /// Ends the load and checks what always holds: every byte was right, no lease is left, every counter is 0, and no slot
    /// was ever used twice.
    pub(crate) async fn finish(self, load: Load) -> Tally {
        let tally = load.finish().await;
        wait_until_async("every counter at 0", DEADLINE, async || {
            let snapshot = self.deployment.snapshot().await;
            let leases = &snapshot["leases"];
            let count = |name: &str| leases[name].as_u64().expect("a lease count is a number");
            assert_eq!(
                count("acquired_total"),
                count("released_total") + count("fenced_total") + count("active"),
                "{leases}"
            );
            let provider = &snapshot["nodes"][0]["providers"][0];
            let counters = [
                &leases["active"],
                &snapshot["queue"]["length"],
                &provider["in_flight"],
                &provider["queued"],
            ];
            if counters.iter().all(|counter| **counter == 0) { Ok(()) } else { Err(snapshot) }
        })
        .await;
        self.engine.wait_idle(DEADLINE).await;
        let (mut whole, sent) = (0, prompt(self.piece_bytes));
        self.engine.look(|log| {
            for request in log.scripted().filter(|request| request.body_complete) {
                assert_eq!(request.json()["messages"][0]["content"], sent, "a wrong byte at the engine");
                whole += 1;
            }
        });
        assert!(whole >= tally.complete, "{whole} requests at the engine, {tally:?}");
        let peak = self.engine.peak();
        assert!(peak <= CAPACITY as usize, "{peak} requests at once");
        assert!(tally.complete > 0, "{tally:?}");
        println!("measured: {tally:?}, peak {peak}");
        tally
    }
}
