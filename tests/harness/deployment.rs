//! A whole deployment out of the built `iop` binary: certificates, files, an edge process and node processes, in a
//! temporary directory. It knows iop as its users do and never looks inside.

mod plan;

pub use plan::Plan;

use crate::http::{Answer, Call, send};
use crate::process::{Process, Program, Signal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for a process of the product to be ready or to end. Generous: the whole suite shares two cores.
pub const PROCESS_DEADLINE: Duration = Duration::from_secs(30);

/// Log level of every process when the test's own environment sets none.
const DEFAULT_LOG: &str = "info";

/// A running edge with its nodes. Dropping it kills them all.
#[derive(Debug)]
pub struct Deployment {
    iop: PathBuf,
    plan: Plan,
    /// The edge's process.
    pub edge: Process,
    /// Where the edge serves clients.
    pub http: SocketAddr,
    /// Where the edge serves operators.
    pub admin: SocketAddr,
    /// Where the edge takes nodes, on loopback.
    pub quic: SocketAddr,
    nodes: BTreeMap<String, Process>,
    directory: TempDir,
}

impl Deployment {
    /// Makes certificates and files, starts the edge, then every node of the plan, and returns when all are ready.
    ///
    /// # Panics
    /// When any step fails; what the processes printed is shown.
    pub async fn start(iop: impl Into<PathBuf>, plan: Plan) -> Self {
        let mut deployment = Self::start_edge(iop, plan).await;
        for node in deployment.plan.node_ids() {
            deployment.start_node(&node).await;
        }
        deployment
    }

    /// As [`Deployment::start`], without the nodes.
    ///
    /// # Panics
    /// As [`Deployment::start`].
    pub async fn start_edge(iop: impl Into<PathBuf>, plan: Plan) -> Self {
        let iop = iop.into();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let here = directory.path();
        run(&iop, here, &["certs", "init", "--dir", "pki"]).await;
        for node in plan.node_ids() {
            run(&iop, here, &["certs", "issue", "--dir", "pki", "--node", &node]).await;
        }
        write(&here.join("edge.yaml"), &plan.edge);
        let edge = program(&iop, here, "edge", &["edge", "--config", "edge.yaml"]);
        let mut edge = plan.edge_env.iter().fold(edge, |edge, (name, value)| edge.env(name, value)).start();
        let ready = edge.wait_for_ready(PROCESS_DEADLINE).await;
        let (http, admin) = (address(&ready, "http"), address(&ready, "admin"));
        let quic = SocketAddr::from(([127, 0, 0, 1], address(&ready, "quic").port()));
        Self { iop, plan, edge, http, admin, quic, nodes: BTreeMap::new(), directory }
    }

    /// Starts a node of the plan and waits until the edge welcomed it. Returns its generation.
    ///
    /// # Panics
    /// When the plan has no such node, or it is not welcomed in time.
    pub async fn start_node(&mut self, node: &str) -> u64 {
        let mut process = self.launch_node(node);
        let ready = process.wait_for_ready(PROCESS_DEADLINE).await;
        assert_eq!(ready.get("node").map(String::as_str), Some(node), "{ready:?}");
        self.nodes.insert(node.to_owned(), process);
        ready
            .get("generation")
            .and_then(|text| text.parse().ok())
            .expect("a node's ready line has its generation")
    }

    /// Starts a node without waiting for anything; the process is the caller's.
    ///
    /// # Panics
    /// When the plan has no such node.
    pub fn launch_node(&self, node: &str) -> Process {
        let file = format!("{node}.yaml");
        write(&self.path(&file), &self.plan.node_config(node, self.quic));
        program(&self.iop, self.directory.path(), node, &["node", "--config", &file]).start()
    }

    /// The process of a node that was started with [`Deployment::start_node`].
    ///
    /// # Panics
    /// When it was not, or was stopped.
    pub fn node(&mut self, node: &str) -> &mut Process {
        self.nodes.get_mut(node).expect("that node was started")
    }

    /// Stops a node with this signal and returns its exit code, `None` where the signal itself ended it.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn stop_node(&mut self, node: &str, signal: Signal) -> Option<i32> {
        let mut process = self.nodes.remove(node).expect("that node was started");
        process.signal(signal);
        process.wait_for_exit(PROCESS_DEADLINE).await.code()
    }

    /// Rewrites the edge's file; the edge looks at it when it is told to refresh.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn rewrite_edge_config(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.plan.edge);
        write(&self.path("edge.yaml"), &self.plan.edge);
    }

    /// The control plane's snapshot.
    ///
    /// # Panics
    /// When the edge does not answer 200.
    pub async fn snapshot(&self) -> Value {
        let answer = self.ask_admin(Call::get("/admin/v1/snapshot")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Asks the admin listener, with the plan's key where it has one.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn ask_admin(&self, call: Call) -> Answer {
        let call = match &self.plan.admin_key {
            Some(key) => call.header("authorization", &format!("Bearer {key}")),
            None => call,
        };
        send(self.admin, call).await.expect("the admin listener answers")
    }

    /// A path inside the deployment's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs another `iop` command in the deployment's directory.
    pub async fn run(&self, args: &[&str]) -> crate::process::Finished {
        program(&self.iop, self.directory.path(), "iop", args).run(PROCESS_DEADLINE).await
    }

    /// Ends nodes, then the edge, with SIGTERM.
    ///
    /// # Panics
    /// When one of them does not end in time with exit code 0.
    pub async fn shut_down(mut self) {
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            assert_eq!(self.stop_node(&node, Signal::TERM).await, Some(0), "exit code of node {node}");
        }
        self.edge.signal(Signal::TERM);
        assert_eq!(self.edge.wait_for_exit(PROCESS_DEADLINE).await.code(), Some(0), "exit code of the edge");
    }
}

fn program(iop: &Path, directory: &Path, name: &str, args: &[&str]) -> Program {
    let log = std::env::var("RUST_LOG").unwrap_or_else(|_| DEFAULT_LOG.to_owned());
    Program::new(iop).named(name).args(args).directory(directory).env("RUST_LOG", &log)
}

async fn run(iop: &Path, directory: &Path, args: &[&str]) {
    program(iop, directory, "iop", args).run(PROCESS_DEADLINE).await.expect_success(&args.join(" "));
}

/// JSON is YAML: what is written here is what the product's own reader of YAML must take.
fn write(path: &Path, config: &Value) {
    let text = format!("{config:#}\n");
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn address(ready: &BTreeMap<String, String>, key: &str) -> SocketAddr {
    match ready.get(key).map(|text| text.parse()) {
        Some(Ok(address)) => address,
        other => panic!("{key} in the ready line should be an address: {other:?} in {ready:?}"),
    }
}
