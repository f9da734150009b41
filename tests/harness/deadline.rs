//! Waiting for a condition, never for luck: look, pause a little, look again, and say what was last seen.
//! Real time only: with a paused clock the deadline would come at once.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Pause between two looks. Short against every deadline in use, long enough to cost nothing.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until `look` answers `Ok` and returns its value. `Err` carries what was seen instead.
///
/// # Panics
/// When `deadline` has passed, naming `what` and what was last seen.
pub async fn wait_until<T, S: Debug>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(value) => return value,
            Err(seen) if begun.elapsed() >= deadline => {
                give_up(what, deadline, &Some(seen), "the last look returned")
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// [`wait_until`] with a look that is itself a wait, such as a request. A look that hangs is cut at the deadline.
///
/// # Panics
/// When `deadline` has passed, naming `what` and what was last seen.
pub async fn wait_until_async<T, S: Debug>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let begun = Instant::now();
    let mut seen = None;
    loop {
        let left = deadline.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(value)) => return value,
            // A look that waits for nothing is never cut.
            Ok(Err(other)) if left.is_zero() => {
                give_up(what, deadline, &Some(other), "the last look returned")
            }
            Ok(Err(other)) => seen = Some(other),
            Err(_) => give_up(what, deadline, &seen, "the last look did not return"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// [`wait_until`] for code without a runtime.
///
/// # Panics
/// When `deadline` has passed, naming `what` and what was last seen.
pub fn wait_until_blocking<T, S: Debug>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(value) => return value,
            Err(seen) if begun.elapsed() >= deadline => {
                give_up(what, deadline, &Some(seen), "the last look returned")
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn give_up<S: Debug>(what: &str, deadline: Duration, seen: &Option<S>, ending: &str) -> ! {
    match seen {
        Some(seen) => panic!("waited {deadline:?} for: {what}; last seen: {seen:#?} ({ending})"),
        None => panic!("waited {deadline:?} for: {what}; nothing was seen ({ending})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::AssertUnwindSafe;

    fn message_of(run: impl FnOnce()) -> String {
        let payload = std::panic::catch_unwind(AssertUnwindSafe(run)).expect_err("it should have given up");
        payload.downcast::<String>().map(|text| *text).expect("a panic with arguments carries a String")
    }

    fn in_runtime(run: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime starts").block_on(run);
    }

    #[test]
    fn a_wait_that_fails_names_what_it_waited_for_and_what_it_last_saw() {
        let mut looks = 0;
        let message = message_of(|| {
            wait_until_blocking("the count to be -1", Duration::from_millis(20), || {
                looks += 1;
                Err::<(), _>(("count", 41))
            });
        });
        assert!(message.contains("the count to be -1"), "{message}");
        assert!(message.contains("41"), "{message}");
        assert!(looks > 1, "it should look more than once");
    }

    #[test]
    fn a_look_that_hangs_is_cut_at_the_deadline() {
        let message = message_of(|| {
            in_runtime(wait_until_async("an answer", Duration::from_millis(20), async || {
                std::future::pending::<Result<(), ()>>().await
            }));
        });
        assert!(message.contains("did not return"), "{message}");
    }

    #[test]
    fn a_look_that_waits_for_nothing_is_given_up_at_the_deadline_too() {
        let message = message_of(|| {
            in_runtime(wait_until_async("an answer", Duration::from_millis(20), async || Err::<(), _>(42)));
        });
        assert!(message.contains("42") && message.contains("the last look returned"), "{message}");
    }

    #[test]
    fn a_wait_returns_the_value_as_soon_as_it_is_there() {
        let mut looks = 0;
        in_runtime(async {
            let value = wait_until_async("three looks", Duration::from_secs(10), async || {
                looks += 1;
                if looks == 3 { Ok(looks) } else { Err(looks) }
            })
            .await;
            assert_eq!(value, 3);
        });
    }
}
