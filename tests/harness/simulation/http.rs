//! HTTP/1.1 by hand, for both sides, on streams in memory: heads and bodies as they stand on the wire, so that a run can
//! break off anywhere and every byte is looked at.

use super::stream::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Largest head that is read.
const HEAD_BYTES: usize = 64 << 10;

/// Why there is no more to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The other end closed between messages.
    Closed,
    /// The other end closed or reset within a message.
    Cut,
    /// It is not HTTP.
    NotHttp,
}

/// The first lines of a message.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) first: String,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.header(name)?.parse().ok()
    }

    /// The status, of an answer.
    pub(super) fn status(&self) -> Option<u16> {
        self.first.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let first = lines.next()?.to_owned();
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.filter(|line| !line.is_empty()).map(header).collect::<Option<Vec<_>>>()?;
        Some(Self { first, headers })
    }
}

/// What is left of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Bytes(usize),
    Chunks,
    Nothing,
}

/// One end's reading of messages, and its writing.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    buffer: Vec<u8>,
    left: Left,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, buffer: Vec::new(), left: Left::Nothing }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.stream.write_all(bytes).await.map_err(|_reset| Broken::Cut)
    }

    /// The next head; its body is to be read before the next.
    pub(super) async fn head(&mut self) -> Result<Head, Broken> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > HEAD_BYTES {
                return Err(Broken::NotHttp);
            }
            let empty = self.buffer.is_empty();
            self.fill()
                .await
                .map_err(|cut| if empty && cut == Broken::Closed { cut } else { Broken::Cut })?;
        };
        let head = Head::parse(&self.buffer[..end]).ok_or(Broken::NotHttp)?;
        self.buffer.drain(..end + 4);
        self.left = match (head.number("content-length"), head.header("transfer-encoding")) {
            (Some(0), _) | (None, None) => Left::Nothing,
            (Some(length), _) => Left::Bytes(length),
            (None, Some(_)) => Left::Chunks,
        };
        Ok(head)
    }

    /// The next bytes of the body; `None` at its proper end.
    pub(super) async fn body(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        match self.left {
            Left::Nothing => Ok(None),
            Left::Bytes(length) => {
                if self.buffer.is_empty() {
                    self.fill().await.map_err(|_closed| Broken::Cut)?;
                }
                let count = length.min(self.buffer.len());
                self.left = if count == length { Left::Nothing } else { Left::Bytes(length - count) };
                Ok(Some(self.buffer.drain(..count).collect()))
            }
            Left::Chunks => self.chunk().await,
        }
    }

    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        let line_end = self.until(|buffer| find(buffer, b"\r\n")).await?;
        let line = std::str::from_utf8(&self.buffer[..line_end]).map_err(|_text| Broken::NotHttp)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_text| Broken::NotHttp)?;
        let begin = line_end + 2;
        let end = self.until(|buffer| (buffer.len() >= begin + size + 2).then_some(begin + size)).await?;
        let bytes = self.buffer[begin..end].to_vec();
        if self.buffer[end..end + 2] != *b"\r\n" {
            return Err(Broken::NotHttp);
        }
        self.buffer.drain(..end + 2);
        if size > 0 {
            return Ok(Some(bytes));
        }
        self.left = Left::Nothing;
        Ok(None)
    }

    async fn until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> Result<usize, Broken> {
        loop {
            if let Some(at) = found(&self.buffer) {
                return Ok(at);
            }
            self.fill().await.map_err(|_closed| Broken::Cut)?;
        }
    }

    async fn fill(&mut self) -> Result<(), Broken> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(Broken::Closed),
            Ok(_) => Ok(()),
            Err(_reset) => Err(Broken::Cut),
        }
    }
}

/// One chunk of a chunked body.
pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
