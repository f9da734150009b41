//! How often peers may make the edge write into its log: a flood of them must not become a flood of lines. Which lines
//! these are is decided where they are written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Lines about one party within one [`PERIOD`]. A node that flaps at its shortest interval stays below it.
pub(crate) const LINES: u32 = 20;

/// The time in which lines are counted.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// Whose lines are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// Everybody who is not a configured node.
    Stranger,
    /// One configured node.
    Node(Arc<str>),
}

/// The counts. Cheap to clone; every clone is the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quiet {
    counts: Arc<Mutex<BTreeMap<Who, Count>>>,
    /// Told when a line is left out.
    left_out: Arc<Notify>,
}

/// The lines of one party in its present period.
#[derive(Debug)]
struct Count {
    since: Instant,
    said: u32,
    left_out: u64,
}

impl Count {
    fn may_say(&mut self, now: Instant) -> Option<Option<u64>> {
        if now.duration_since(self.since) >= PERIOD {
            (self.since, self.said) = (now, 0);
        }
        if self.said == LINES {
            self.left_out += 1;
            return None;
        }
        self.said += 1;
        Some(Some(std::mem::take(&mut self.left_out)).filter(|left_out| *left_out > 0))
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= PERIOD
    }
}

impl Quiet {
    /// Whether a line about this party may be written now, and how many were left out before it, if any were.
    pub(crate) fn may_say(&self, who: Who) -> Option<Option<u64>> {
        self.may_say_at(Instant::now(), who)
    }

    fn may_say_at(&self, now: Instant, who: Who) -> Option<Option<u64>> {
        let new = Count { since: now, said: 0, left_out: 0 };
        let answer = self.lock().entry(who).or_insert(new).may_say(now);
        if answer.is_none() {
            self.left_out.notify_one();
        }
        answer
    }

    /// Says how many lines were left out where no further line has said it. Runs until dropped.
    pub(crate) async fn run_timer(&self) {
        loop {
            self.left_out.notified().await;
            sleep(PERIOD).await;
            for (who, left_out) in self.forget(Instant::now()) {
                tracing::warn!(?who, left_out, "lines like the last ones about this peer were left out");
            }
            if !self.lock().is_empty() {
                self.left_out.notify_one();
            }
        }
    }

    /// Drops the counts of periods that are over and returns what they left out.
    fn forget(&self, now: Instant) -> Vec<(Who, u64)> {
        let over = self.lock().extract_if(.., |_, count| count.is_over(now)).collect::<Vec<_>>();
        let counts = over.into_iter().map(|(who, count)| (who, count.left_out));
        counts.filter(|(_, left_out)| *left_out > 0).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Who, Count>> {
        self.counts.lock().expect("no code panics while it holds the counts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_writes_few_lines_and_says_how_many_it_did_not_write() {
        let (quiet, begun) = (Quiet::default(), Instant::now());
        let said = (0..1000).filter(|_| quiet.may_say_at(begun, Who::Stranger).is_some()).count();
        assert_eq!(said, 20);
        let node = Who::Node("gpu-a".into());
        assert_eq!(quiet.may_say_at(begun, node), Some(None), "others are not silenced");
        assert_eq!(quiet.may_say_at(begun + PERIOD, Who::Stranger), Some(Some(980)));
        assert_eq!(quiet.may_say_at(begun + PERIOD, Who::Stranger), Some(None));
    }

    #[test]
    fn what_a_flood_left_out_is_told_after_it_and_then_nothing_is_kept() {
        let (quiet, begun) = (Quiet::default(), Instant::now());
        assert_eq!((0..50).filter(|_| quiet.may_say_at(begun, Who::Stranger).is_some()).count(), 20);
        assert_eq!(quiet.forget(begun), []);
        assert_eq!(quiet.forget(begun + PERIOD), [(Who::Stranger, 30)]);
        assert!(quiet.lock().is_empty());
    }
}
