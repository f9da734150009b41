//! How messages show times, paths and text that came from elsewhere.

use std::fmt;
use std::path::Path;

use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// Foreign text in messages is cut to this many characters: a certificate may be large, a log line may not.
const MAX_FOREIGN: usize = 100;

/// Shows seconds since 1970 as `2026-12-01T14:20:43Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc(
    /// The seconds.
    pub i64,
);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(at) = OffsetDateTime::from_unix_timestamp(self.0) else {
            return write!(f, "{} seconds since 1970", self.0);
        };
        let (date, (hour, minute, second)) = (at.date(), at.to_hms());
        let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The seconds since 1970 of a time as [`Utc`] shows it, and of no other text.
pub(crate) fn utc(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let small = |number: i32| u8::try_from(number).ok();
    let date = Date::from_calendar_date(year, Month::try_from(small(month)?).ok()?, small(day)?).ok()?;
    let time = Time::from_hms(small(hour)?, small(minute)?, small(second)?).ok()?;
    let seconds = PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp();
    (Utc(seconds).to_string() == text).then_some(seconds)
}

fn numbers(text: &str, separator: char) -> Option<[i32; 3]> {
    let numbers: Vec<i32> = text.split(separator).map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// A path as one word of a POSIX shell, for commands that a message tells the reader to run.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Text from a certificate, escaped and cut.
pub(crate) fn foreign(text: &str) -> String {
    let mut out: String = text.chars().take(MAX_FOREIGN).flat_map(char::escape_default).collect();
    if text.chars().nth(MAX_FOREIGN).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc_and_impossible_ones_as_numbers() {
        assert_eq!(Utc(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Utc(1_800_000_000).to_string(), "2027-01-15T08:00:00Z");
        assert_eq!(Utc(i64::MAX).to_string(), format!("{} seconds since 1970", i64::MAX));
    }

    #[test]
    fn a_time_is_read_back_as_it_is_shown_and_in_no_other_form() {
        for seconds in [0, 1_800_000_000, 951_782_400, 253_402_300_799] {
            assert_eq!(utc(&Utc(seconds).to_string()), Some(seconds));
        }
        for text in [
            "",
            "2027-01-15",
            "2027-01-15T08:00:00",
            "2027-01-15 08:00:00Z",
            "2027-1-15T08:00:00Z",
            "2027-01-15T8:00:00Z",
            "2027-01-15T08:00:00z",
            "2027-01-15T08:00:00+00:00Z",
            "2027-13-15T08:00:00Z",
            "2027-02-29T08:00:00Z",
            "2027-01-15T24:00:00Z",
            "2027-01-15T08:00:60Z",
            "2027-01-15-01T08:00:00Z",
            "+2027-01-15T08:00:00Z",
            "1800000000",
        ] {
            assert_eq!(utc(text), None, "{text:?}");
        }
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted(Path::new("pki/gpu-a.pem")), "'pki/gpu-a.pem'");
        assert_eq!(quoted(Path::new("/it's here/a.pem")), r"'/it'\''s here/a.pem'");
    }

    #[test]
    fn foreign_text_is_escaped_and_cut() {
        assert_eq!(foreign("a\x1b[2J\"\n"), "a\\u{1b}[2J\\\"\\n");
        assert_eq!(foreign(&"x".repeat(MAX_FOREIGN)), "x".repeat(MAX_FOREIGN));
        assert_eq!(foreign(&"x".repeat(MAX_FOREIGN + 1)), format!("{}…", "x".repeat(MAX_FOREIGN)));
    }
}
