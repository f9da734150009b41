//! Looking at something again and again, until what is there has changed and settled. What a change means is the caller's.

use super::Looking;
use std::time::Duration;
use tokio::time::sleep;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// A change counts when a second look this much later sees the same, so that a file that is being written by hand is left
/// alone until it is whole.
const SETTLE: Duration = Duration::from_millis(100);

/// Has each settled change judged once; `judged` is what counts at first. Runs until dropped.
pub(crate) async fn watch<'s, T>(
    mut judged: T,
    look: impl Fn() -> Looking<'s, T>,
    is_same: impl Fn(&T, &T) -> bool,
    judge: impl Fn(&T),
) {
    loop {
        sleep(INTERVAL).await;
        let seen = look().await;
        if is_same(&seen, &judged) {
            continue;
        }
        sleep(SETTLE).await;
        if is_same(&look().await, &seen) {
            judge(&seen);
            judged = seen;
        }
    }
}
