//! A network for UDP packets in memory: every node reaches the edge over a link of its own, which loses, delays, repeats
//! and holds packets as it is told and as a seed draws. It knows nothing of QUIC.

use super::random::Random;
use super::trace::Trace;
use iop_transport::udp::{EcnCodepoint, RecvMeta, Transmit};
use iop_transport::{AsyncUdpSocket, UdpPoller};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Where the edge listens.
pub(super) const EDGE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 7443);

/// Packets that a socket holds for its owner; more are lost.
const INBOX: usize = 4096;

/// How one node's link treats packets.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// Lost packets in a thousand.
    pub(super) loss: u64,
    /// Repeated packets in a thousand.
    pub(super) repeat: u64,
    pub(super) delay_ms: u64,
    /// Up to so much more, drawn for each packet: the way to another order.
    pub(super) jitter_ms: u64,
    /// Larger packets are lost.
    pub(super) mtu: usize,
    /// Nothing gets from the node to the edge.
    pub(super) cut_up: bool,
    /// Nothing gets from the edge to the node.
    pub(super) cut_down: bool,
    /// Packets wait until this is over.
    pub(super) frozen: bool,
}

/// The network. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Network {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// A packet is due earlier than the one waited for.
    earlier: Notify,
    trace: Trace,
}

#[derive(Debug)]
struct State {
    random: Random,
    links: Vec<Link>,
    sockets: BTreeMap<u64, Inbox>,
    routes: BTreeMap<SocketAddr, u64>,
    /// By time, then by order of sending.
    flying: BTreeMap<(Instant, u64), Packet>,
    held: Vec<Packet>,
    numbers: u64,
    ports: u16,
}

#[derive(Debug)]
struct Inbox {
    address: SocketAddr,
    packets: VecDeque<Packet>,
    waker: Option<Waker>,
    /// The process is gone: nothing comes out of it any more.
    dead: bool,
}

#[derive(Debug, Clone)]
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    /// The node whose link it takes.
    node: usize,
    ecn: Option<EcnCodepoint>,
    bytes: Vec<u8>,
}

/// One end of the network, for quinn.
#[derive(Debug)]
pub(super) struct Socket {
    network: Network,
    number: u64,
    /// `None`: the edge.
    node: Option<usize>,
}

impl Network {
    pub(super) fn new(random: Random, links: Vec<Link>, trace: Trace) -> Self {
        let state = State {
            random,
            links,
            sockets: BTreeMap::new(),
            routes: BTreeMap::new(),
            flying: BTreeMap::new(),
            held: Vec::new(),
            numbers: 0,
            ports: 10_000,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), earlier: Notify::new(), trace }) }
    }

    /// A socket of the edge (`None`) or of a node, at a fresh port.
    pub(super) fn open(&self, node: Option<usize>) -> Arc<Socket> {
        let mut state = self.lock();
        let address = match node {
            None => EDGE,
            Some(node) => state.fresh_address(node),
        };
        state.numbers += 1;
        let number = state.numbers;
        state.routes.insert(address, number);
        state.sockets.insert(number, Inbox { address, packets: VecDeque::new(), waker: None, dead: false });
        Arc::new(Socket { network: self.clone(), number, node })
    }

    /// Changes a node's link.
    pub(super) fn set_link(&self, node: usize, change: impl FnOnce(&mut Link)) {
        let mut state = self.lock();
        change(&mut state.links[node]);
        if !state.links[node].frozen {
            let held = std::mem::take(&mut state.held);
            let (thawed, held): (Vec<_>, Vec<_>) = held.into_iter().partition(|packet| packet.node == node);
            state.held = held;
            for packet in thawed {
                state.arrive(packet, &self.shared.trace);
            }
        }
    }

    /// The node's NAT forgets: all of its sockets appear under other addresses, and what is sent to the old ones is lost.
    pub(super) fn rebind(&self, node: usize, sockets: &[u64]) {
        let mut state = self.lock();
        for number in sockets {
            let address = state.fresh_address(node);
            if let Some(inbox) = state.sockets.get_mut(number) {
                let old = std::mem::replace(&mut inbox.address, address);
                state.routes.remove(&old);
                state.routes.insert(address, *number);
            }
        }
    }

    /// The socket's process is gone: it sends and gets nothing any more.
    pub(super) fn kill(&self, sockets: &[u64]) {
        let mut state = self.lock();
        for number in sockets {
            if let Some(inbox) = state.sockets.get_mut(number) {
                inbox.dead = true;
                inbox.packets.clear();
                let address = inbox.address;
                // A successor may listen there already.
                if state.routes.get(&address) == Some(number) {
                    state.routes.remove(&address);
                }
            }
        }
    }

    /// Sockets that somebody still holds.
    pub(super) fn open_sockets(&self) -> usize {
        self.lock().sockets.len()
    }

    /// Delivers packets when they are due. Runs until dropped.
    pub(super) async fn run(self) {
        loop {
            let next = {
                let mut state = self.lock();
                let now = Instant::now();
                while let Some(entry) = state.flying.first_entry().filter(|entry| entry.key().0 <= now) {
                    let packet = entry.remove();
                    state.arrive(packet, &self.shared.trace);
                }
                state.flying.keys().next().map(|(due, _)| *due)
            };
            match next {
                Some(due) => tokio::select! {
                    biased;
                    () = sleep_until(due) => {}
                    () = self.shared.earlier.notified() => {}
                },
                None => self.shared.earlier.notified().await,
            }
        }
    }

    fn send(&self, socket: &Socket, transmit: &Transmit<'_>) {
        let mut state = self.lock();
        let Some(inbox) = state.sockets.get(&socket.number).filter(|inbox| !inbox.dead) else { return };
        let (from, to) = (inbox.address, transmit.destination);
        let Some(node) = socket.node.or_else(|| node_of(to)) else { return };
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        let before = state.flying.keys().next().copied();
        for bytes in transmit.contents.chunks(segment) {
            let packet = Packet { from, to, node, ecn: transmit.ecn, bytes: bytes.to_vec() };
            state.post(packet, socket.node.is_some(), &self.shared.trace);
        }
        let after = state.flying.keys().next().copied();
        if after != before {
            self.shared.earlier.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("nothing panics while it holds the network")
    }
}

