//! What goes wrong meanwhile, one thing after another in a shuffled order: refreshes, nodes that end and come back, engines
//! that fail in every way the scripts know.

use crate::load::burst;
use crate::seed::Seed;
use crate::site::{NODES, Site, script};
use iop_tests::engine::{Script, Then};
use iop_tests::process::Signal;
use serde_json::json;
use std::time::Duration;

/// One kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    Capacity,
    Priority,
    Disable,
    EngineFaults,
    EngineCrash,
    EngineReplaced,
    NodeTerminated,
    NodeKilled,
    Burst,
}

impl Trouble {
    pub(crate) const ALL: [Self; 9] = [
        Self::Capacity,
        Self::EngineFaults,
        Self::Burst,
        Self::NodeTerminated,
        Self::EngineCrash,
        Self::Disable,
        Self::NodeKilled,
        Self::EngineReplaced,
        Self::Priority,
    ];

    /// Makes it and, where it has an end, ends it.
    pub(crate) async fn happen(self, site: &mut Site, seed: &Seed) {
        let node = usize::from(seed.once_in(2));
        let large = seed.once_in(2);
        let provider = usize::from(large);
        match self {
            Self::Capacity => {
                let capacity = 1 + seed.below(4);
                site.refresh(|edge| edge["nodes"][node]["providers"][provider]["capacity"] = json!(capacity))
                    .await;
            }
            Self::Priority => {
                let priority = seed.below(20);
                site.refresh(|edge| edge["nodes"][node]["providers"][provider]["priority"] = json!(priority))
                    .await;
            }
            Self::Disable => {
                for enabled in [false, true] {
                    site.refresh(|edge| {
                        edge["nodes"][node]["providers"][provider]["enabled"] = json!(enabled);
                    })
                    .await;
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
            }
            Self::EngineFaults => site.engine(node, large).queue_scripts(faults(large)),
            Self::EngineCrash => {
                site.engine(node, large).crash();
                tokio::time::sleep(Duration::from_millis(400)).await;
                site.engine(node, large).listen_again();
            }
            Self::EngineReplaced => site.replace_engine(node, large).await,
            Self::NodeTerminated => site.restart_node(Signal::TERM).await,
            Self::NodeKilled => site.restart_node(Signal::KILL).await,
            Self::Burst => burst(site.deployment.http, 20, Duration::from_millis(20 + seed.below(150))).await,
        }
    }
}

/// One of each way in which an engine can fail.
fn faults(large: bool) -> Vec<Script> {
    let whole = || script(large);
    vec![
        whole().cut(3, Then::Close),
        Script::status(503),
        whole().cut(1, Then::Reset),
        Script::no_answer(),
        Script::garbage(),
        Script::status(500),
        whole().cut(2, Then::Hang),
        Script::status(429),
        Script::silence(),
        whole().delayed(Duration::from_millis(300)),
    ]
}

/// An endless order in which each kind comes once a round.
pub(crate) struct Order {
    round: Vec<Trouble>,
}

impl Order {
    pub(crate) fn new() -> Self {
        Self { round: Vec::new() }
    }

    pub(crate) fn next(&mut self, seed: &Seed) -> Trouble {
        if self.round.is_empty() {
            self.round = Trouble::ALL.to_vec();
        }
        let place = usize::try_from(seed.below(self.round.len() as u64)).expect("a place in a short list");
        self.round.swap_remove(place)
    }
}

/// The node that no trouble ends.
pub(crate) const STEADY: &str = NODES[0];
