//! A bound on a listener's connections that nobody uses up who is of no use: where there is no place left for a newcomer, the
//! connection gives its own up that has been of no use for longest. Only requests that are kept are never ended for one: if
//! every place has such, the newcomer waits. What is asked for, and who keeps what, is not known here.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often the log says that newcomers wait.
pub(crate) const SAID_EVERY: Duration = Duration::from_secs(60);

/// The places of one listener. Cheap to clone; every clone is the same.
#[derive(Debug, Clone)]
pub(super) struct Places {
    max: NonZeroUsize,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Told when a place may have become free.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// Grows with everything that happens: names connections, and orders what they did.
    clock: u64,
    held: BTreeMap<u64, Held>,
    /// When it was last said that newcomers wait.
    said: Option<Instant>,
}

/// What one connection does.
#[derive(Debug)]
struct Held {
    /// When it last began or ended anything, on the table's clock.
    active: u64,
    /// Requests whose answers have not ended.
    running: usize,
    /// Those of them whose answers have no length.
    endless: usize,
    /// Requests that are kept, until their answers are sent.
    kept: usize,
    /// Those of them whose answers have ended, but may not be sent.
    unsent: usize,
    leave: CancellationToken,
}

/// One connection's place. Its drop gives it back.
#[derive(Debug)]
pub(super) struct Place {
    requests: Requests,
    leave: CancellationToken,
}

/// Where a connection's requests are counted.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    number: u64,
    places: Places,
    /// Spares a look at the table for each piece that is sent.
    has_unsent: Arc<AtomicBool>,
}

/// A request until its answer has ended. Every request has a clone among its extensions; the last one that is dropped ends it.
#[derive(Debug, Clone)]
pub(crate) struct Running(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    requests: Requests,
    is_endless: AtomicBool,
    is_kept: AtomicBool,
}

impl Places {
    pub(super) fn new(max: NonZeroUsize) -> Self {
        Self { max, shared: Arc::default() }
    }

    /// A place for a new connection. Without a free one, another connection is told to leave; waits where none may be told so.
    pub(super) async fn take(&self) -> Place {
        loop {
            if let Some(place) = self.try_take() {
                return place;
            }
            self.say_full(Instant::now());
            self.shared.freed.notified().await;
        }
    }

    fn try_take(&self) -> Option<Place> {
        let mut table = self.lock();
        if table.held.len() >= self.max.get() && !table.make_room() {
            return None;
        }
        let (number, leave) = (table.tick(), CancellationToken::new());
        let held = Held { active: number, running: 0, endless: 0, kept: 0, unsent: 0, leave: leave.clone() };
        table.held.insert(number, held);
        let requests = Requests { number, places: self.clone(), has_unsent: Arc::default() };
        Some(Place { requests, leave })
    }

