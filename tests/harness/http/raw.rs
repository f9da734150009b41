//! A bare TCP connection, for what no HTTP client would send or tolerate.

use super::STEP_DEADLINE;
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Most bytes read from one connection.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A TCP connection without HTTP. Dropping it closes it.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
}

impl RawConnection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream =
            timeout(STEP_DEADLINE, TcpStream::connect(address)).await.context("not connected in time")?;
        let stream = stream.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let sent = timeout(STEP_DEADLINE, self.stream.write_all(bytes.as_ref())).await;
        sent.context("not sent in time")?.context("sending")
    }

    /// Reads until `marker` was read, which is the end of what is returned.
    pub async fn read_through(&mut self, marker: &str) -> Result<String> {
        let mut read = Vec::new();
        while !read.ends_with(marker.as_bytes()) {
            let byte = timeout(STEP_DEADLINE, self.stream.read_u8()).await;
            let byte = byte.with_context(|| format!("no {marker:?} in time after {:?}", text(&read)))?;
            read.push(byte.with_context(|| format!("closed before {marker:?}, after {:?}", text(&read)))?);
            if read.len() > MAX_BYTES {
                bail!("no {marker:?} in {MAX_BYTES} bytes");
            }
        }
        Ok(text(&read))
    }

    /// Reads until the other side closes its sending half. A reset is an error.
    pub async fn read_to_end(&mut self) -> Result<String> {
        let mut read = Vec::new();
        let mut bounded = (&mut self.stream).take(MAX_BYTES as u64);
        let end = timeout(STEP_DEADLINE, bounded.read_to_end(&mut read)).await;
        end.with_context(|| format!("not closed in time after {:?}", text(&read)))?
            .with_context(|| format!("broken after {:?}", text(&read)))?;
        Ok(text(&read))
    }

    /// Closes the sending half only.
    pub async fn finish(&mut self) -> Result<()> {
        self.stream.shutdown().await.context("closing the sending half")
    }

    /// Ends the connection with a reset instead of a close.
    pub fn reset(self) -> Result<()> {
        self.stream.set_zero_linger().context("asking for a reset")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
