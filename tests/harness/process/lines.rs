//! Output of a program, line by line, bounded. Each stream is read by a thread of its own, so that the program
//! never blocks on a full pipe.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lines kept of each stream; the oldest go first.
const MAX_LINES: usize = 20_000;
/// Longest line kept whole.
const MAX_LINE_BYTES: u64 = 64 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Lines {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    ended: bool,
}

impl Lines {
    /// Starts to read a stream to its end.
    pub(super) fn read(stream: impl Read + Send + 'static) -> Self {
        let lines = Self { state: Arc::default() };
        let writer = lines.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            while let Some(line) = next_line(&mut reader) {
                let mut state = writer.state();
                if state.lines.len() == MAX_LINES {
                    state.lines.pop_front();
                }
                state.lines.push_back(line);
            }
            writer.state().ended = true;
        });
        lines
    }

    pub(super) fn copy(&self) -> Vec<String> {
        self.state().lines.iter().cloned().collect()
    }

    /// Whether the stream was read to its end.
    pub(super) fn ended(&self) -> bool {
        self.state().ended
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next line, or the next piece of an overlong one; `None` at the end.
fn next_line(reader: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    let count = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes).ok()?;
    (count > 0).then(|| String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
}
