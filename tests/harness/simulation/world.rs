//! Everything of one run: the network, the processes that live in it, the requests. It starts, stops and kills; when, is
//! the plan's.

use super::authority::{Authority, name};
use super::engine::{Engine, Mood};
use super::network::{EDGE, Link, Network};
use super::process::{Door, Process, listen};
use super::random::Random;
use super::request::Request;
use super::settings::Settings;
use super::stream::Stream;
use super::trace::Trace;
use iop_certs::{Identity, LoadError as IdentityError};
use iop_config::{EdgeConfig, LoadError, NodeConfig};
use iop_edge::{Addresses, ConfigSource, Edge, Listeners, Loading, Reading};
use iop_node::{
    ByteStream, ConnectError, Connecting, Connector, Exit, IdentitySource, LoadingIdentity, NodeOptions,
    Resolver, Resolving, Sockets,
};
use iop_transport::endpoint::{self, EndpointError, ResetSecret};
use iop_transport::{Endpoint, TokioRuntime};
use std::collections::BTreeMap;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The secret that every edge of a run starts with.
const SECRET: [u8; 32] = [7; 32];

/// One run's world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    /// Nothing goes wrong in this run: so every request must be answered.
    pub(super) good: bool,
    pub(super) trace: Trace,
    pub(super) network: Network,
    pub(super) engines: Vec<Arc<Engine>>,
    pub(super) probes_released: CancellationToken,
    source: Arc<Source>,
    nodes_files: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    settings: Settings,
    edge: Option<EdgeProcess>,
    nodes: Vec<Option<NodeProcess>>,
    requests: Vec<Arc<Request>>,
    sent_ms: BTreeMap<usize, u64>,
    attempts: BTreeMap<usize, u32>,
    /// When no edge was there: from, to.
    outages: Vec<(u64, u64)>,
    starts: u64,
    /// Processes that are about to end, by name, and whether a successor waits for that.
    ending: BTreeMap<String, bool>,
    /// Whether the file was ever changed.
    changed: bool,
    /// When a provider got a lower capacity or was taken out.
    lowered_ms: Vec<u64>,
}

/// A running edge.
#[derive(Debug)]
pub(super) struct EdgeProcess {
    pub(super) process: Process,
    pub(super) http: Door,
    pub(super) admin: Door,
    pub(super) refresh: Arc<Notify>,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<Result<(), EndpointError>>,
    /// Which start of the run it was.
    pub(super) number: u64,
}

/// A running node.
#[derive(Debug)]
pub(super) struct NodeProcess {
    pub(super) process: Process,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<Exit>,
    /// The generation that it owns, and which start of the edge gave it.
    owns: Arc<Mutex<(u64, Option<u64>)>>,
}

impl World {
    pub(super) fn new(
        seed: u64,
        good: bool,
        settings: Settings,
        links: Vec<Link>,
        nodes_files: Vec<String>,
        requests: Vec<Request>,
    ) -> Arc<Self> {
        let trace = Trace::new();
        let network = Network::new(Random::new(seed, "network"), links, trace.clone());
        let engines = settings.providers.iter().enumerate();
        let engines =
            engines.map(|(index, provider)| Arc::new(Engine::new(index, provider.capacity, provider.long)));
        let state = State {
            edge: None,
            nodes: (0..settings.nodes).map(|_| None).collect(),
            requests: requests.into_iter().map(Arc::new).collect(),
            sent_ms: BTreeMap::new(),
            attempts: BTreeMap::new(),
            outages: Vec::new(),
            starts: 0,
            ending: BTreeMap::new(),
            changed: false,
            lowered_ms: Vec::new(),
            settings: settings.clone(),
        };
        Arc::new(Self {
            seed,
            good,
            network,
            engines: engines.collect(),
            probes_released: CancellationToken::new(),
            source: Arc::new(Source { text: Mutex::new(settings.text()) }),
            nodes_files,
            state: Mutex::new(state),
            trace,
        })
    }

