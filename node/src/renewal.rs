//! When a node asks for a new certificate. Pure: the clock is an argument, in seconds since 1970. Asking is `session`'s work.

use iop_certs::is_renewal_due;

const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

/// Nodes that got their certificates at the same time spread what they ask over this part of a certificate's life.
const SPREAD_PART: i64 = 10;

/// From when to when a certificate is good, both seconds included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

impl Life {
    fn seconds(self) -> i64 {
        self.not_after.saturating_sub(self.not_before)
    }
}

/// When one process asks, over all of its connections.
#[derive(Debug)]
pub(crate) struct Plan {
    /// How far this process is into the spread, of 65535.
    place: u16,
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    at: i64,
    pause: i64,
}

impl Plan {
    /// `instance` is random, one per process.
    pub(crate) fn new(instance: [u8; 16]) -> Self {
        Self { place: u16::from_be_bytes([instance[0], instance[1]]), asked: None }
    }

    /// Whether to ask for a certificate after one with this life.
    pub(crate) fn is_due(&self, life: Life, now: i64) -> bool {
        let spread = i128::from(life.seconds() / SPREAD_PART) * i128::from(self.place) / i128::from(u16::MAX);
        let spread = i64::try_from(spread).unwrap_or(i64::MAX);
        // A clock that was set back ends every pause.
        let paused = self
            .asked
            .as_ref()
            .is_some_and(|asked| (asked.at..asked.at.saturating_add(asked.pause)).contains(&now));
        !paused && is_renewal_due(life.not_before, life.not_after, now.saturating_sub(spread))
    }

    /// It begins to ask. Whatever comes of it, it does not ask again for a while.
    pub(crate) fn ask(&mut self, life: Life, now: i64) {
        self.asked = Some(Asked { at: now, pause: (life.seconds() / SPREAD_PART).clamp(HOUR, DAY) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Good for 90 days.
    const LIFE: Life = Life { not_before: 0, not_after: 90 * DAY };

    /// A process at this place of the spread.
    fn plan(place: u16) -> Plan {
        let [high, low] = place.to_be_bytes();
        let mut instance = [7; 16];
        (instance[0], instance[1]) = (high, low);
        Plan::new(instance)
    }

    // [certs]
    #[test]
    fn a_node_asks_after_a_third_of_its_certificates_life_and_up_to_a_tenth_later() {
        let table = [
            (0, 30 * DAY - 1, false),
            (0, 30 * DAY, true),
            (u16::MAX / 2, 34 * DAY, false),
            (u16::MAX / 2, 35 * DAY, true),
            (u16::MAX, 39 * DAY - 1, false),
            (u16::MAX, 39 * DAY, true),
            (u16::MAX, 90 * DAY, true),
        ];
        for (place, now, due) in table {
            assert_eq!(plan(place).is_due(LIFE, now), due, "{place} {now}");
        }
        let shortest = Life { not_before: 0, not_after: HOUR };
        assert!(!plan(u16::MAX).is_due(shortest, 1559) && plan(u16::MAX).is_due(shortest, 1560));
        let for_ever = Life { not_before: 0, not_after: i64::MAX };
        assert!(!plan(0).is_due(for_ever, 100 * 365 * DAY) && !plan(u16::MAX).is_due(for_ever, i64::MAX / 3));
    }

    // [certs]
    #[test]
    fn whatever_came_of_it_it_does_not_ask_again_for_a_day_or_a_tenth_of_a_short_life() {
        let short = Life { not_before: 0, not_after: 5 * DAY };
        let shortest = Life { not_before: 0, not_after: HOUR };
        for (life, pause) in [(LIFE, DAY), (short, DAY / 2), (shortest, HOUR)] {
            let (mut plan, at) = (plan(0), 40 * DAY);
            assert!(plan.is_due(life, at));
            plan.ask(life, at);
            for (now, due) in [
                (at, false),
                (at + pause - 1, false),
                (at + pause, true),
                (at - DAY, at - DAY >= life.not_after / 3),
            ] {
                assert_eq!(plan.is_due(life, now), due, "{life:?} {now}");
            }
        }
    }
}
