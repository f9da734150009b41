//! When a peer's certificate ends, by this machine's wall clock. What follows from it is the session's business.

use std::time::Duration;
use tokio::time::sleep;

/// Longest time between two looks at the clock. Timers stand still while a machine sleeps, and clocks are set: the end of
/// a certificate is not missed by more than this.
const LOOK: Duration = Duration::from_secs(60);

/// Resolves when `not_after`, the last good second since 1970, is over.
pub(super) async fn expired(not_after: i64) {
    while let Some(rest) = until_next_look(not_after, iop_certs::now()) {
        sleep(rest).await;
    }
}

/// How long to sleep before the clock is looked at again; `None` when the certificate has expired.
fn until_next_look(not_after: i64, now: i64) -> Option<Duration> {
    let rest = not_after.saturating_sub(now).saturating_add(1);
    let rest = u64::try_from(rest).ok().filter(|rest| *rest > 0)?;
    Some(Duration::from_secs(rest).min(LOOK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_good_second_is_still_good_and_the_clock_is_looked_at_often() {
        let seconds = |not_after, now| until_next_look(not_after, now).map(|rest| rest.as_secs());
        assert_eq!(seconds(1000, 1001), None);
        assert_eq!(seconds(1000, 5000), None);
        assert_eq!(seconds(1000, 1000), Some(1));
        assert_eq!(seconds(1000, 990), Some(11));
        assert_eq!(seconds(1000, -1000), Some(60));
        assert_eq!(seconds(i64::MAX - 1, 0), Some(60));
        assert_eq!(seconds(i64::MAX, -1), Some(60));
        assert_eq!(seconds(i64::MIN, 0), None);
    }
}
