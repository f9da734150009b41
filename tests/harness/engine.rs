//! The scripted engine: a real HTTP server on loopback that plays an OpenAI-compatible inference server and
//! misbehaves on demand. It lives on a thread of its own, so a test that blocks does not stop it.
//! It judges nothing: it records what reached it, and tests ask.

mod body;
mod gate;
mod log;
mod openai;
mod script;
mod server;
mod wire;

#[cfg(test)]
mod tests;

use crate::deadline::wait_until;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use log::{Log, Received};
pub use script::{Cut, Reply, Script, Then, chunk_text};

use server::{Door, Server, Shared};

/// A running scripted engine. Dropping it closes every connection and ends its thread.
#[derive(Debug)]
pub struct Engine {
    address: SocketAddr,
    shared: Arc<Shared>,
    doors: tokio::sync::watch::Sender<Door>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts an engine on a free port of 127.0.0.1 that answers everything at once.
    ///
    /// # Panics
    /// When no port can be bound or no thread started.
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        shared.models().push(openai::MODEL.to_owned());
        let (doors, door) = tokio::sync::watch::channel(Door::Open);
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = Server::new(listener, address, Arc::clone(&shared), door);
        let thread = std::thread::Builder::new()
            .name(format!("engine-{}", address.port()))
            .spawn(move || server.run())
            .expect("a thread starts");
        Self { address, shared, doors, thread: Some(thread) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a provider's `endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What every request is answered with that finds the queue of scripts empty. `GET` requests never take a
    /// script: they get the standard answer.
    pub fn set_script(&self, script: Script) {
        self.shared.scripts().default = script;
    }

    /// Scripts for the next requests, one each, in order of arrival, before the default counts again.
    pub fn queue_scripts(&self, scripts: impl IntoIterator<Item = Script>) {
        self.shared.scripts().queue.extend(scripts);
    }

    /// What the list of models shows from now on. At first it is `scripted` alone.
    pub fn set_models(&self, ids: &[&str]) {
        *self.shared.models() = ids.iter().map(|id| (*id).to_owned()).collect();
    }

    /// From now on every scripted request waits at the gate before its first byte.
    pub fn hold(&self) {
        self.shared.gate.hold();
    }

    /// Lets the request through that has waited at the gate longest, and returns its number.
    ///
    /// # Panics
    /// When none waits: wait with [`Engine::wait_held`] first.
    pub fn release_one(&self) -> usize {
        self.shared.gate.release_one().expect("a request waits at the engine's gate")
    }

    /// Opens the gate: everything waiting goes on, and nothing is held from now on.
    pub fn release_all(&self) {
        self.shared.gate.release_all();
    }

    /// Closes the listening socket and every connection: new dials are refused, as when the process died.
    pub fn crash(&self) {
        self.set_door(Door::Down);
    }

    /// Accepts connections and closes each at once without reading or writing a byte. Open connections stay.
    pub fn refuse_connections(&self) {
        self.set_door(Door::Refusing);
    }

    /// Listens again on the same port after [`Engine::crash`] or [`Engine::refuse_connections`].
    pub fn listen_again(&self) {
        self.set_door(Door::Open);
    }

    fn set_door(&self, door: Door) {
        self.doors.send_replace(door);
        let what = format!("the engine's door to be {door:?}");
        crate::deadline::wait_until_blocking(&what, Duration::from_secs(5), || {
            let now = self.shared.log().door;
            if now == door { Ok(()) } else { Err(now) }
        });
    }

    /// Looks at the log under its lock.
    pub fn look<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.shared.log())
    }

    /// A copy of what is recorded of request `number`, counted from 0 in order of arrival.
    ///
    /// # Panics
    /// When that many requests have not arrived.
    pub fn request(&self, number: usize) -> Received {
        self.look(|log| log.requests.get(number).cloned()).expect("that many requests have arrived")
    }

    /// Most requests that were in progress at one moment. `GET`s do not count: they take no inference slot.
    pub fn peak(&self) -> usize {
        self.look(|log| log.peak)
    }

    /// Requests in progress: headers parsed, answer not wholly written, connection not closed. Without `GET`s.
    pub fn in_progress(&self) -> usize {
        self.look(|log| log.in_progress)
    }

    /// Requests waiting at the gate.
    pub fn held(&self) -> usize {
        self.shared.gate.held()
    }

    /// Waits until the log satisfies `condition`.
    ///
    /// # Panics
    /// When `deadline` passes first; the message shows the log.
    pub async fn wait_until(&self, what: &str, deadline: Duration, condition: impl Fn(&Log) -> bool) {
        wait_until(&format!("{what} at {}", self.endpoint()), deadline, || {
            self.look(|log| if condition(log) { Ok(()) } else { Err(format!("{log:?}")) })
        })
        .await;
    }

    /// Waits until at least `count` requests that are not `GET`s have arrived.
    pub async fn wait_received(&self, count: usize, deadline: Duration) {
        let what = format!("{count} requests received");
        self.wait_until(&what, deadline, |log| log.scripted().count() >= count).await;
    }

    /// Waits until exactly `count` requests wait at the gate.
    pub async fn wait_held(&self, count: usize, deadline: Duration) {
        let what = format!("{count} requests held at {}", self.endpoint());
        wait_until(&what, deadline, || {
            let held = self.held();
            if held == count { Ok(()) } else { Err(held) }
        })
        .await;
    }

    /// Waits until the answer of request `number` is wholly written.
    pub async fn wait_answered(&self, number: usize, deadline: Duration) -> Received {
        self.wait_request(number, "answered", deadline, |request| request.answered.is_some()).await
    }

    /// Waits until the connection of request `number` is closed, whoever closed it.
    pub async fn wait_closed(&self, number: usize, deadline: Duration) -> Received {
        self.wait_request(number, "closed", deadline, |request| request.closed.is_some()).await
    }

    /// Waits until no request is in progress.
    pub async fn wait_idle(&self, deadline: Duration) {
        self.wait_until("no request in progress", deadline, |log| log.in_progress == 0).await;
    }

    async fn wait_request(
        &self,
        number: usize,
        state: &str,
        deadline: Duration,
        condition: impl Fn(&Received) -> bool,
    ) -> Received {
        let what = format!("request {number} {state}");
        self.wait_until(&what, deadline, |log| log.requests.get(number).is_some_and(&condition)).await;
        self.request(number)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.doors.send_replace(Door::Gone);
        if let Some(thread) = self.thread.take() {
            // A panic of the engine's thread was printed already; a second one here would abort the test run.
            let _ended = thread.join();
        }
    }
}
