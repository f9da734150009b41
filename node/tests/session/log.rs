//! What the node logs, for the thread of one test.

use crate::edge::DEADLINE;
use iop_tests::deadline::wait_until;
use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

thread_local! {
    /// What this thread has logged since its test began to listen. Each test has a thread and its node runs on it.
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// One subscriber for the whole program: with one per thread, tracing may miss events of the others' first moments.
static INSTALLED: Once = Once::new();

struct Lines;

pub(crate) struct Log;

impl Log {
    /// Captures the log of this thread until the drop.
    pub(crate) fn capture() -> Self {
        INSTALLED.call_once(|| {
            tracing_subscriber::fmt()
                .with_ansi(false)
                .with_max_level(tracing::Level::INFO)
                .with_writer(|| Lines)
                .init();
        });
        LINES.set(Some(Vec::new()));
        Self
    }

    /// Lines of the node's driver with these words in their message.
    pub(crate) fn lines_with(&self, words: &str) -> Vec<String> {
        let bytes = LINES.with_borrow(|lines| lines.clone()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        text.lines()
            .filter(|line| line.contains("iop_node::run") && line.contains(words))
            .map(String::from)
            .collect()
    }
}

impl Log {
    /// One line has these words.
    pub(crate) fn expect_one(&self, words: &str) {
        assert_eq!(self.lines_with(words).len(), 1, "{words}: {:#?}", self.lines_with(""));
    }

    /// Waits until there is a line with these words.
    pub(crate) async fn wait_for(&self, words: &str) {
        wait_until(words, DEADLINE, || match self.lines_with(words).len() {
            0 => Err(self.lines_with("")),
            _ => Ok(()),
        })
        .await;
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
