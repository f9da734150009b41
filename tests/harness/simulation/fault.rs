//! What goes wrong in a run, drawn from its seed: when it begins, when it is over, and what either does to the world.

use super::authority::name;
use super::engine::Mood;
use super::network::Link;
use super::random::Random;
use super::settings::{Settings, provider_name};
use super::world::{EdgeProcess, NodeProcess, World};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What a node promises from being told to stop to its end.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// What an edge may take for that: running requests, connections and nodes each have their time.
const DRAIN_LIMIT: Duration = Duration::from_millis(12_500);

/// The edge among processes that end.
const EDGE_NAME: &str = "edge";

/// One change of the world.
#[derive(Debug, Clone)]
pub(super) enum Change {
    CutUp(usize, bool),
    CutDown(usize, bool),
    Loss(usize, u64),
    Delay(usize, u64),
    SmallPackets(usize, bool),
    Freeze(usize, bool),
    Rebind(usize),
    KillNode(usize),
    StopNode(usize),
    StartNode(usize),
    KillEdge,
    StopEdge,
    StartEdge,
    Mood(usize, Mood),
    CrashEngine(usize),
    Capacity(usize, u64),
    Long(usize, u64),
    Priority(usize, u64),
    Enable(usize, bool),
    Provider(usize, bool),
    Model(usize, bool),
    Queue(u64, u64),
    Spoil(bool),
}

/// Kinds of faults; each has the same chance.
const KINDS: u64 = 19;

/// The first of those that concern engines and settings alone.
const STEADY_KINDS: u64 = 13;

/// A run's changes, by time. `steady`: nothing happens to nodes, the edge and the network.
pub(super) fn draw_all(
    random: &mut Random,
    settings: &Settings,
    span_ms: u64,
    steady: bool,
) -> Vec<(u64, Change)> {
    let count = random.range(1..=8);
    let first = if steady { STEADY_KINDS } else { 0 };
    let mut changes: Vec<(u64, Change)> =
        (0..count).flat_map(|_| draw(random, settings, span_ms, first)).collect();
    changes.sort_by_key(|(at, _)| *at);
    changes
}

fn draw(random: &mut Random, settings: &Settings, span_ms: u64, first: u64) -> Vec<(u64, Change)> {
    let begin = random.range(0..=span_ms);
    let lasts = if random.chance(500) { random.range(20..=1_500) } else { random.range(1_500..=15_000) };
    let end = begin + lasts;
    let node = random.index(settings.nodes);
    let provider = random.index(settings.providers.len());
    let both = |one, other| vec![(begin, one), (end, other)];
    match random.range(first..=KINDS - 1) {
        0 => vec![
            (begin, Change::CutUp(node, true)),
            (begin, Change::CutDown(node, true)),
            (end, Change::CutUp(node, false)),
            (end, Change::CutDown(node, false)),
        ],
        1 => both(Change::CutUp(node, true), Change::CutUp(node, false)),
        2 => both(Change::CutDown(node, true), Change::CutDown(node, false)),
        3 => both(Change::Loss(node, random.range(50..=500)), Change::Loss(node, 0)),
        4 => both(Change::Delay(node, random.range(50..=900)), Change::Delay(node, 1)),
        5 => both(Change::SmallPackets(node, true), Change::SmallPackets(node, false)),
        6 => both(Change::Freeze(node, true), Change::Freeze(node, false)),
        7 => vec![(begin, Change::Rebind(node))],
        8 | 9 => both(Change::KillNode(node), Change::StartNode(node)),
        10 => both(Change::StopNode(node), Change::StartNode(node)),
        11 => both(Change::KillEdge, Change::StartEdge),
        12 => both(Change::StopEdge, Change::StartEdge),
        13 => {
            let mood = if random.chance(700) { Mood::Refuses } else { Mood::Deaf };
            both(Change::Mood(provider, mood), Change::Mood(provider, Mood::Up))
        }
        14 => vec![(begin, Change::CrashEngine(provider))],
        15 => capacities(random, provider, begin),
        16 => both(Change::Enable(provider, false), Change::Enable(provider, true)),
        17 => refresh(random, settings, provider, begin, end),
        _ => both(Change::Spoil(true), Change::Spoil(false)),
    }
}

/// One capacity after another, some so soon that the node has not confirmed the last one.
fn capacities(random: &mut Random, provider: usize, begin: u64) -> Vec<(u64, Change)> {
    let (mut at, mut changes) = (begin, Vec::new());
    for _ in 0..4 {
        changes.push((at, Change::Capacity(provider, random.range(1..=4))));
        at += if random.chance(500) { random.below(100) } else { random.below(1_500) };
    }
    changes
}

fn refresh(
    random: &mut Random,
    settings: &Settings,
    provider: usize,
    begin: u64,
    end: u64,
) -> Vec<(u64, Change)> {
    let model = random.index(settings.models.len());
    match random.below(5) {
        0 => vec![(begin, Change::Long(provider, random.range(0..=2)))],
        1 => vec![(begin, Change::Priority(provider, random.below(3)))],
        2 => vec![(begin, Change::Provider(provider, false)), (end, Change::Provider(provider, true))],
        3 => vec![(begin, Change::Model(model, false)), (end, Change::Model(model, true))],
        _ => vec![(begin, Change::Queue(random.range(0..=20), random.range(300..=12_000)))],
    }
}

