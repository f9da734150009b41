//! The node under test, in a task, with names, inference servers and shutdown in the test's hands.

use crate::edge::{within, within_hours};
use crate::pki::Pki;
use iop_config::NodeConfig;
use iop_node::{Exit, NodeOptions, Resolver, Resolving, Welcomed};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What goes into the node's file.
pub(crate) struct Plan {
    pub(crate) addresses: Vec<String>,
    pub(crate) max_attempts: u32,
    pub(crate) interval_sec: u32,
}

impl Plan {
    /// Dials `address` every second, for ever.
    pub(crate) fn dial(address: SocketAddr) -> Self {
        Self { addresses: vec![address.to_string()], max_attempts: 0, interval_sec: 1 }
    }

    pub(crate) fn options(&self, bundle: &Path) -> NodeOptions {
        let mut text = String::new();
        let addresses: Vec<String> = self.addresses.iter().map(|address| format!("{address:?}")).collect();
        writeln!(text, "edge: {{ addresses: [{}] }}", addresses.join(", ")).expect("a string takes text");
        writeln!(text, "certs: {{ bundle: {:?} }}", bundle).expect("a string takes text");
        writeln!(
            text,
            "reconnect: {{ max_attempts: {}, interval_sec: {} }}",
            self.max_attempts, self.interval_sec
        )
        .expect("a string takes text");
        let config = NodeConfig::parse(&text, Path::new("node.yaml")).expect("a good configuration");
        NodeOptions::new(config, [1; 16])
    }
}

pub(crate) struct TestNode {
    task: JoinHandle<Exit>,
    shutdown: CancellationToken,
    welcomes: mpsc::UnboundedReceiver<Welcomed>,
}

impl TestNode {
    pub(crate) fn start(plan: &Plan, pki: &Pki) -> Self {
        Self::run(plan.options(&pki.bundle("gpu-a")))
    }

    pub(crate) fn run(options: NodeOptions) -> Self {
        let shutdown = CancellationToken::new();
        let (welcomed, welcomes) = mpsc::unbounded_channel();
        let stop = shutdown.clone().cancelled_owned();
        let on_welcome = move |welcome| {
            // A test may have stopped looking.
            let _unread = welcomed.send(welcome);
        };
        let task = tokio::spawn(iop_node::run(options, stop, on_welcome));
        Self { task, shutdown, welcomes }
    }

    /// The node's next report of a registration.
    pub(crate) async fn welcomed(&mut self) -> Welcomed {
        within(self.welcomes.recv()).await.expect("the node runs")
    }

    /// Registrations reported and not looked at yet.
    pub(crate) fn unseen_welcomes(&mut self) -> usize {
        std::iter::from_fn(|| self.welcomes.try_recv().ok()).count()
    }

    pub(crate) async fn exit(self) -> Exit {
        within(self.task).await.expect("the node does not panic")
    }

    /// The same, after a long time.
    pub(crate) async fn late_exit(self) -> Exit {
        within_hours(self.task).await.expect("the node does not panic")
    }

    pub(crate) async fn stop(self) -> Exit {
        self.shutdown.cancel();
        self.exit().await
    }
}

/// Names of a test's own, and a count of how often they were asked for: once per dial and name.
pub(crate) struct Names {
    asked: AtomicUsize,
    /// What the next questions are answered; `None` for no such name. The last answer stays.
    answers: Mutex<Vec<Option<Vec<SocketAddr>>>>,
}

impl Names {
    pub(crate) fn new(answers: impl IntoIterator<Item = Option<Vec<SocketAddr>>>) -> Arc<Self> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self { asked: AtomicUsize::new(0), answers: Mutex::new(answers) })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str, _port: u16) -> Resolving<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().expect("no panic under this lock");
        let answer = if answers.len() > 1 { answers.pop() } else { answers.last().cloned() };
        let host = host.to_owned();
        Box::pin(async move {
            answer.flatten().ok_or_else(|| std::io::Error::other(format!("there is no host {host}")))
        })
    }
}

/// A UDP port of loopback where nobody answers. Held, so that nobody else takes it.
pub(crate) struct Silence {
    socket: UdpSocket,
}

impl Silence {
    pub(crate) fn new() -> Self {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_nonblocking(true).expect("a socket for tokio");
        Self { socket: UdpSocket::from_std(socket).expect("a socket for tokio") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("the socket is bound")
    }

    /// Waits until somebody has sent something.
    pub(crate) async fn dialed(&self) {
        within(self.socket.readable()).await.expect("the socket is bound");
    }

    /// Whether nobody has sent anything.
    pub(crate) fn is_untouched(&self) -> bool {
        self.socket.try_recv(&mut [0]).is_err()
    }
}
