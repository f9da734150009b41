//! A bound on a listener's connections that locks nobody out: a newcomer always gets a place, and where there is none left
//! the connection gives its own up that has been of no use for longest. What is asked on them is not known here.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// The places of one listener. Cheap to clone; every clone is the same.
#[derive(Debug, Clone)]
pub(super) struct Places {
    max: NonZeroUsize,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    /// Grows with everything that happens: names connections, and orders what they did.
    clock: u64,
    held: BTreeMap<u64, Held>,
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
}

/// A request until its answer has ended.
#[derive(Debug)]
pub(super) struct Running {
    requests: Requests,
    is_endless: bool,
}

impl Places {
    pub(super) fn new(max: NonZeroUsize) -> Self {
        Self { max, table: Arc::default() }
    }

    /// A place for a new connection. Without a free one, another connection is told to leave.
    pub(super) fn take(&self) -> Place {
        let mut table = self.lock();
        if table.held.len() >= self.max.get() {
            table.make_room();
        }
        let (number, leave) = (table.tick(), CancellationToken::new());
        table.held.insert(number, Held { active: number, running: 0, endless: 0, leave: leave.clone() });
        Place { requests: Requests { number, places: self.clone() }, leave }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no code panics while it holds the places")
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes the place of one that runs nothing, or else of one whose answers have an end; of these, of the one where
    /// nothing has happened for longest.
    fn make_room(&mut self) {
        let use_of = |held: &Held| (held.endless > 0, held.running > 0, held.active);
        let least = self.held.iter().min_by_key(|(_, held)| use_of(held)).map(|(number, _)| *number);
        if let Some(held) = least.and_then(|number| self.held.remove(&number)) {
            held.leave.cancel();
        }
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
        self.requests.places.lock().held.remove(&self.requests.number);
    }
}

impl Requests {
    /// Counts a request.
    pub(super) fn begin(&self) -> Running {
        self.update(|held| held.running += 1);
        Running { requests: self.clone(), is_endless: false }
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
    pub(super) fn is_endless(&mut self) {
        self.is_endless = true;
        self.requests.update(|held| held.endless += 1);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let endless = usize::from(self.is_endless);
        self.requests.update(|held| {
            held.running -= 1;
            held.endless -= endless;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(max: usize) -> Places {
        Places::new(NonZeroUsize::new(max).expect("not zero"))
    }

    fn must_leave(places: &[Place]) -> Vec<usize> {
        let leaving = places.iter().enumerate().filter(|(_, place)| place.leave.is_cancelled());
        leaving.map(|(index, _)| index).collect()
    }

    #[test]
    fn while_there_is_room_nobody_leaves_and_a_place_given_back_is_room() {
        let places = places(2);
        let stays = places.take();
        for _ in 0..10 {
            drop(places.take());
        }
        let last = places.take();
        assert_eq!(must_leave(&[stays, last]), Vec::<usize>::new());
    }

    #[test]
    fn the_connection_leaves_that_has_been_idle_for_longest() {
        let places = places(3);
        let mut held = vec![places.take(), places.take(), places.take()];
        drop(held[0].requests().begin());
        held.push(places.take());
        assert_eq!(must_leave(&held), [1]);
        held.push(places.take());
        assert_eq!(must_leave(&held), [1, 2]);
    }

    #[test]
    fn one_that_runs_a_request_leaves_after_the_idle_ones_and_one_with_an_endless_answer_last() {
        let places = places(3);
        let mut held = vec![places.take(), places.take(), places.take()];
        let mut endless = held[0].requests().begin();
        endless.is_endless();
        let running = held[1].requests().begin();
        held.push(places.take());
        assert_eq!(must_leave(&held), [2], "the idle one");
        let also_running = held[3].requests().begin();
        held.push(places.take());
        assert_eq!(must_leave(&held), [1, 2], "no newcomer waits for a request to end");
        let endless_too: Vec<Running> = [3, 4].map(|index: usize| held[index].requests().begin()).into();
        for mut running in endless_too {
            running.is_endless();
            std::mem::forget(running);
        }
        held.push(places.take());
        assert_eq!(must_leave(&held), [0, 1, 2], "where all are endless, the oldest");
        drop((endless, running, also_running));
    }

    #[test]
    fn an_endless_answer_that_has_ended_keeps_no_place() {
        let places = places(2);
        let mut held = vec![places.take(), places.take()];
        let mut ended = held[0].requests().begin();
        ended.is_endless();
        drop(ended);
        let _running = held[1].requests().begin();
        held.push(places.take());
        assert_eq!(must_leave(&held), [0]);
    }
}
