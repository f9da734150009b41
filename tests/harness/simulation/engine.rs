//! An inference server that does as its scripts say, counts what it is given at one time and looks at every byte. One for
//! each provider, beside its node.

use super::http::{Broken, Connection, chunk};
use super::request::{Ending, Request, Script};
use super::settings::{provider_name, upstream_name};
use super::stream::{Cable, Stream};
use super::world::World;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::sleep;

/// Whether connections come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Up,
    /// The port is closed.
    Refuses,
    /// Nothing answers.
    Deaf,
}

/// One server.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) provider: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    mood: Mood,
    cables: Vec<Cable>,
    running: Vec<Running>,
    /// Capacities as configured, normal and long, since when.
    limits: Vec<(u64, u64, u64)>,
    numbers: u64,
    probes: usize,
    peak: usize,
}

#[derive(Debug)]
struct Running {
    number: u64,
    request: usize,
    /// When its client sent it.
    since_ms: u64,
    long: bool,
    cable: Cable,
}

/// A request that runs; its drop is its end.
struct Turn {
    engine: Arc<Engine>,
    number: u64,
}

impl Engine {
    pub(super) fn new(provider: usize, capacity: u64, long: u64) -> Self {
        let state = State {
            mood: Mood::Up,
            cables: Vec::new(),
            running: Vec::new(),
            limits: vec![(0, capacity, long)],
            numbers: 0,
            probes: 0,
            peak: 0,
        };
        Self { provider, state: Mutex::new(state) }
    }

    pub(super) fn mood(&self) -> Mood {
        self.lock().mood
    }

    pub(super) fn set_mood(&self, mood: Mood) {
        self.lock().mood = mood;
    }

    /// Crashes and is back at once: every connection is reset.
    pub(super) fn crash(&self) {
        self.lock().cables.drain(..).for_each(|cable| cable.cut());
    }

    /// The configuration says something else from now on.
    pub(super) fn set_limits(&self, now_ms: u64, capacity: u64, long: u64) {
        let mut state = self.lock();
        if state.limits.last().is_none_or(|(_, known, known_long)| (*known, *known_long) != (capacity, long))
        {
            state.limits.push((now_ms, capacity, long));
        }
    }

    /// Requests that run, and probes among them.
    pub(super) fn running(&self) -> (usize, usize) {
        let mut state = self.lock();
        state.sweep();
        (state.running.len(), state.probes)
    }

    /// The requests that run.
    pub(super) fn requests(&self) -> Vec<usize> {
        let mut state = self.lock();
        state.sweep();
        state.running.iter().map(|running| running.request).collect()
    }

    /// The most requests that ever ran at one time.
    pub(super) fn peak(&self) -> usize {
        self.lock().peak
    }

    pub(super) fn open_connections(&self) -> usize {
        let mut state = self.lock();
        state.cables.retain(Cable::is_open);
        state.cables.len()
    }

    /// A request has come. More than the configuration allowed at any time since the oldest of those that run was sent is
    /// too many.
    fn enter(self: &Arc<Self>, world: &World, request: &Request, cable: &Cable) -> Turn {
        let mut state = self.lock();
        state.sweep();
        state.numbers += 1;
        let number = state.numbers;
        let since_ms = world.sent_at(request.id);
        state.running.push(Running {
            number,
            request: request.id,
            since_ms,
            long: request.long,
            cable: cable.clone(),
        });
        let since = state.running.iter().map(|running| running.since_ms).min().unwrap_or(since_ms);
        let (capacity, long) = state.most_allowed(since);
        let always_long = state.always_offered_long(since);
        let count = state.running.len();
        let long_count = state.running.iter().filter(|running| running.long).count();
        state.peak = state.peak.max(count);
        state.probes += usize::from(request.probe);
        drop(state);
        let name = provider_name(self.provider);
        if count as u64 > capacity {
            world.trace.violation(format_args!("{name} runs {count} requests, {capacity} are allowed"));
        }
        // Where nobody offered long slots when it was admitted, a long request is a normal one.
        if always_long && long_count as u64 > long {
            world.trace.violation(format_args!("{name} runs {long_count} long requests, {long} are allowed"));
        }
        Turn { engine: self.clone(), number }
    }

    /// Serves one connection to its end.
    pub(super) async fn serve(self: Arc<Self>, world: Arc<World>, stream: Stream, cable: Cable) {
        self.lock().cables.push(cable.clone());
        let mut connection = Connection::new(stream);
        loop {
            let served = self.serve_one(&world, &mut connection, &cable).await;
            if served.is_err() {
                return;
            }
        }
    }

