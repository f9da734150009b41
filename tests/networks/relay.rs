//! A UDP relay in the middle that delays every packet by a time of its own, so that packets overtake each other. What it
//! does to the n-th packet depends on its seed alone. It loses nothing.

use crate::namespaces::{EDGE, MIDDLE, Network, PORT, Side};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;

/// A packet's way takes at least this long.
const DELAY: Duration = Duration::from_millis(85);

/// And up to this much longer.
const JITTER_MICROS: u64 = 30_000;

/// Larger than any UDP packet of the product.
const PACKET_BYTES: usize = 2048;

/// A running relay at the middle's address on the node's side. It ends when dropped.
pub(crate) struct Relay {
    stop: Option<oneshot::Sender<()>>,
    overtaken: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn start(network: &Network, seed: u64) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, listening) = std::sync::mpsc::channel();
        let overtaken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&overtaken);
        let thread = network.within(Side::Middle, || {
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime starts").block_on(async {
                    let near = UdpSocket::bind((MIDDLE, PORT)).await.expect("the middle's address is free");
                    ready.send(()).expect("somebody waits");
                    tokio::select! {
                        () = relay(near, seed, &count) => {}
                        _ = stopped => {}
                    }
                });
            })
        });
        listening.recv().expect("the relay listens");
        Self { stop: Some(stop), overtaken, thread: Some(thread) }
    }

    /// Packets that a later one has overtaken.
    pub(crate) fn overtaken(&self) -> usize {
        self.overtaken.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the relay was printed already and shows in what the test misses.
            let _ended = thread.join();
        }
    }
}

/// One socket towards the edge for each source, as a NAT would have.
async fn relay(near: UdpSocket, seed: u64, overtaken: &Arc<AtomicUsize>) {
    let near = Arc::new(near);
    let mut there = Way::new(seed, overtaken);
    let mut sources: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut packet = [0; PACKET_BYTES];
    loop {
        let Ok((length, source)) = near.recv_from(&mut packet).await else { continue };
        let far = match sources.get(&source) {
            Some(far) => Arc::clone(far),
            None => {
                let far = UdpSocket::bind(("0.0.0.0", 0)).await.expect("a free port");
                far.connect((EDGE, PORT)).await.expect("a UDP socket connects at once");
                let far = Arc::new(far);
                sources.insert(source, Arc::clone(&far));
                let back = Way::new(seed ^ sources.len() as u64, overtaken);
                tokio::spawn(answers(Arc::clone(&far), Arc::clone(&near), source, back));
                far
            }
        };
        let bytes = packet[..length].to_vec();
        there.send(async move {
            // An edge that is not there refuses packets; they are lost, as on any network.
            let _lost = far.send(&bytes).await;
        });
    }
}

async fn answers(far: Arc<UdpSocket>, near: Arc<UdpSocket>, source: SocketAddr, mut back: Way) {
    let mut packet = [0; PACKET_BYTES];
    loop {
        let Ok(length) = far.recv(&mut packet).await else { continue };
        let (bytes, near) = (packet[..length].to_vec(), Arc::clone(&near));
        back.send(async move {
            let _lost = near.send_to(&bytes, source).await;
        });
    }
}

/// One direction: the dice (splitmix64), and who has overtaken whom.
struct Way {
    state: u64,
    sent: usize,
    /// The highest number that has arrived.
    arrived: Arc<AtomicUsize>,
    overtaken: Arc<AtomicUsize>,
}

impl Way {
    fn new(seed: u64, overtaken: &Arc<AtomicUsize>) -> Self {
        Self { state: seed, sent: 0, arrived: Arc::default(), overtaken: Arc::clone(overtaken) }
    }

    /// Sends a packet after its delay.
    fn send(&mut self, packet: impl Future<Output = ()> + Send + 'static) {
        self.sent += 1;
        let (number, delay) = (self.sent, self.delay());
        let (arrived, overtaken) = (Arc::clone(&self.arrived), Arc::clone(&self.overtaken));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if arrived.fetch_max(number, Ordering::Relaxed) > number {
                overtaken.fetch_add(1, Ordering::Relaxed);
            }
            packet.await;
        });
    }

    fn delay(&mut self) -> Duration {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        DELAY + Duration::from_micros((mixed ^ (mixed >> 31)) % JITTER_MICROS)
    }
}
