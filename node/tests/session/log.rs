//! What the node logs, for the thread of one test.

use crate::edge::DEADLINE;
use iop_tests::deadline::wait_until;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

pub(crate) struct Log {
    buffer: Buffer,
    _installed: DefaultGuard,
}

impl Log {
    /// Captures the log of this thread until the drop.
    pub(crate) fn capture() -> Self {
        let buffer = Buffer::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(buffer.clone())
            .finish();
        Self { buffer, _installed: tracing::subscriber::set_default(subscriber) }
    }

    /// Lines of the node's driver with these words in their message.
    pub(crate) fn lines_with(&self, words: &str) -> Vec<String> {
        let bytes = self.buffer.0.lock().expect("no panic under this lock");
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

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic under this lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Buffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