    fn say_full(&self, now: Instant) {
        let mut table = self.lock();
        if table.said.is_none_or(|said| now.duration_since(said) >= SAID_EVERY) {
            table.said = Some(now);
            warn!(connections = self.max, "every connection there may be has a request: new ones wait");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().expect("no code panics while it holds the places")
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes the place of one that runs nothing, or else of one whose answers have an end; of these, of the one where
    /// nothing has happened for longest. False if all have requests that are kept.
    fn make_room(&mut self) -> bool {
        let use_of = |held: &Held| (held.endless > 0, held.running > 0, held.active);
        let may_leave = self.held.iter().filter(|(_, held)| held.kept == 0);
        let least = may_leave.min_by_key(|(_, held)| use_of(held)).map(|(number, _)| *number);
        let Some(held) = least.and_then(|number| self.held.remove(&number)) else { return false };
        held.leave.cancel();
        true
    }
}

impl Place {
    /// Where its requests are counted.
    pub(super) fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Ends when the place is needed for a newcomer: the connection must end too.
    pub(super) async fn is_needed(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Places { shared, .. } = &self.requests.places;
        self.requests.places.lock().held.remove(&self.requests.number);
        shared.freed.notify_one();
    }
}

impl Requests {
    /// Counts a request.
    pub(super) fn begin(&self) -> Running {
        self.update(|held| held.running += 1);
        let (is_endless, is_kept) = (AtomicBool::new(false), AtomicBool::new(false));
        Running(Arc::new(Counted { requests: self.clone(), is_endless, is_kept }))
    }

    /// Everything of the answers that have ended is with the system, which sends it on even if the connection is closed.
    pub(super) fn are_sent(&self) {
        if self.has_unsent.swap(false, Ordering::Relaxed) {
            self.update(|held| held.kept -= std::mem::take(&mut held.unsent));
            self.places.shared.freed.notify_one();
        }
    }

    /// A connection that must leave has no place to count in.
    fn update(&self, change: impl FnOnce(&mut Held)) {
        let mut table = self.places.lock();
        let now = table.tick();
        if let Some(held) = table.held.get_mut(&self.number) {
            held.active = now;
            change(held);
        }
    }
}

impl Running {
    /// Its answer has no length: it goes on for as long as both sides like.
    pub(super) fn is_endless(&self) {
        if !self.0.is_endless.swap(true, Ordering::Relaxed) {
            self.0.requests.update(|held| held.endless += 1);
        }
    }

    /// Its connection is not closed for a newcomer until its answer is sent.
    pub(crate) fn keep(&self) {
        if !self.0.is_kept.swap(true, Ordering::Relaxed) {
            self.0.requests.update(|held| held.kept += 1);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let endless = usize::from(*self.is_endless.get_mut());
        let kept = *self.is_kept.get_mut();
        self.requests.update(|held| {
            held.running -= 1;
            held.endless -= endless;
            held.unsent += usize::from(kept);
        });
        if kept {
            self.requests.has_unsent.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(max: usize) -> Places {
        Places::new(NonZeroUsize::new(max).expect("not zero"))
    }

    fn take(places: &Places) -> Place {
        places.try_take().expect("one may leave")
    }

    fn must_leave(places: &[Place]) -> Vec<usize> {
        let leaving = places.iter().enumerate().filter(|(_, place)| place.leave.is_cancelled());
        leaving.map(|(index, _)| index).collect()
    }

    #[test]
    fn while_there_is_room_nobody_leaves_and_a_place_given_back_is_room() {
        let places = places(2);
        let stays = take(&places);
        for _ in 0..10 {
            drop(take(&places));
        }
        let last = take(&places);
        assert_eq!(must_leave(&[stays, last]), Vec::<usize>::new());
    }

    #[test]
    fn the_connection_leaves_that_has_been_idle_for_longest() {
        let places = places(3);
        let mut held = vec![take(&places), take(&places), take(&places)];
        drop(held[0].requests().begin());
        held.push(take(&places));
        assert_eq!(must_leave(&held), [1]);
        held.push(take(&places));
        assert_eq!(must_leave(&held), [1, 2]);
    }

    #[test]
    fn one_that_runs_a_request_leaves_after_the_idle_ones_and_one_with_an_endless_answer_last() {
        let places = places(3);
        let mut held = vec![take(&places), take(&places), take(&places)];
        let endless = held[0].requests().begin();
        endless.is_endless();
        let running = held[1].requests().begin();
        held.push(take(&places));
        assert_eq!(must_leave(&held), [2], "the idle one");
        let also_running = held[3].requests().begin();
        held.push(take(&places));
        assert_eq!(must_leave(&held), [1, 2], "no newcomer waits for a request to end");
        let endless_too: Vec<Running> = [3, 4].map(|index: usize| held[index].requests().begin()).into();
        for running in endless_too {
            running.is_endless();
            std::mem::forget(running);
        }
        held.push(take(&places));
        assert_eq!(must_leave(&held), [0, 1, 2], "where all are endless, the oldest");
        drop((endless, running, also_running));
    }

    #[test]
    fn an_endless_answer_that_has_ended_keeps_no_place() {
        let places = places(2);
        let mut held = vec![take(&places), take(&places)];
        let ended = held[0].requests().begin();
        ended.is_endless();
        drop(ended);
        let _running = held[1].requests().begin();
        held.push(take(&places));
        assert_eq!(must_leave(&held), [0]);
    }

    #[test]
    fn a_connection_with_a_request_that_is_kept_never_leaves_until_its_answer_is_sent() {
        let places = places(2);
        let mut held = vec![take(&places), take(&places)];
        let [first, second] = [0, 1].map(|index: usize| held[index].requests().begin());
        first.keep();
        first.keep();
        let requests = held[0].requests();
        held.push(take(&places));
        assert_eq!(must_leave(&held), [1], "a request alone keeps no place");
        let third = held[2].requests().begin();
        third.keep();
        drop(first);
        assert!(places.try_take().is_none(), "the answer has ended, but may not be sent");
        requests.are_sent();
        held.push(take(&places));
        assert_eq!(must_leave(&held), [0, 1]);
        drop((second, third));
    }

    #[tokio::test]
    async fn who_finds_only_kept_requests_waits_for_one_that_is_sent_or_for_a_place_given_back() {
        let places = places(1);
        let first = take(&places);
        let running = first.requests().begin();
        running.keep();
        let waits = tokio::spawn({
            let places = places.clone();
            async move { places.take().await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(running);
        first.requests().are_sent();
        let second = waits.await.expect("it does not panic");
        assert!(first.leave.is_cancelled());

        let running = second.requests().begin();
        running.keep();
        let waits = tokio::spawn(async move { places.take().await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(second);
        waits.await.expect("it does not panic");
    }
}
