//! Redraws a terminal in place. It writes nothing itself.

use std::fmt::Write as _;

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Clears the screen and goes to its top.
pub(super) const CLEAR: &str = "\x1b[2J\x1b[H";

/// Whether standard output can be redrawn: a terminal that understands more than letters.
pub(super) fn can_redraw() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The terminal's size now; `None` where it does not say.
pub(super) fn size() -> Option<Size> {
    #[cfg(unix)]
    {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        let size = Size { rows: size.ws_row.into(), columns: size.ws_col.into() };
        (size.rows > 0 && size.columns > 0).then_some(size)
    }
    #[cfg(not(unix))]
    None
}

/// What to write so that the screen shows `text` from its top, and as much of it as fits. The screen was cleared before.
pub(super) fn frame(text: &str, size: Option<Size>) -> String {
    let mut frame = String::from("\x1b[H");
    for line in fitting(text, size) {
        // Each line wipes what stood there, so nothing flickers.
        let _infallible = write!(frame, "{line}\x1b[K\r\n");
    }
    frame.push_str("\x1b[J");
    frame
}

/// The lines that fit, with a last one that says how many do not.
fn fitting(text: &str, size: Option<Size>) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let Some(Size { rows, columns }) = size else { return lines.into_iter().map(str::to_owned).collect() };
    let height = |line: &&str| line.chars().count().div_ceil(columns).max(1);
    // The last row holds the cursor.
    let room = rows.saturating_sub(1);
    if lines.iter().map(height).sum::<usize>() <= room {
        return lines.into_iter().map(str::to_owned).collect();
    }
    let mut left = room.saturating_sub(1);
    let fits = |line: &&&str| {
        let fits = height(line) <= left;
        left = left.saturating_sub(height(line));
        fits
    };
    let mut shown: Vec<String> = lines.iter().take_while(fits).map(|line| (*line).to_owned()).collect();
    let more = lines.len() - shown.len();
    shown.push(format!("… {more} more lines: the terminal is too small"));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_shown_whole_and_wipes_what_stood_there() {
        let whole = "\x1b[Ha\x1b[K\r\n\x1b[K\r\nb\x1b[K\r\n\x1b[J";
        for size in [None, Some(Size { rows: 4, columns: 1 })] {
            assert_eq!(frame("a\n\nb\n", size), whole);
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let fitted = |rows, columns| fitting("one\ntwo\nthree\nfour", Some(Size { rows, columns }));
        assert_eq!(fitted(5, 80), ["one", "two", "three", "four"]);
        assert_eq!(fitted(4, 80), ["one", "two", "… 2 more lines: the terminal is too small"]);
        // `three` takes two rows.
        assert_eq!(fitted(5, 4), ["one", "two", "… 2 more lines: the terminal is too small"]);
        assert_eq!(fitted(1, 80), ["… 4 more lines: the terminal is too small"]);
    }
}
