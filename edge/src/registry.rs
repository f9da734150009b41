//! Which connection is a node's: NodeId → connection and generation. Who may register is decided in `session`; what a
//! registration means for requests, in admission.

use crate::admission::Generation;
use iop_transport::Connection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use tokio::sync::{Notify, mpsc};

/// One registered connection.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    /// The connection.
    pub(crate) connection: Connection,
    /// The generation that it owns.
    pub(crate) generation: Generation,
    /// The node's process.
    pub(crate) instance: [u8; 16],
    /// Number of the dial within that process.
    pub(crate) dial: u64,
    /// Name and version of the node's software.
    pub(crate) software: String,
    /// When it was accepted.
    pub(crate) since: SystemTime,
    /// Told when the node's settings have changed.
    pub(crate) settings_changed: Arc<Notify>,
    /// Orders to the task that owns the control stream.
    pub(crate) orders: mpsc::Sender<Order>,
}

/// What the owner of a control stream is asked to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Find out whether the node answers; the sender is dropped if the connection ends first.
    Ping(tokio::sync::oneshot::Sender<()>),
    /// Send it no further run; what runs may end.
    Drain,
}

/// All registered connections. Cheap to clone; every clone is the same registry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<Arc<str>, Registered>,
    /// Providers that a registered node will not run, and its reasons.
    refusals: BTreeMap<Arc<str>, Refusals>,
    generations: u64,
}

/// Providers that a node will not run, by id, each with the node's words.
pub(crate) type Refusals = BTreeMap<Arc<str>, String>;

impl Registry {
    /// The connection that owns this generation of the node.
    pub(crate) fn owner(&self, node: &str, generation: Generation) -> Option<Connection> {
        let state = self.lock();
        let registered = state.nodes.get(node).filter(|registered| registered.generation == generation)?;
        Some(registered.connection.clone())
    }

    /// The node's registration.
    pub(crate) fn get(&self, node: &str) -> Option<Registered> {
        self.lock().nodes.get(node).cloned()
    }

    /// Every registration, by node.
    pub(crate) fn all(&self) -> BTreeMap<Arc<str>, Registered> {
        self.lock().nodes.clone()
    }

    /// Registers a connection under a new generation if the node's owner is still `expected`. `publish` is called with
    /// the new generation in the same step: no other registration of any node comes between.
    pub(crate) fn register(
        &self,
        node: &Arc<str>,
        expected: Option<Generation>,
        publish: impl FnOnce(Generation) -> Registered,
    ) -> Option<Generation> {
        let mut state = self.lock();
        if state.nodes.get(node).map(|owner| owner.generation) != expected {
            return None;
        }
        state.generations += 1;
        let generation = Generation(state.generations);
        let registered = publish(generation);
        state.refusals.remove(node);
        state.nodes.insert(node.clone(), registered);
        Some(generation)
    }

    /// Removes the registration if it is of this generation. `false`: it was not the owner, nothing has changed.
    pub(crate) fn unregister(&self, node: &str, generation: Generation) -> bool {
        let mut state = self.lock();
        let owns = state.nodes.get(node).is_some_and(|owner| owner.generation == generation);
        if owns {
            state.nodes.remove(node);
            state.refusals.remove(node);
        }
        owns
    }

    /// Notes which providers the node will not run, if its owner is still of this generation. For people: what it means
    /// for requests is told to admission.
    pub(crate) fn set_refusals(&self, node: &Arc<str>, generation: Generation, refusals: Refusals) {
        let mut state = self.lock();
        if state.nodes.get(node).is_some_and(|owner| owner.generation == generation) {
            state.refusals.insert(node.clone(), refusals);
        }
    }

    /// What registered nodes will not run, by node.
    pub(crate) fn refusals(&self) -> BTreeMap<Arc<str>, Refusals> {
        self.lock().refusals.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the registry")
    }
}