    async fn serve_one(
        self: &Arc<Self>,
        world: &World,
        connection: &mut Connection,
        cable: &Cable,
    ) -> Result<(), Broken> {
        let head = connection.head().await?;
        let Some(request) = head.number("x-sim-id").and_then(|id| world.request(id)) else {
            world.trace.violation(format_args!("a request that nobody sent: {}", head.first));
            return Err(Broken::NotHttp);
        };
        let attempt = world.arrives(&request, self.provider);
        let name = provider_name(self.provider);
        world.trace.say(format_args!("{name} gets request {} (attempt {attempt})", request.id));
        let turn = self.enter(world, &request, cable);
        let mut body = Vec::new();
        while let Some(bytes) = connection.body().await? {
            body.extend(bytes);
        }
        if body != request.body(&upstream_name(self.provider)).as_bytes() {
            let id = request.id;
            world.trace.violation(format_args!("{name} got another body than request {id} has"));
        }
        let script = Script::of(world.seed, &request, attempt, world.good || request.probe);
        let played = play(world, connection, &request, &script, attempt).await;
        drop(turn);
        let outcome = if played.is_ok() { "answers" } else { "breaks off" };
        world.trace.say(format_args!("{name} {outcome} request {}", request.id));
        played
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds an engine")
    }
}

impl State {
    /// Forgets those whose connection the node has closed.
    fn sweep(&mut self) {
        self.running.retain(|running| running.cable.is_held_by_opener());
    }

    /// The capacities that were in force at some time since then.
    fn in_force(&self, since_ms: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ends = self.limits.iter().skip(1).map(|(from, ..)| *from).chain([u64::MAX]);
        let limits = self.limits.iter().zip(ends).filter(move |(_, end)| *end >= since_ms);
        limits.map(|((_, capacity, long), _)| (*capacity, *long))
    }

    fn most_allowed(&self, since_ms: u64) -> (u64, u64) {
        self.in_force(since_ms)
            .fold((0, 0), |(capacity, long), (next, next_long)| (capacity.max(next), long.max(next_long)))
    }

    fn always_offered_long(&self, since_ms: u64) -> bool {
        self.in_force(since_ms).all(|(_, long)| long > 0)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.engine.lock().running.retain(|running| running.number != self.number);
    }
}

/// Answers as the script says. An error ends the connection.
async fn play(
    world: &World,
    connection: &mut Connection,
    request: &Request,
    script: &Script,
    attempt: u32,
) -> Result<(), Broken> {
    pause(connection, script.think_ms).await?;
    if request.probe {
        tokio::select! {
            biased;
            () = connection.stream.peer_gone() => return Err(Broken::Cut),
            () = world.probes_released.cancelled() => {}
        }
    }
    match script.ending {
        Ending::Silent => return forever(connection).await,
        Ending::Closes => return Err(Broken::Closed),
        Ending::Garbage => {
            connection.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n").await?;
            return Err(Broken::NotHttp);
        }
        Ending::Busy(status) => {
            let busy = format!("HTTP/1.1 {status} Busy\r\ncontent-length: 4\r\n\r\nbusy");
            return connection.write(busy.as_bytes()).await;
        }
        Ending::Whole | Ending::SilentAfter(_) | Ending::ClosesAfter(_) => {}
    }
    world.note_begun(request.id);
    let kind = if request.stream { "text/event-stream" } else { "application/json" };
    let framing = if script.chunked {
        "transfer-encoding: chunked".to_owned()
    } else {
        format!("content-length: {}", script.answer(request, attempt).len())
    };
    let head = format!(
        "HTTP/1.1 {} Said\r\ncontent-type: {kind}\r\nx-sim-attempt: {attempt}\r\n{framing}\r\n\r\n",
        script.status
    );
    connection.write(head.as_bytes()).await?;
    for number in 0..script.pieces.len() {
        match script.ending {
            Ending::SilentAfter(count) if count == number => return forever(connection).await,
            Ending::ClosesAfter(count) if count == number => return Err(Broken::Closed),
            _ => {}
        }
        if number > 0 {
            pause(connection, script.interval_ms).await?;
        }
        let piece = script.piece(request, attempt, number);
        let bytes = if script.chunked { chunk(piece.as_bytes()) } else { piece.into_bytes() };
        connection.write(&bytes).await?;
    }
    if script.chunked { connection.write(b"0\r\n\r\n").await } else { Ok(()) }
}

async fn pause(connection: &Connection, ms: u64) -> Result<(), Broken> {
    if ms == 0 {
        return Ok(());
    }
    tokio::select! {
        biased;
        () = connection.stream.peer_gone() => Err(Broken::Cut),
        () = sleep(Duration::from_millis(ms)) => Ok(()),
    }
}

async fn forever(connection: &Connection) -> Result<(), Broken> {
    connection.stream.peer_gone().await;
    Err(Broken::Cut)
}
