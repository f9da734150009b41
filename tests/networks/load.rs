//! Clients that ask again and again for bodies of patterned bytes and check every byte of what comes back.

use iop_tests::engine::{Reply, Script};
use iop_tests::http::{Call, open};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(50);

/// Pieces of one answer.
const PIECES: usize = 16;

/// Time between two pieces of an answer.
const INTERVAL: Duration = Duration::from_millis(40);

/// A lost, doubled or moved byte shows: 251 is prime, and the high part changes from round to round.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| ((at % 251) ^ (at / 251 % 7)) as u8).collect()
}

/// An answer of patterned bytes, `piece_bytes` at a time.
pub(crate) fn script(piece_bytes: usize) -> Script {
    let mut script = Script::body("");
    if let Reply::Http { pieces, sized, .. } = &mut script.reply {
        *pieces =
            pattern(PIECES * piece_bytes).chunks(piece_bytes).map(|piece| piece.to_vec().into()).collect();
        *sized = false;
    }
    script.interval = INTERVAL;
    script
}

/// The prompt of every request, as long as two pieces of an answer.
pub(crate) fn prompt(piece_bytes: usize) -> String {
    pattern(2 * piece_bytes).into_iter().map(|byte| char::from(b'a' + byte % 26)).collect()
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
    pub(crate) fn start(http: SocketAddr, clients: usize, piece_bytes: usize) -> Self {
        let tally = Arc::default();
        let (stop, stopped) = watch::channel(false);
        let client = |_| tokio::spawn(ask(http, piece_bytes, Arc::clone(&tally), stopped.clone()));
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

async fn ask(http: SocketAddr, piece_bytes: usize, tally: Arc<Mutex<Tally>>, stopped: watch::Receiver<bool>) {
    let expected = pattern(PIECES * piece_bytes);
    let messages = json!([{"role": "user", "content": prompt(piece_bytes)}]);
    let call =
        Call::post("/v1/chat/completions", &json!({"model": crate::site::MODEL, "messages": messages}));
    while !*stopped.borrow() {
        let mut answer = open(http, call.clone()).await.expect("the edge answers");
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
