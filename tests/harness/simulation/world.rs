//! Everything of one run: the network, the processes that live in it, the requests, and what is to be known later of what
//! has happened. What happens when is the plan's.

mod arrival;
mod outside;
mod processes;

pub(super) use outside::node_file;
pub(super) use processes::{EdgeProcess, NodeProcess};

use super::engine::Engine;
use super::network::{Link, Network};
use super::random::Random;
use super::request::Request;
use super::settings::Settings;
use super::trace::Trace;
use outside::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// One run's world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    /// Nothing goes wrong in this run: so every request must be answered.
    pub(super) good: bool,
    /// Nothing happens to nodes, the edge and the network: no connection between them is lost.
    pub(super) steady: bool,
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
    /// When its client had its answer, or left.
    ended_ms: BTreeMap<usize, u64>,
    /// By request: the provider of each time that an engine got it.
    attempts: BTreeMap<usize, Vec<usize>>,
    /// Requests that an engine has begun to answer.
    begun: BTreeSet<usize>,
    /// Seen and not yet proven.
    overtakings: Vec<arrival::Overtaking>,
    /// When no edge was there: from, to.
    outages: Vec<(u64, u64)>,
    starts: u64,
    /// Processes that are about to end, by name, and whether a successor waits for that.
    ending: BTreeMap<String, bool>,
    /// Whether the file was ever changed.
    changed: bool,
}

impl World {
    pub(super) fn new(
        seed: u64,
        [good, steady]: [bool; 2],
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
            ended_ms: BTreeMap::new(),
            attempts: BTreeMap::new(),
            begun: BTreeSet::new(),
            overtakings: Vec::new(),
            outages: Vec::new(),
            starts: 0,
            ending: BTreeMap::new(),
            changed: false,
            settings: settings.clone(),
        };
        Arc::new(Self {
            seed,
            good,
            steady,
            network,
            engines: engines.collect(),
            probes_released: CancellationToken::new(),
            source: Arc::new(Source { text: Mutex::new(settings.text()) }),
            nodes_files,
            state: Mutex::new(state),
            trace,
        })
    }

    pub(super) fn settings(&self) -> Settings {
        self.lock().settings.clone()
    }

    /// Changes the edge's file. The edge is not told.
    pub(super) fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        let now = self.trace.now_ms();
        let mut state = self.lock();
        change(&mut state.settings);
        state.changed = true;
        self.source.set(state.settings.text());
        for (engine, provider) in self.engines.iter().zip(&state.settings.providers) {
            let in_use = provider.enabled && provider.present;
            engine.set_limits(now, if in_use { provider.capacity } else { 0 }, provider.long);
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

    /// Its client has its answer, or has left.
    pub(super) fn note_end_of(&self, id: usize) {
        let now = self.trace.now_ms();
        self.lock().ended_ms.insert(id, now);
    }

    /// When its client had its answer, or left.
    pub(super) fn end_of(&self, id: usize) -> Option<u64> {
        self.lock().ended_ms.get(&id).copied()
    }

    /// An engine begins to answer it, with more than that it is busy.
    pub(super) fn note_begun(&self, id: usize) {
        self.lock().begun.insert(id);
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
