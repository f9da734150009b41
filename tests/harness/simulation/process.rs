//! A process as the world sees it: its sockets and streams. It can die, so that nothing comes out of it any more whatever
//! its tasks still do, and it can be frozen.

use super::network::{Network, Socket};
use super::stream::{Cable, Stream, pair};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Process {
    network: Network,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    dead: bool,
    frozen: bool,
    cables: Vec<Cable>,
    sockets: Vec<u64>,
}

impl Process {
    pub(super) fn new(network: Network) -> Self {
        Self { network, state: Arc::default() }
    }

    /// A UDP socket of its own; none once it is dead.
    pub(super) fn open(&self, node: Option<usize>) -> Option<Arc<Socket>> {
        let mut state = self.lock();
        if state.dead {
            return None;
        }
        let socket = self.network.open(node);
        state.sockets.push(socket.number());
        Some(socket)
    }

    /// A stream between it, as the opener or not, and somebody else; none once it is dead.
    pub(super) fn connect(&self) -> Option<(Stream, Stream, Cable)> {
        let mut state = self.lock();
        if state.dead {
            return None;
        }
        let (opener, other, cable) = pair();
        cable.freeze(state.frozen);
        state.cables.retain(Cable::is_open);
        state.cables.push(cable.clone());
        Some((opener, other, cable))
    }

    /// Dies: streams are reset, sockets are mute and deaf.
    pub(super) fn kill(&self) {
        let mut state = self.lock();
        state.dead = true;
        state.cables.drain(..).for_each(|cable| cable.cut());
        self.network.kill(&state.sockets);
    }

    /// Stands still, as far as others can see.
    pub(super) fn freeze(&self, frozen: bool) {
        let mut state = self.lock();
        state.frozen = frozen;
        state.cables.iter().for_each(|cable| cable.freeze(frozen));
    }

    /// Its sockets.
    pub(super) fn sockets(&self) -> Vec<u64> {
        self.lock().sockets.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a process")
    }
}

/// The clients' side of a listener.
#[derive(Debug, Clone)]
pub(super) struct Door {
    process: Process,
    queue: UnboundedSender<Stream>,
}

/// The listener's side.
#[derive(Debug)]
pub(super) struct Listener {
    queue: UnboundedReceiver<Stream>,
}

/// A listener of this process.
pub(super) fn listen(process: &Process) -> (Door, Listener) {
    let (sender, queue) = unbounded_channel();
    (Door { process: process.clone(), queue: sender }, Listener { queue })
}

impl Door {
    /// `None`: nobody listens.
    pub(super) fn connect(&self) -> Option<Stream> {
        let (opener, other, _) = self.process.connect()?;
        self.queue.send(other).ok()?;
        Some(opener)
    }
}

impl iop_edge::Accept for Listener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn iop_edge::ClientStream>>> {
        match ready!(self.queue.poll_recv(cx)) {
            Some(stream) => Poll::Ready(Ok(Box::new(stream))),
            // Nobody can come any more.
            None => Poll::Pending,
        }
    }
}
