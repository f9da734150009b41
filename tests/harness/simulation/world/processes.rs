//! The processes of a run: the edge and the nodes, from their start until they are taken out of the world, and the doors to
//! them. What becomes of one that was taken out is the caller's.

use super::World;
use super::outside::{Fixed, NoNames, NodeSockets, Unchanged, Wires, parse};
use crate::simulation::authority::Authority;
use crate::simulation::network::EDGE;
use crate::simulation::process::{Door, Process, listen};
use crate::simulation::random::Random;
use crate::simulation::stream::Stream;
use iop_certs::Revocations;
use iop_config::NodeConfig;
use iop_edge::{Addresses, Edge, Listeners};
use iop_node::{Exit, NodeOptions};
use iop_transport::TokioRuntime;
use iop_transport::endpoint::{EndpointError, ResetSecret};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The secret that every edge of a run starts with.
const SECRET: [u8; 32] = [7; 32];

/// A running edge.
#[derive(Debug)]
pub(in crate::simulation) struct EdgeProcess {
    pub(in crate::simulation) process: Process,
    pub(in crate::simulation) http: Door,
    pub(in crate::simulation) admin: Door,
    pub(in crate::simulation) refresh: Arc<Notify>,
    pub(in crate::simulation) stop: CancellationToken,
    pub(in crate::simulation) task: JoinHandle<Result<(), EndpointError>>,
    /// Which start of the run it was.
    pub(in crate::simulation) number: u64,
}

/// A running node.
#[derive(Debug)]
pub(in crate::simulation) struct NodeProcess {
    pub(in crate::simulation) process: Process,
    pub(in crate::simulation) stop: CancellationToken,
    pub(in crate::simulation) task: JoinHandle<Exit>,
    /// The generation that it owns, and which start of the edge gave it.
    owns: Arc<Mutex<(u64, Option<u64>)>>,
}

impl World {
    /// Starts the edge where it listened before.
    pub(in crate::simulation) fn start_edge(&self) {
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
            revocations: Revocations::default(),
            certificates: Arc::new(Unchanged),
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
    pub(in crate::simulation) fn take_edge(&self) -> Option<EdgeProcess> {
        let mut state = self.lock();
        let edge = state.edge.take()?;
        let now = self.trace.now_ms();
        state.outages.push((now, u64::MAX));
        Some(edge)
    }

    /// Starts a node's process.
    pub(in crate::simulation) fn start_node(self: &Arc<Self>, node: usize) {
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
    pub(in crate::simulation) fn take_node(&self, node: usize) -> Option<NodeProcess> {
        self.lock().nodes[node].take()
    }

    /// The generation that a node believes to own on the edge that runs now.
    pub(in crate::simulation) fn generation(&self, node: usize) -> Option<u64> {
        let state = self.lock();
        let owns = state.nodes[node].as_ref()?.owns.lock().expect("nothing panics while it holds this");
        let (generation, edge) = *owns;
        (edge == state.edge.as_ref().map(|edge| edge.number)).then_some(generation)
    }

    pub(in crate::simulation) fn has_node(&self, node: usize) -> bool {
        self.lock().nodes[node].is_some()
    }

    pub(in crate::simulation) fn has_edge(&self) -> bool {
        self.lock().edge.is_some()
    }

    /// The process of a node that runs.
    pub(in crate::simulation) fn node_process(&self, node: usize) -> Option<Process> {
        self.lock().nodes[node].as_ref().map(|node| node.process.clone())
    }

    /// The edge's door for clients.
    pub(in crate::simulation) fn connect_to_edge(&self) -> Option<Stream> {
        let door = self.lock().edge.as_ref().map(|edge| edge.http.clone());
        door?.connect()
    }

    /// The edge's door for operators, and which start of the edge it belongs to.
    pub(in crate::simulation) fn connect_to_admin(&self) -> Option<(Stream, u64)> {
        let (door, number) = self.lock().edge.as_ref().map(|edge| (edge.admin.clone(), edge.number))?;
        Some((door.connect()?, number))
    }

    /// Which start of the edge runs now.
    pub(in crate::simulation) fn edge_number(&self) -> Option<u64> {
        self.lock().edge.as_ref().map(|edge| edge.number)
    }

    /// A process of this name is about to end.
    pub(in crate::simulation) fn note_ending(&self, name: &str) {
        self.lock().ending.insert(name.to_owned(), false);
    }

    /// It has ended. Whether a successor waits for that.
    pub(in crate::simulation) fn note_ended(&self, name: &str) -> bool {
        self.lock().ending.remove(name).unwrap_or(false)
    }

    /// Whether a successor must wait; then it is noted that one does.
    pub(in crate::simulation) fn must_wait_for(&self, name: &str) -> bool {
        self.lock().ending.get_mut(name).map(|waits| *waits = true).is_some()
    }
}
