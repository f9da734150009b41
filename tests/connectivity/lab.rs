//! What the cases share: deployments with short timeouts, an edge that is started again where it was, the counters at
//! rest, and turns on the machine.

use iop_tests::deadline::{wait_until, wait_until_async};
use iop_tests::deployment::{Deployment, PROCESS_DEADLINE, Plan};
use iop_tests::engine::Engine;
use iop_tests::process::{Process, Program, Signal};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The built binary.
pub(crate) const IOP: &str = env!("CARGO_BIN_EXE_iop");

/// Longest wait for what has no bound of its own to show. Generous: the machine may be busy with other things.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The idle timeout of [`quick`] plans: the shortest that there is.
pub(crate) const IDLE: Duration = Duration::from_secs(5);

/// The keep-alive of the nodes of [`quick`] plans.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The reconnect interval of every plan that says nothing else.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// The usual node, provider and model.
pub(crate) const NODE: &str = "gpu-a";
pub(crate) const MODEL: &str = "m";

/// Tests of one program run side by side. Cases that measure milliseconds have the machine to themselves.
static MACHINE: RwLock<()> = RwLock::const_new(());

pub(crate) async fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

pub(crate) async fn among_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

/// One node with one provider of `capacity` at the engine, and one model.
pub(crate) fn usual(engine: &Engine, capacity: u32) -> Plan {
    Plan::new().provider(NODE, "one", &engine.endpoint(), capacity).model(MODEL, &[(NODE, "one")], "up")
}

/// The same plan with the shortest idle timeout and a keep-alive for it.
pub(crate) fn quick(plan: Plan, nodes: &[&str]) -> Plan {
    let plan = plan.edge_value("/quic/idle_timeout_ms", json!(5000));
    nodes.iter().fold(plan, |plan, node| plan.node_value(node, "/keep_alive_ms", json!(1000)))
}

/// Writes the ports that the edge has into its file, so that it can be started again on them.
pub(crate) fn keep_ports(deployment: &mut Deployment) {
    let (http, admin, quic) = (deployment.http, deployment.admin, deployment.quic);
    deployment.rewrite_edge_config(|edge| {
        edge["http"]["listen"] = json!(http.to_string());
        edge["admin"]["listen"] = json!(admin.to_string());
        edge["quic"]["listen"] = json!(format!("[::]:{}", quic.port()));
    });
}

/// Ends the edge with this signal and waits until it is gone.
pub(crate) async fn stop_edge(deployment: &mut Deployment, signal: Signal) {
    deployment.edge.signal(signal);
    deployment.edge.wait_for_exit(PROCESS_DEADLINE).await;
}

/// Starts the edge again after [`keep_ports`] and [`stop_edge`]; returns when it was ready.
pub(crate) async fn start_edge_again(deployment: &mut Deployment) -> Instant {
    // Level debug for what is said of registrations; the rest of it is small.
    let edge = program(deployment, &["edge", "--config", "edge.yaml"]).named("edge");
    deployment.edge = edge.env("RUST_LOG", "info,iop_edge::session=debug").start();
    deployment.edge.wait_for_ready(PROCESS_DEADLINE).await;
    Instant::now()
}

/// Another process in the deployment's folder.
pub(crate) fn program(deployment: &Deployment, args: &[&str]) -> Program {
    Program::new(IOP).args(args).directory(&deployment.path("")).env("RUST_LOG", "info")
}

/// Waits for a node that was launched.
pub(crate) async fn welcomed(node: &mut Process) -> u64 {
    let ready = node.wait_for_ready(PROCESS_DEADLINE).await;
    ready["generation"].parse().expect("a generation is a number")
}

/// Waits until the program has said this so many times, and checks that it has not said it more often.
pub(crate) async fn wait_said(program: &Process, words: &str, count: usize) {
    // What a program writes may come later than what it does.
    let said = wait_until(words, DEADLINE, || {
        let lines = program.stderr();
        let said = lines.iter().filter(|line| line.contains(words)).count();
        if said >= count { Ok(said) } else { Err(lines) }
    });
    assert_eq!(said.await, count, "{words}: {:#?}", program.stderr());
}

/// Waits until the snapshot satisfies a condition, and returns the moment.
pub(crate) async fn wait_snapshot(
    deployment: &Deployment,
    what: &str,
    condition: impl Fn(&Value) -> bool,
) -> Instant {
    wait_until_async(what, DEADLINE, async || {
        let snapshot = deployment.snapshot().await;
        if condition(&snapshot) { Ok(Instant::now()) } else { Err(snapshot) }
    })
    .await
}

pub(crate) async fn wait_queue(deployment: &Deployment, length: usize) -> Instant {
    let what = format!("{length} waiting requests");
    wait_snapshot(deployment, &what, |snapshot| snapshot["queue"]["length"] == length).await
}

/// The node's part of a snapshot.
pub(crate) fn node_of<'a>(snapshot: &'a Value, node: &str) -> &'a Value {
    let nodes = snapshot["nodes"].as_array().expect("nodes are a list");
    nodes.iter().find(|entry| entry["id"] == node).expect("a configured node is always in the snapshot")
}

/// Waits until no lease is out, nothing waits and every counter is 0, and checks that the sums are right.
pub(crate) async fn wait_at_rest(deployment: &Deployment) {
    wait_snapshot(deployment, "every counter at 0", |snapshot| {
        let leases = &snapshot["leases"];
        let sum = |name: &str| leases[name].as_u64().expect("a lease count is a number");
        assert_eq!(
            sum("acquired_total"),
            sum("released_total") + sum("fenced_total") + sum("active"),
            "{leases}"
        );
        let nodes = snapshot["nodes"].as_array().expect("nodes are a list");
        let providers = nodes.iter().flat_map(|node| node["providers"].as_array().expect("a list"));
        let mut counters = providers
            .flat_map(|it| ["in_flight", "long_in_flight", "queued", "long_queued"].map(|key| &it[key]));
        sum("active") == 0 && snapshot["queue"]["length"] == 0 && counters.all(|counter| counter == 0)
    })
    .await;
}

/// Bounds of pure computation are the product's, which is built optimized. An unoptimized build keeps them too where
/// nothing else runs (README.md); it gets more time so that a busy machine fails nobody.
pub(crate) const SLOWNESS: u32 = if cfg!(debug_assertions) { 5 } else { 1 };

/// Prints a figure for README.md. Shown with `--nocapture`.
pub(crate) fn figure(what: &str, durations: impl IntoIterator<Item = Duration>) -> Duration {
    let mut sorted: Vec<Duration> = durations.into_iter().collect();
    assert!(!sorted.is_empty(), "{what}: nothing was measured");
    sorted.sort();
    let (median, most) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    println!("measured: {what}: median {median:.2?}, most {most:.2?}, of {}", sorted.len());
    median
}
