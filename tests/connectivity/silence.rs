//! A UDP port where nobody answers: the place of an edge that is not there. Notes who sends and when.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::time::{timeout, timeout_at};

use crate::lab::DEADLINE;

pub(crate) struct Silence {
    socket: UdpSocket,
}

/// The first and the last packet from each source. A node dials from a fresh socket each time, so a source is a dial.
pub(crate) struct Dials(BTreeMap<SocketAddr, (Instant, Instant)>);

impl Silence {
    pub(crate) fn new() -> Self {
        Self::at(0)
    }

    pub(crate) fn at(port: u16) -> Self {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("the port is free");
        socket.set_nonblocking(true).expect("a UDP socket can be made non-blocking");
        Self { socket: UdpSocket::from_std(socket).expect("a socket joins the runtime") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("a bound socket has an address")
    }

    /// Waits for a packet.
    pub(crate) async fn dialed(&self) {
        let mut packet = [0; 2048];
        timeout(DEADLINE, self.socket.recv_from(&mut packet))
            .await
            .expect("a packet in time")
            .expect("it is read");
    }

    /// Everything that arrives within this time.
    pub(crate) async fn listen_until(&self, time: Duration) -> Dials {
        let end = tokio::time::Instant::now() + time;
        let mut dials = Dials(BTreeMap::new());
        let mut packet = [0; 2048];
        while let Ok(received) = timeout_at(end, self.socket.recv_from(&mut packet)).await {
            let (_, source) = received.expect("a packet is read");
            let now = Instant::now();
            dials.0.entry(source).or_insert((now, now)).1 = now;
        }
        dials
    }

    /// How many dials there were since the last look, when nothing more comes.
    pub(crate) async fn dials_so_far(&self) -> usize {
        self.listen_until(Duration::from_millis(50)).await.sources()
    }
}

impl Dials {
    pub(crate) fn sources(&self) -> usize {
        self.0.len()
    }

    /// The most sources that were between their first and their last packet at one moment.
    pub(crate) fn most_at_once(&self) -> usize {
        let at = |moment: &Instant| {
            self.0.values().filter(|(first, last)| first <= moment && moment <= last).count()
        };
        self.0.values().map(|(first, _)| at(first)).max().unwrap_or_default()
    }
}