impl State {
    fn fresh_address(&mut self, node: usize) -> SocketAddr {
        self.ports += 1;
        let host = u8::try_from(node + 1).expect("few nodes");
        SocketAddr::from((Ipv4Addr::new(10, 0, host, 1), self.ports))
    }

    /// Draws what becomes of a packet.
    fn post(&mut self, packet: Packet, up: bool, trace: &Trace) {
        let link = &self.links[packet.node];
        let lost = if up { link.cut_up } else { link.cut_down } || packet.bytes.len() > link.mtu;
        let copies = 1 + u64::from(self.random.chance(link.repeat));
        for _ in 0..copies {
            let lost = lost || self.random.chance(link.loss);
            let delay = link.delay_ms + self.random.below(link.jitter_ms + 1);
            let fate = if lost { u64::MAX } else { delay };
            trace.packet(port(packet.from), port(packet.to), packet.bytes.len(), fate);
            if !lost {
                self.numbers += 1;
                let due = Instant::now() + Duration::from_millis(delay);
                self.flying.insert((due, self.numbers), packet.clone());
            }
        }
    }

    fn arrive(&mut self, packet: Packet, trace: &Trace) {
        if self.links[packet.node].frozen {
            self.held.push(packet);
            return;
        }
        let Some(number) = self.routes.get(&packet.to) else { return };
        let Some(inbox) = self.sockets.get_mut(number) else { return };
        trace.packet(port(packet.from), port(packet.to), packet.bytes.len(), 1 << 40);
        if inbox.packets.len() < INBOX {
            inbox.packets.push_back(packet);
        }
        if let Some(waker) = inbox.waker.take() {
            waker.wake();
        }
    }
}

impl Socket {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.network.kill(&[self.number]);
        self.network.lock().sockets.remove(&self.number);
    }
}

#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.network.send(self, transmit);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.network.lock();
        let inbox = state.sockets.get_mut(&self.number).expect("a socket is listed until its drop");
        if inbox.packets.is_empty() {
            inbox.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(meta) {
            let Some(packet) = inbox.packets.pop_front() else { break };
            let len = packet.bytes.len().min(buf.len());
            buf[..len].copy_from_slice(&packet.bytes[..len]);
            *meta = RecvMeta { addr: packet.from, len, stride: len, ecn: packet.ecn, dst_ip: None };
            count += 1;
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let state = self.network.lock();
        Ok(state.sockets.get(&self.number).expect("a socket is listed until its drop").address)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// The node that an address belongs to.
fn node_of(address: SocketAddr) -> Option<usize> {
    match address {
        SocketAddr::V4(v4) => usize::from(v4.ip().octets()[2]).checked_sub(1),
        SocketAddr::V6(_) => None,
    }
}

fn port(address: SocketAddr) -> u64 {
    u64::from(address.port())
}
