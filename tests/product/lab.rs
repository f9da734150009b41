//! What the tests of this program share: a folder with certificates, the built binary in it, and the usual deployment.

use iop_tests::deadline::wait_until;
use iop_tests::deployment::{Deployment, PROCESS_DEADLINE, Plan};
use iop_tests::engine::Engine;
use iop_tests::http::Call;
use iop_tests::process::{Finished, Process, Program};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The built binary.
pub(crate) const IOP: &str = env!("CARGO_BIN_EXE_iop");

/// Longest wait for anything that takes milliseconds. Generous: the whole suite shares two cores.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A process with nothing to finish ends within this.
pub(crate) const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// A folder with a deployment's certificates and files, and nothing running.
pub(crate) struct Site {
    folder: TempDir,
}

impl Site {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A folder with an authority, an edge's certificate and one for the node `gpu-a`.
    pub(crate) async fn new() -> Self {
        let site = Self::empty();
        for args in
            [&["certs", "init", "--dir", "pki"][..], &["certs", "issue", "--dir", "pki", "--node", "gpu-a"]]
        {
            site.run(args).await.expect_success(&args.join(" "));
        }
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the temporary folder can be written to");
    }

    /// An edge's file that takes free ports of loopback and has one node with one provider.
    pub(crate) fn write_edge(&self) {
        self.write_edge_at("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0");
    }

    pub(crate) fn write_edge_at(&self, http: &str, admin: &str, quic: &str) {
        self.write(
            "edge.yaml",
            &format!(
                "http: {{ listen: \"{http}\" }}\nadmin: {{ listen: \"{admin}\" }}\nquic: {{ listen: \"{quic}\" }}\n\
                 certs: {{ dir: pki }}\nnodes:\n  - id: gpu-a\n    providers: [ {{ id: echo, adapter: echo, capacity: 1 }} ]\n\
                 models: [ {{ id: m, candidates: [ {{ node: gpu-a, provider: echo }} ] }} ]\n"
            ),
        );
    }

    pub(crate) fn write_node(&self, edge: &str, bundle: &str) {
        self.write(
            "node.yaml",
            &format!(
                "edge: {{ addresses: [\"{edge}\"] }}\ncerts: {{ bundle: {bundle} }}\n\
                 reconnect: {{ max_attempts: 2, interval_sec: 0 }}\n"
            ),
        );
    }

    pub(crate) fn program(&self, args: &[&str]) -> Program {
        program(self.folder.path(), args)
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Finished {
        self.program(args).run(PROCESS_DEADLINE).await
    }

    pub(crate) fn start(&self, args: &[&str]) -> Process {
        self.program(args).start()
    }
}

fn program(folder: &Path, args: &[&str]) -> Program {
    let name = args.iter().take(1).copied().collect::<String>();
    Program::new(IOP).named(&name).args(args).directory(folder).env("RUST_LOG", "info")
}

/// The arguments that a `curl` in this line of shell gets. A function stands in for the program: a machine with only Rust
/// may not have it.
pub(crate) async fn curl_arguments(line: &str) -> Vec<String> {
    let script = format!("curl() {{ printf '%s\\n' \"$@\"; }}; {line}");
    let shell = Program::new("/bin/sh").args(["-c", &script]);
    shell.run(DEADLINE).await.expect_success("the shell").stdout
}

/// The request that `curl -N URL -d BODY` makes at this address.
pub(crate) fn curl_request(arguments: &[String], address: SocketAddr) -> Call {
    let [flag, url, data, body] = arguments else { panic!("four arguments: {arguments:?}") };
    assert_eq!((flag.as_str(), data.as_str()), ("-N", "-d"));
    let path = url.strip_prefix(&format!("http://{address}")).expect("the edge's own address");
    let call = Call::post(path, &serde_json::from_str(body).expect("JSON"));
    // What curl says of a body that is given with -d.
    let form = vec![("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
    Call { headers: form, ..call }
}

/// One edge and one node in front of the engine: model `ornith:35b`, which the engine knows as `upstream-model`.
pub(crate) fn plan(engine: &Engine, capacity: u32) -> Plan {
    Plan::new().provider("gpu-a", "engine", &engine.endpoint(), capacity).model(
        "ornith:35b",
        &[("gpu-a", "engine")],
        "upstream-model",
    )
}

pub(crate) async fn deploy(plan: Plan) -> Deployment {
    Deployment::start(IOP, plan).await
}

/// Passes when the process ended with this code and its standard error has a line with all these words.
pub(crate) fn assert_failed(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.status.code(), Some(code), "{finished:#?}");
    assert_says(&finished.stderr, words);
    assert_eq!(finished.stdout, Vec::<String>::new(), "nothing is ready");
}

/// Passes when one of these lines has all these words.
pub(crate) fn assert_says(lines: &[String], words: &[&str]) {
    assert!(says(lines, words), "no line with all of {words:?} in {lines:#?}");
}

pub(crate) fn says(lines: &[String], words: &[&str]) -> bool {
    lines.iter().any(|line| words.iter().all(|word| line.contains(word)))
}

/// Waits until the process has logged a line with all these words.
pub(crate) async fn wait_for_log(process: &Process, words: &[&str], deadline: Duration) {
    wait_until(&format!("a log line with all of {words:?}"), deadline, || {
        let lines = process.stderr();
        if says(&lines, words) { Ok(()) } else { Err(lines) }
    })
    .await;
}

/// Waits until the deployment has no lease and no request in its queue, and every lease was returned.
pub(crate) async fn wait_for_no_lease(iop: &Deployment) {
    iop_tests::deadline::wait_until_async("every lease returned", DEADLINE, async || {
        let snapshot = iop.snapshot().await;
        let idle = snapshot["leases"]["active"] == 0 && snapshot["queue"]["length"] == 0;
        if idle { Ok(()) } else { Err(snapshot) }
    })
    .await;
}