    /// Starts the edge where it listened before.
    pub(super) fn start_edge(&self) {
        let process = Process::new(self.network.clone());
        let socket = process.open(None).expect("a process that has just begun");
        let (http, http_listener) = listen(&process);
        let (admin, admin_listener) = listen(&process);
        let mut state = self.lock();
        state.starts += 1;
        let number = state.starts;
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let listeners = Listeners::new(
            Box::new(http_listener),
            Box::new(admin_listener),
            socket,
            Arc::new(TokioRuntime),
            Some(Random::new(self.seed, &format!("edge {number}")).bytes()),
            Addresses { http: loopback(8080), admin: loopback(9090), quic: EDGE },
        );
        // An edge that starts does so with a good file.
        self.source.set(state.settings.text());
        let config = parse(&self.source.text()).expect("the first configuration of an edge is good");
        let (refresh, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let edge = Edge {
            config,
            source: self.source.clone(),
            refresh: refresh.clone(),
            identity: Authority::shared().edge.clone(),
            reset_secret: ResetSecret(SECRET),
            listeners,
        };
        let task = tokio::spawn(edge.run(stop.clone(), |_| {}));
        let now = self.trace.now_ms();
        if let Some((_, end)) = state.outages.last_mut() {
            *end = now;
        }
        state.edge = Some(EdgeProcess { process, http, admin, refresh, stop, task, number });
    }

    /// Takes the edge out of the world; what becomes of it is the caller's.
    pub(super) fn take_edge(&self) -> Option<EdgeProcess> {
        let mut state = self.lock();
        let edge = state.edge.take()?;
        let now = self.trace.now_ms();
        state.outages.push((now, u64::MAX));
        Some(edge)
    }

    /// Starts a node's process.
    pub(super) fn start_node(self: &Arc<Self>, node: usize) {
        let process = Process::new(self.network.clone());
        let mut state = self.lock();
        state.starts += 1;
        let mut random = Random::new(self.seed, &format!("node {}", state.starts));
        let config = NodeConfig::parse(&self.nodes_files[node], Path::new("node.yaml"));
        let config = config.unwrap_or_else(|issues| panic!("the node's file is good: {issues}"));
        let stop = CancellationToken::new();
        let options = NodeOptions {
            config,
            instance: random.bytes(),
            identity: Arc::new(Fixed(node)),
            sockets: Arc::new(NodeSockets { node, process: process.clone(), random: Mutex::new(random) }),
            resolver: Arc::new(NoNames),
            connector: Arc::new(Wires { node, process: process.clone(), world: self.clone() }),
            environment: |_| None,
        };
        let owns = Arc::new(Mutex::new((0, None)));
        let (world, noted) = (self.clone(), owns.clone());
        let welcomed = move |welcomed: iop_node::Welcomed| {
            let generation = welcomed.generation;
            world.trace.say(format_args!("{} is welcomed as generation {generation}", welcomed.node_id));
            *noted.lock().expect("nothing panics while it holds this") = (generation, world.edge_number());
        };
        let task = tokio::spawn(iop_node::run(options, stop.clone().cancelled_owned(), welcomed));
        state.nodes[node] = Some(NodeProcess { process, stop, task, owns });
    }

    /// Takes a node out of the world; what becomes of it is the caller's.
    pub(super) fn take_node(&self, node: usize) -> Option<NodeProcess> {
        self.lock().nodes[node].take()
    }

    /// The generation that a node believes to own on the edge that runs now.
    pub(super) fn generation(&self, node: usize) -> Option<u64> {
        let state = self.lock();
        let owns = state.nodes[node].as_ref()?.owns.lock().expect("nothing panics while it holds this");
        let (generation, edge) = *owns;
        (edge == state.edge.as_ref().map(|edge| edge.number)).then_some(generation)
    }

    pub(super) fn has_node(&self, node: usize) -> bool {
        self.lock().nodes[node].is_some()
    }

    pub(super) fn has_edge(&self) -> bool {
        self.lock().edge.is_some()
    }

    /// The process of a node that runs.
    pub(super) fn node_process(&self, node: usize) -> Option<Process> {
        self.lock().nodes[node].as_ref().map(|node| node.process.clone())
    }

    /// The edge's door for clients.
    pub(super) fn connect_to_edge(&self) -> Option<Stream> {
        let door = self.lock().edge.as_ref().map(|edge| edge.http.clone());
        door?.connect()
    }

    /// The edge's door for operators, and which start of the edge it belongs to.
    pub(super) fn connect_to_admin(&self) -> Option<(Stream, u64)> {
        let (door, number) = self.lock().edge.as_ref().map(|edge| (edge.admin.clone(), edge.number))?;
        Some((door.connect()?, number))
    }

    /// Which start of the edge runs now.
    pub(super) fn edge_number(&self) -> Option<u64> {
        self.lock().edge.as_ref().map(|edge| edge.number)
    }

    /// A process of this name is about to end.
    pub(super) fn note_ending(&self, name: &str) {
        self.lock().ending.insert(name.to_owned(), false);
    }

    /// It has ended. Whether a successor waits for that.
    pub(super) fn note_ended(&self, name: &str) -> bool {
        self.lock().ending.remove(name).unwrap_or(false)
    }

    /// Whether a successor must wait; then it is noted that one does.
    pub(super) fn must_wait_for(&self, name: &str) -> bool {
        self.lock().ending.get_mut(name).map(|waits| *waits = true).is_some()
    }

    pub(super) fn settings(&self) -> Settings {
        self.lock().settings.clone()
    }

    /// Changes the edge's file. The edge is not told.
    pub(super) fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        let now = self.trace.now_ms();
        let mut state = self.lock();
        let before = state.settings.clone();
        change(&mut state.settings);
        state.changed = true;
        let mut pairs = before.providers.iter().zip(&state.settings.providers);
        if pairs.any(|(old, new)| new.capacity < old.capacity || new.present != old.present) {
            state.lowered_ms.push(now);
        }
        self.source.set(state.settings.text());
        for (engine, provider) in self.engines.iter().zip(&state.settings.providers) {
            engine.set_limits(now, provider.capacity, provider.long);
        }
    }

