//! The gate: how many runs of one provider this node lets in at once, whatever the edge believes ([tunnel-guard]).
//! A counter and its rules, nothing else; whoever holds it sees to it that each entry is left once.

/// One provider's gate, shared by its tunnel and normalized runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    capacity: u32,
    in_flight: u32,
}

/// The gate let nobody in: it is as full as its capacity, or fuller after the capacity was lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{in_flight} of {capacity} runs are in flight")]
pub struct GateFull {
    /// Runs that may be in flight at once.
    pub capacity: u32,
    /// Runs that are.
    pub in_flight: u32,
}

impl Gate {
    /// An empty gate for `capacity` runs at once. With 0 nobody enters.
    pub fn new(capacity: u32) -> Self {
        Self { capacity, in_flight: 0 }
    }

    /// Runs that may be in flight at once.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Runs that are in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Lets one run in, or changes nothing.
    pub fn try_enter(&mut self) -> Result<(), GateFull> {
        if self.in_flight >= self.capacity {
            return Err(GateFull { capacity: self.capacity, in_flight: self.in_flight });
        }
        self.in_flight += 1;
        Ok(())
    }

    /// One run that was let in is over.
    pub fn leave(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("only a run that entered leaves");
    }

    /// From now on this many. Runs in flight stay; below their number nothing enters until enough have left.
    pub fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, GateFull};

    #[test]
    fn a_full_gate_refuses_and_counts_nothing() {
        let mut gate = Gate::new(1);
        assert_eq!(gate.try_enter(), Ok(()));
        assert_eq!(gate.try_enter(), Err(GateFull { capacity: 1, in_flight: 1 }));
        gate.leave();
        assert_eq!(gate.in_flight(), 0);
        assert_eq!(gate.try_enter(), Ok(()));
    }

    #[test]
    fn lowered_below_the_runs_in_flight_it_lets_nobody_in_until_enough_have_left() {
        let mut gate = Gate::new(3);
        for _ in 0..3 {
            assert_eq!(gate.try_enter(), Ok(()));
        }
        gate.set_capacity(1);
        assert_eq!(gate.try_enter(), Err(GateFull { capacity: 1, in_flight: 3 }));
        gate.leave();
        gate.leave();
        assert_eq!(gate.try_enter(), Err(GateFull { capacity: 1, in_flight: 1 }));
        gate.leave();
        assert_eq!(gate.try_enter(), Ok(()));
    }

    #[test]
    fn raised_while_full_it_lets_the_next_in_at_once() {
        let mut gate = Gate::new(1);
        assert_eq!(gate.try_enter(), Ok(()));
        gate.set_capacity(2);
        assert_eq!(gate.try_enter(), Ok(()));
        assert_eq!(gate.try_enter(), Err(GateFull { capacity: 2, in_flight: 2 }));
    }

    #[test]
    fn without_capacity_nobody_enters() {
        assert_eq!(Gate::new(0).try_enter(), Err(GateFull { capacity: 0, in_flight: 0 }));
    }
}
