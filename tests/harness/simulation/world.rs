//! Everything of one run: the network, the processes that live in it, the requests, and what is to be known later of what
//! has happened. What happens when is the plan's.

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
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

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
