//! How many handshakes may be under way: of all peers, of one address, of one identity. Pure counts: the packets are sent
//! in `accept`, and what a finished handshake is worth is decided in `session`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// Handshakes under way from which on a peer must show that its address is its own. QUIC's Retry, which asks for that, is
/// not remembered here, and a peer that made its address up never gets it. It costs honest nodes one round trip.
const RETRY_FROM: usize = 200;

/// Most handshakes under way. Each holds some 40 KB and has five seconds.
const MOST: usize = 1024;

/// Most handshakes of one address, or of one /64 of IPv6: half, so that nobody takes all. A fleet behind one NAT fits.
const MOST_OF_ADDRESS: usize = MOST / 2;

/// Most connections of one identity that are not registered yet. Each may cost the identity's owner a Ping: fewer than
/// may be unanswered at once.
const MOST_OF_IDENTITY: usize = 8;

/// Everything under way. Cheap to clone; every clone is the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handshakes {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_party: BTreeMap<Party, usize>,
}

/// Whose handshakes are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// IPv4 addresses in their mapped form; of IPv6 the first half.
    Address(u128),
    Identity(Arc<str>),
}

/// What a new peer gets.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Its handshake, which counts until the place is dropped.
    Go(Place),
    /// A Retry: it may come again with proof that its address is its own.
    Prove,
    /// Nothing.
    Refuse,
}

/// One handshake under way, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Place {
    handshakes: Handshakes,
    party: Party,
}

impl Handshakes {
    /// A peer at `address` wants to begin; `proven` when its address is known to be its own.
    pub(crate) fn arrive(&self, address: IpAddr, proven: bool) -> Verdict {
        let mut counts = self.lock();
        let party = Party::Address(network(address));
        let own = counts.by_party.get(&party).copied().unwrap_or_default();
        if counts.all >= MOST || own >= MOST_OF_ADDRESS {
            return Verdict::Refuse;
        }
        if counts.all >= RETRY_FROM && !proven {
            return Verdict::Prove;
        }
        counts.all += 1;
        *counts.by_party.entry(party.clone()).or_default() += 1;
        drop(counts);
        Verdict::Go(Place { handshakes: self.clone(), party })
    }

    /// A connection of this identity wants to register. `None`: too many already do.
    pub(crate) fn identified(&self, node: &Arc<str>) -> Option<Place> {
        let mut counts = self.lock();
        let party = Party::Identity(node.clone());
        let own = counts.by_party.entry(party.clone()).or_default();
        if *own >= MOST_OF_IDENTITY {
            return None;
        }
        *own += 1;
        drop(counts);
        Some(Place { handshakes: self.clone(), party })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("no code panics while it holds the counts")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.handshakes.lock();
        if matches!(self.party, Party::Address(_)) {
            counts.all -= 1;
        }
        if let Some(own) = counts.by_party.get_mut(&self.party) {
            *own -= 1;
            if *own == 0 {
                counts.by_party.remove(&self.party);
            }
        }
    }
}

/// What one party can be expected to have only one of.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address) & !u128::from(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn v4(number: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(u32::try_from(number).expect("few addresses") + 0x0a00_0000))
    }

    fn go(verdict: Verdict) -> Place {
        match verdict {
            Verdict::Go(place) => place,
            other => panic!("it may begin: {other:?}"),
        }
    }

    #[test]
    fn addresses_must_be_proven_from_the_threshold_on_and_nobody_begins_beyond_the_limit() {
        let handshakes = Handshakes::default();
        let mut places: Vec<Place> =
            (0..RETRY_FROM).map(|number| go(handshakes.arrive(v4(number), false))).collect();
        assert!(matches!(handshakes.arrive(v4(9999), false), Verdict::Prove));
        places.extend((RETRY_FROM..MOST).map(|number| go(handshakes.arrive(v4(number), true))));
        assert!(matches!(handshakes.arrive(v4(9999), true), Verdict::Refuse));
        assert!(matches!(handshakes.arrive(v4(9999), false), Verdict::Refuse));
        places.truncate(RETRY_FROM - 1);
        places.push(go(handshakes.arrive(v4(9999), false)));
        places.clear();
        assert_eq!(handshakes.lock().all, 0);
        assert!(handshakes.lock().by_party.is_empty(), "nothing is remembered of who is gone");
    }

    #[test]
    fn one_address_leaves_room_for_others_and_counts_the_same_in_both_its_forms() {
        let handshakes = Handshakes::default();
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let places: Vec<Place> = (0..MOST_OF_ADDRESS)
            .map(|number| if number % 2 == 0 { mapped } else { Ipv4Addr::LOCALHOST.into() })
            .map(|address| go(handshakes.arrive(address, true)))
            .collect();
        assert!(matches!(handshakes.arrive(mapped, true), Verdict::Refuse));
        go(handshakes.arrive(v4(1), true));
        drop(places);
        go(handshakes.arrive(mapped, true));
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one_party() {
        let address = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(address("2001:db8:0:1::1"), address("2001:db8:0:1:ffff::2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
    }

    #[test]
    fn one_identity_has_few_places_and_takes_none_of_another_s() {
        let handshakes = Handshakes::default();
        let (own, other): (Arc<str>, Arc<str>) = ("gpu-a".into(), "gpu-b".into());
        let place = |node: &Arc<str>| handshakes.identified(node);
        let places: Vec<Place> = (0..MOST_OF_IDENTITY).map(|_| place(&own).expect("a place")).collect();
        assert!(place(&own).is_none());
        assert!(place(&other).is_some());
        drop(places);
        assert!(place(&own).is_some());
        assert_eq!(handshakes.lock().all, 0, "a finished handshake is none of those under way");
    }
}
