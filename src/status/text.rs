//! Texts that others wrote, made safe for a terminal, and numbers and durations as people read them.

use serde::{Deserialize, Deserializer};
use std::fmt;

/// One line of text without anything that a terminal obeys or that hides what stands there.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.chars().map(|character| if is_unsafe(character) { '?' } else { character }).collect())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Control characters, line ends, and characters that are invisible or turn the direction of what follows.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Valid JSON as the same JSON in one line, with whatever a terminal could obey written as an escape.
pub(super) fn one_line(json: &str) -> String {
    let mut line = String::with_capacity(json.len() + 1);
    for character in json.trim().chars() {
        match character {
            // Only white space between values: inside texts JSON has these as escapes.
            '\n' | '\r' | '\t' => line.push(' '),
            _ if is_unsafe(character) => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    line.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => line.push(character),
        }
    }
    line
}

/// A span of time in the two units that matter.
pub(super) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..10_000 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        10_000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => format!("{minutes} min {} s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A span that is known in whole seconds.
pub(super) fn age(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds} s") } else { duration(seconds.saturating_mul(1000)) }
}

/// A round trip in milliseconds with three digits that count.
pub(super) fn round_trip(milliseconds: f64) -> String {
    match milliseconds {
        0.0..9.995 => format!("{milliseconds:.2} ms"),
        9.995..99.95 => format!("{milliseconds:.1} ms"),
        _ => format!("{milliseconds:.0} ms"),
    }
}

/// The first `limit` characters; an ellipsis says that there were more.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left_of_a_text() {
        for (text, safe) in [
            ("iop 0.1.0", "iop 0.1.0"),
            ("\u{1b}[2Jx\u{7}", "?[2Jx?"),
            ("a\nb\tc\r", "a?b?c?"),
            ("\u{9b}31m\u{7f}", "?31m?"),
            ("x\u{202e}y\u{200b}z\u{2028}", "x?y?z?"),
            ("größe 模型", "größe 模型"),
        ] {
            assert_eq!(Text::from(text).as_str(), safe, "{text:?}");
        }
    }

    #[test]
    fn json_keeps_its_values_in_one_line_without_control_characters() {
        let json = "{\n  \"a\": \"\u{9b}31m\u{202e}\u{7f}\u{e0001}\",\r\n\t\"b\": \"\\u001b \\n\" }\n";
        let line = one_line(json);
        assert!(!line.contains(is_unsafe), "{line:?}");
        let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).expect("JSON");
        assert_eq!(value(&line), value(json));
        assert_eq!(one_line("{\"a\":1}"), "{\"a\":1}");
    }

    #[test]
    fn durations_have_the_two_units_that_matter() {
        for (milliseconds, shown) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (9999, "9.9 s"),
            (10_000, "10 s"),
            (59_999, "59 s"),
            (60_000, "1 min 0 s"),
            (3_599_999, "59 min 59 s"),
            (3_600_000, "1 h 0 min"),
            (86_399_999, "23 h 59 min"),
            (86_400_000, "1 d 0 h"),
            (1_000_000_000, "11 d 13 h"),
        ] {
            assert_eq!(duration(milliseconds), shown);
        }
        for (seconds, shown) in [(0, "0 s"), (9, "9 s"), (60, "1 min 0 s"), (86_400, "1 d 0 h")] {
            assert_eq!(age(seconds), shown);
        }
    }

    #[test]
    fn round_trips_have_three_digits() {
        for (milliseconds, shown) in
            [(0.0, "0.00 ms"), (0.314, "0.31 ms"), (9.996, "10.0 ms"), (12.34, "12.3 ms"), (234.5, "234 ms")]
        {
            assert_eq!(round_trip(milliseconds), shown);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, shown) in [("", ""), ("abc", "abc"), ("äöü", "äöü"), ("abcd", "ab…"), ("äöüß", "äö…")]
        {
            assert_eq!(shortened(text, 3), shown);
        }
    }
}