impl World {
    /// Does it.
    pub(super) fn change(self: &Arc<Self>, change: &Change) {
        self.trace.say(format_args!("{change:?}"));
        match *change {
            Change::CutUp(node, cut) => self.network.set_link(node, |link| link.cut_up = cut),
            Change::CutDown(node, cut) => self.network.set_link(node, |link| link.cut_down = cut),
            Change::Loss(node, loss) => self.network.set_link(node, |link| link.loss = loss),
            Change::Delay(node, delay) => self.network.set_link(node, |link| link.delay_ms = delay),
            Change::SmallPackets(node, small) => {
                self.network.set_link(node, |link| link.mtu = if small { 1_250 } else { usize::MAX });
            }
            Change::Freeze(node, frozen) => {
                self.network.set_link(node, |link| link.frozen = frozen);
                if let Some(process) = self.node_process(node) {
                    process.freeze(frozen);
                }
            }
            Change::Rebind(node) => {
                if let Some(process) = self.node_process(node) {
                    self.network.rebind(node, &process.sockets());
                }
            }
            Change::KillNode(_) | Change::StopNode(_) | Change::StartNode(_) => self.change_node(change),
            Change::KillEdge | Change::StopEdge | Change::StartEdge => self.change_edge(change),
            Change::Mood(provider, mood) => {
                let engine = &self.engines[provider];
                engine.set_mood(mood);
                if mood != Mood::Up {
                    engine.crash();
                }
            }
            Change::CrashEngine(provider) => self.engines[provider].crash(),
            Change::Spoil(spoilt) => {
                self.spoil_file(spoilt);
                self.signal_refresh();
            }
            _ => {
                self.change_settings(|settings| settings.change(change));
                self.signal_refresh();
            }
        }
    }

    fn change_node(self: &Arc<Self>, change: &Change) {
        match *change {
            Change::KillNode(node) => {
                if let Some(process) = self.take_node(node) {
                    process.process.kill();
                    process.task.abort();
                }
            }
            Change::StopNode(node) => {
                if let Some(process) = self.take_node(node) {
                    process.stop.cancel();
                    tokio::spawn(self.clone().expect_exit(node, process));
                }
            }
            Change::StartNode(node) if !self.has_node(node) && !self.must_wait_for(&name(node)) => {
                self.start_node(node);
            }
            _ => {}
        }
    }

    fn change_edge(self: &Arc<Self>, change: &Change) {
        match change {
            Change::KillEdge => {
                if let Some(edge) = self.take_edge() {
                    edge.process.kill();
                    edge.task.abort();
                }
            }
            Change::StopEdge => {
                if let Some(edge) = self.take_edge() {
                    edge.stop.cancel();
                    tokio::spawn(self.clone().expect_end(edge));
                }
            }
            Change::StartEdge if !self.has_edge() && !self.must_wait_for(EDGE_NAME) => self.start_edge(),
            _ => {}
        }
    }

    /// Sees to it that a node that was told to stop does so, and then lets its successor start.
    pub(super) async fn expect_exit(self: Arc<Self>, node: usize, mut ending: NodeProcess) {
        self.note_ending(&name(node));
        match timeout(STOP_LIMIT, &mut ending.task).await {
            Ok(Ok(iop_node::Exit::Stopped)) => {}
            other => self.trace.violation(format_args!("{} did not stop: {other:?}", name(node))),
        }
        ending.process.kill();
        if self.note_ended(&name(node)) {
            self.start_node(node);
        }
    }

    /// The same for an edge, which lets requests end first.
    pub(super) async fn expect_end(self: Arc<Self>, mut ending: EdgeProcess) {
        self.note_ending(EDGE_NAME);
        match timeout(DRAIN_LIMIT, &mut ending.task).await {
            Ok(Ok(Ok(()))) => {}
            other => self.trace.violation(format_args!("the edge did not stop: {other:?}")),
        }
        ending.process.kill();
        if self.note_ended(EDGE_NAME) {
            self.start_edge();
        }
    }

    /// Mends everything: from here on nothing goes wrong any more.
    pub(super) fn heal(self: &Arc<Self>) {
        self.trace.say(format_args!("everything heals"));
        let settings = self.settings();
        for node in 0..settings.nodes {
            self.change(&Change::Freeze(node, false));
            self.network.set_link(node, Link::mend);
        }
        self.engines.iter().for_each(|engine| engine.set_mood(Mood::Up));
        self.change_settings(|settings| {
            settings.providers.iter_mut().for_each(|provider| {
                provider.enabled = true;
                provider.present = true;
            });
            settings.models.iter_mut().for_each(|model| model.present = true);
            settings.max_queue = settings.max_queue.max(64);
        });
        self.change(&Change::StartEdge);
        self.signal_refresh();
        (0..settings.nodes).for_each(|node| self.change(&Change::StartNode(node)));
    }
}

impl Link {
    fn mend(&mut self) {
        (self.loss, self.cut_up, self.cut_down, self.mtu) = (0, false, false, usize::MAX);
        (self.delay_ms, self.jitter_ms) = (self.delay_ms.min(50), self.jitter_ms.min(10));
    }
}

impl Settings {
    fn change(&mut self, change: &Change) {
        match *change {
            Change::Capacity(provider, capacity) => {
                let provider = &mut self.providers[provider];
                provider.capacity = capacity;
                provider.long = provider.long.min(capacity);
            }
            Change::Long(provider, long) => {
                let provider = &mut self.providers[provider];
                provider.long = long.min(provider.capacity);
            }
            Change::Priority(provider, priority) => self.providers[provider].priority = priority,
            Change::Enable(provider, enabled) => self.providers[provider].enabled = enabled,
            Change::Provider(provider, present) => self.providers[provider].present = present,
            Change::Model(model, present) => self.models[model].present = present,
            Change::Queue(max, timeout_ms) => (self.max_queue, self.queue_timeout_ms) = (max, timeout_ms),
            _ => unreachable!("{} is no setting: {change:?}", provider_name(0)),
        }
    }
}