    /// Puts text into the edge's file that is no configuration, or the right one again.
    pub(super) fn spoil_file(&self, spoilt: bool) {
        let state = self.lock();
        self.source.set(if spoilt {
            "provider_pool: { capacity: 3 }".to_owned()
        } else {
            state.settings.text()
        });
    }

    /// Signals the edge to look at its file.
    pub(super) fn signal_refresh(&self) {
        if let Some(edge) = &self.lock().edge {
            edge.refresh.notify_one();
        }
    }

    pub(super) fn was_changed(&self) -> bool {
        self.lock().changed
    }

    /// Whether a provider got a lower capacity, or was taken out, in this span.
    pub(super) fn was_lowered(&self, from_ms: u64, to_ms: u64) -> bool {
        self.lock().lowered_ms.iter().any(|at| (from_ms..=to_ms).contains(at))
    }

    pub(super) fn requests(&self) -> Vec<Arc<Request>> {
        self.lock().requests.clone()
    }

    pub(super) fn request(&self, id: usize) -> Option<Arc<Request>> {
        self.lock().requests.get(id).cloned()
    }

    /// Adds a request.
    pub(super) fn add_request(&self, make: impl FnOnce(usize) -> Request) -> Arc<Request> {
        let mut state = self.lock();
        let request = Arc::new(make(state.requests.len()));
        state.requests.push(request.clone());
        request
    }

    pub(super) fn note_sent(&self, id: usize) {
        let now = self.trace.now_ms();
        self.lock().sent_ms.insert(id, now);
    }

    pub(super) fn sent_at(&self, id: usize) -> u64 {
        self.lock().sent_ms.get(&id).copied().unwrap_or(0)
    }

    /// Numbers the times that engines see one request, from 1.
    pub(super) fn next_attempt(&self, id: usize) -> u32 {
        let mut state = self.lock();
        let attempt = state.attempts.entry(id).or_default();
        *attempt += 1;
        *attempt
    }

