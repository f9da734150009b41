//! This machine's clock. Everything else in this crate is told the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// This machine's clock, in seconds since 1970 (negative before).
pub fn now() -> i64 {
    let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => seconds(after),
        Err(before) => -seconds(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_is_read_in_seconds() {
        let first_second_of_2026 = 1_767_225_600;
        let first_second_of_2200 = 7_258_118_400;
        let now = super::now();
        assert!(
            now > first_second_of_2026 && now < first_second_of_2200,
            "{now} is not a time of this machine"
        );
    }
}
