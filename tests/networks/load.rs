//! Clients that ask again and again for bodies of patterned bytes and check every byte of what comes back.

use bytes_of::{pattern, pieces};
use iop_tests::engine::{Reply, Script};
use iop_tests::http::{Call, open};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(50);

/// What the patterned bytes are, in one place for the engine and the clients.
mod bytes_of {
    /// Pieces of one body.
    const PIECES: usize = 16;
    /// Bytes of one piece: more than one packet.
    const PIECE_BYTES: usize = 2048;

    /// A lost, doubled or moved byte shows: 251 is prime, and the high part changes from round to round.
    pub(super) fn pattern() -> Vec<u8> {
        (0..PIECES * PIECE_BYTES).map(|at| ((at % 251) ^ (at / 251 % 7)) as u8).collect()
    }

    pub(super) fn pieces() -> Vec<Vec<u8>> {
        pattern().chunks(PIECE_BYTES).map(<[u8]>::to_vec).collect()
    }
}

/// Answers with the pattern, `interval` between its pieces.
pub(crate) fn script(interval: Duration) -> Script {
    let mut script = Script::body("");
    if let Reply::Http { pieces: body, sized, .. } = &mut script.reply {
        *body = pieces().into_iter().map(Into::into).collect();
        *sized = false;
    }
    script.interval = interval;
    script
}

/// What came of the requests so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Whole answers; each byte was right.
    pub(crate) complete: usize,
    /// Answers that broke off; each byte until there was right.
    pub(crate) broken: usize,
    /// Answers with an error status.
    pub(crate) refused: usize,
}

/// Clients at work.
pub(crate) struct Load {
    tally: Arc<Mutex<Tally>>,
    stop: watch::Sender<bool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(http: SocketAddr, clients: usize) -> Self {
        let tally = Arc::default();
        let (stop, stopped) = watch::channel(false);
        let client = |_| tokio::spawn(ask(http, Arc::clone(&tally), stopped.clone()));
        let clients = (0..clients).map(client).collect();
        Self { tally, stop, clients }
    }

    pub(crate) fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for that many more whole answers.
    pub(crate) async fn wait_complete(&self, more: usize) {
        let least = self.tally().complete + more;
        iop_tests::deadline::wait_until("whole answers", crate::site::DEADLINE, || {
            assert!(
                self.clients.iter().all(|client| !client.is_finished()),
                "a client has failed, see above"
            );
            let tally = self.tally();
            if tally.complete >= least { Ok(()) } else { Err(tally) }
        })
        .await;
    }

    /// Lets every client end its last request.
    ///
    /// # Panics
    /// When one of them got a wrong byte.
    pub(crate) async fn finish(mut self) -> Tally {
        self.stop.send_replace(true);
        for client in self.clients.drain(..) {
            client.await.expect("every byte was right");
        }
        self.tally()
    }
}

async fn ask(http: SocketAddr, tally: Arc<Mutex<Tally>>, stopped: watch::Receiver<bool>) {
    let expected = pattern();
    while !*stopped.borrow() {
        let mut answer = open(http, Call::chat(crate::site::MODEL, true)).await.expect("the edge answers");
        let (pieces, end) = answer.rest().await;
        let status = answer.status.as_u16();
        if status == 200 {
            let read: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
            let right = expected.iter().zip(&read).take_while(|(expected, read)| expected == read).count();
            assert_eq!(right, read.len(), "a wrong byte");
            assert!(end.is_err() || read.len() == expected.len(), "a clean end after {} bytes", read.len());
        }
        {
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            match (status, end) {
                (200, Ok(())) => tally.complete += 1,
                (200, Err(_)) => tally.broken += 1,
                (502 | 503, _) => tally.refused += 1,
                (status, _) => panic!("status {status}"),
            }
        }
        if status != 200 {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