    /// Whether there was no edge at some time in this span.
    pub(super) fn edge_was_away(&self, from_ms: u64, to_ms: u64) -> bool {
        self.lock().outages.iter().any(|(begin, end)| *begin <= to_ms && *end >= from_ms)
    }

    /// Whether an echo says so many words.
    pub(super) fn is_number_of_words(&self, count: usize) -> bool {
        let state = self.lock();
        state.settings.providers.iter().any(|provider| provider.echo && provider.words == count as u64)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the world")
    }
}

/// A node's file.
pub(super) fn node_file(random: &mut Random, node: usize) -> String {
    let interval = random.range(1..=3);
    let keep_alive = random.range(500..=1_600);
    format!(
        r#"{{"edge": {{"addresses": ["{EDGE}"]}}, "certs": {{"bundle": "{}.pem"}},
            "reconnect": {{"max_attempts": 0, "interval_sec": {interval}}},
            "keep_alive_ms": {keep_alive}, "segmentation_offload": false}}"#,
        name(node)
    )
}

/// The edge's file, in memory.
#[derive(Debug)]
struct Source {
    text: Mutex<String>,
}

impl Source {
    fn text(&self) -> String {
        self.text.lock().expect("nothing panics while it holds the file").clone()
    }

    fn set(&self, text: String) {
        *self.text.lock().expect("nothing panics while it holds the file") = text;
    }
}

fn parse(text: &str) -> Result<EdgeConfig, LoadError> {
    Ok(EdgeConfig::parse(text, Path::new("edge.yaml"), &|_| None)?)
}

impl ConfigSource for Source {
    fn name(&self) -> String {
        "edge.yaml".to_owned()
    }

    fn read(&self) -> Reading<'_> {
        Box::pin(ready(Some(self.text().into_bytes())))
    }

    fn load(&self, read: Option<Vec<u8>>) -> Loading<'_> {
        let text = String::from_utf8(read.unwrap_or_default()).unwrap_or_default();
        Box::pin(ready(parse(&text)))
    }
}

/// The certificate of a node.
struct Fixed(usize);

impl IdentitySource for Fixed {
    fn load(&self) -> LoadingIdentity<'_> {
        let identity: Result<Identity, IdentityError> = Ok(Authority::shared().nodes[self.0].clone());
        Box::pin(ready(identity))
    }
}

/// Where a node's endpoints come from.
struct NodeSockets {
    node: usize,
    process: Process,
    random: Mutex<Random>,
}

impl Sockets for NodeSockets {
    fn open(&self, local: SocketAddr) -> Result<Endpoint, EndpointError> {
        let socket = self.process.open(Some(self.node));
        let gone = || EndpointError::Bind { address: local, source: io::ErrorKind::NetworkDown.into() };
        let seed = self.random.lock().expect("nothing panics while it draws").bytes();
        endpoint::node(socket.ok_or_else(gone)?, Arc::new(TokioRuntime), Some(seed))
    }
}

/// There are no names, only addresses.
struct NoNames;

impl Resolver for NoNames {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        let address = host.parse().map(|ip| vec![SocketAddr::new(ip, port)]);
        Box::pin(ready(address.map_err(|_no_address| io::ErrorKind::NotFound.into())))
    }
}

/// How a node reaches its engines.
struct Wires {
    node: usize,
    process: Process,
    world: Arc<World>,
}

impl Connector for Wires {
    fn connect<'a>(&'a self, _host: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(async move {
            let refused = || ConnectError::Connect(io::ErrorKind::ConnectionRefused.into());
            let index = usize::from(port - super::settings::FIRST_PORT);
            let engine = self.world.engines.get(index).ok_or_else(refused)?;
            if self.world.settings().providers[index].node != self.node {
                self.world.trace.violation(format_args!("{} dials another's engine", name(self.node)));
            }
            match engine.mood() {
                Mood::Up => {}
                Mood::Refuses => return Err(refused()),
                Mood::Deaf => std::future::pending().await,
            }
            let (stream, other, cable) = self.process.connect().ok_or_else(refused)?;
            tokio::spawn(engine.clone().serve(self.world.clone(), other, cable));
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }
}
