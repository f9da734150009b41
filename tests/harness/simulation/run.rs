//! One run: draws it, plays it, mends the world, and then looks whether everything is as it was at first.

use super::client::{self, Outcome};
use super::engine::Engine;
use super::fault::{self, Change};
use super::network::Link;
use super::random::Random;
use super::request::{Patience, Request};
use super::settings::{Settings, provider_name};
use super::watch::{self, all_available, is_connected, number};
use super::world::{World, node_file};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time in which everybody notices what has happened before: no idle timeout is longer.
const SETTLE: Duration = Duration::from_secs(15);

/// Time for all requests to end once nothing goes wrong any more.
const REQUESTS_LIMIT: Duration = Duration::from_secs(180);

/// Time for every node to be connected once nothing goes wrong any more.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

/// Time for everything to come to rest.
const REST_LIMIT: Duration = Duration::from_secs(30);

/// Time for probes to be at their engines.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Time in which what a dead process has left behind ends by itself.
const REMAINS_LIMIT: Duration = Duration::from_secs(90);

/// What came of one seed.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Hash of everything that happened, packets included.
    pub hash: u64,
    /// What happened, for people.
    pub lines: Vec<String>,
    /// What must not have.
    pub violations: Vec<String>,
    /// How often what came up.
    pub counts: BTreeMap<String, u64>,
}

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// Runs one seed to its end. Everything of it happens on this thread.
///
/// # Panics
/// When no runtime can be made.
pub fn run_seed(seed: u64) -> Report {
    note_panics();
    SEED.set(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime on this thread");
    let mut report = runtime.block_on(play(seed));
    drop(runtime);
    report.violations.extend(PANICS.take().into_iter().map(|panic| format!("a panic: {panic}")));
    report
}

/// Tasks that panic do so silently: their panics are kept for the report.
fn note_panics() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
            // A second panic on the way out ends the whole process before there is a report.
            eprintln!("seed {}:", SEED.get());
            before(panic);
        }));
    });
}

async fn play(seed: u64) -> Report {
    let mut random = Random::new(seed, "plan");
    let good = random.chance(80);
    let span_ms = random.range(500..=20_000);
    let settings = Settings::draw(&mut random);
    let links = (0..settings.nodes).map(|_| draw_link(&mut random, good)).collect();
    let files = (0..settings.nodes).map(|node| node_file(&mut random, node)).collect();
    let requests = Request::draw_all(&mut random, &settings, span_ms, good);
    let steady = good || random.chance(150);
    let changes = if good { Vec::new() } else { fault::draw_all(&mut random, &settings, span_ms, steady) };
    let world = World::new(seed, [good, steady], settings, links, files, requests);
    world.trace.say(format_args!("{}", world.settings().text()));
    let tasks = [tokio::spawn(world.network.clone().run()), tokio::spawn(watch::run(world.clone()))];

    world.start_edge();
    for node in 0..world.settings().nodes {
        world.start_node(node);
    }
    if good || random.chance(800) {
        wait_until(&world, "all nodes are connected", RECOVERY_LIMIT, || available(&world)).await;
    }
    let mut clients = start_clients(&world);
    let begun = Instant::now();
    for (at_ms, change) in &changes {
        sleep_until(begun + Duration::from_millis(*at_ms)).await;
        world.change(change);
    }
    sleep_until(begun + Duration::from_millis(span_ms)).await;
    world.heal();
    sleep(SETTLE).await;
    let mut counts = end_clients(&world, &mut clients).await;
    count_changes(&changes, &mut counts);
    if wait_until(&world, "all nodes are connected again", RECOVERY_LIMIT, || available(&world)).await {
        wait_until(&world, "everything is at rest", REST_LIMIT, || at_rest(&world)).await;
        probe(&world).await;
        wait_until(&world, "everything is at rest again", REST_LIMIT, || at_rest(&world)).await;
    }
    note_totals(&world, &mut counts).await;
    stop(&world).await;
    look_for_remains(&world, tasks.map(|task| task.abort_handle())).await;
    let violations = world.trace.violations();
    let (hash, lines, packets) = world.trace.finish();
    counts.insert("packets".into(), packets);
    Report { seed, hash, lines, violations, counts }
}

fn draw_link(random: &mut Random, good: bool) -> Link {
    let lossy = !good && random.chance(400);
    Link {
        loss: if lossy { random.range(1..=80) } else { 0 },
        repeat: if lossy { random.below(30) } else { 0 },
        // Never none: at a round trip of a few nanoseconds quinn's pacer asks for a time that has come already, again and
        // again, and only a clock that runs by itself gets it out of that.
        delay_ms: if random.chance(500) { random.range(1..=4) } else { random.range(1..=80) },
        jitter_ms: if random.chance(500) { 0 } else { random.below(30) },
        mtu: usize::MAX,
        cut_up: false,
        cut_down: false,
        frozen: false,
    }
}

type Clients = JoinSet<(Arc<Request>, u64, Outcome)>;

fn start_clients(world: &Arc<World>) -> Clients {
    let mut clients = JoinSet::new();
    let begun = Instant::now();
    for request in world.requests() {
        let at = begun + Duration::from_millis(request.start_ms);
        clients.spawn(start_client(world.clone(), request, at));
    }
    clients
}

async fn start_client(world: Arc<World>, request: Arc<Request>, at: Instant) -> (Arc<Request>, u64, Outcome) {
    sleep_until(at).await;
    world.note_sent(request.id);
    let Request { id, model, path, stream, long, patience, .. } = &*request;
    world.trace.say(format_args!("request {id}: {model} {path} stream={stream} long={long} {patience:?}"));
    let sent_ms = world.trace.now_ms();
    let outcome = client::run(world.clone(), request.clone()).await;
    world.note_end_of(request.id);
    world.trace.say(format_args!("request {} ended: {outcome:?}", request.id));
    (request, sent_ms, outcome)
}

/// Waits for all requests; how many ended how.
async fn end_clients(world: &World, clients: &mut Clients) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let all = clients.len();
    let mut ended = 0;
    let end = async {
        while let Some(client) = clients.join_next().await {
            let Ok((request, sent_ms, outcome)) = client else { continue };
            ended += 1;
            judge(world, &request, sent_ms, &outcome);
            let kind = match &outcome {
                Outcome::Refused(status, code) => format!("refused: {status} {code}"),
                Outcome::Wrong(_) => "wrong".into(),
                other => format!("{other:?}").to_lowercase(),
            };
            *counts.entry(kind).or_default() += 1;
        }
    };
    if timeout(REQUESTS_LIMIT, end).await.is_err() {
        world.trace.violation(format_args!("{ended} of {all} requests have ended"));
    }
    counts
}

/// Whether a request may end like this.
fn judge(world: &World, request: &Request, sent_ms: u64, outcome: &Outcome) {
    let changed = world.was_changed();
    let good = match outcome {
        Outcome::Complete => true,
        Outcome::Wrong(_) => false,
        Outcome::GivenUp => request.patience != Patience::Good,
        // A client that does not read may be given up.
        Outcome::Broken => !world.good || matches!(request.patience, Patience::Pauses(_)),
        Outcome::NoPlace => false,
        Outcome::Lost | Outcome::NoEdge => world.edge_was_away(sent_ms, world.trace.now_ms()),
        Outcome::Refused(status, code) => match (*status, code.as_str()) {
            (429, "queue_full") | (503, "queue_timeout") => true,
            (404, "not_found") => request.path == "/v1/responses" || changed,
            (404, "model_not_found") => changed,
            (503, "provider_unavailable" | "provider_busy")
            | (502, "provider_disconnected" | "provider_unreachable" | "provider_error")
            | (504, "provider_timeout") => !world.good,
            _ => false,
        },
    };
    if !good {
        world.trace.violation(format_args!("request {} ended like this: {outcome:?}", request.id));
    }
}

fn count_changes(changes: &[(u64, Change)], counts: &mut BTreeMap<String, u64>) {
    for (_, change) in changes {
        let text = format!("{change:?}");
        let kind = text.split('(').next().unwrap_or_default();
        *counts.entry(format!("change: {kind}")).or_default() += 1;
    }
}

async fn available(world: &World) -> Result<(), String> {
    match watch::snapshot(world).await {
        Some((snapshot, _)) if all_available(world, &snapshot) => Ok(()),
        Some((snapshot, _)) => Err(snapshot.to_string()),
        None => Err("there is no edge".into()),
    }
}

async fn at_rest(world: &World) -> Result<(), String> {
    let Some((snapshot, _)) = watch::snapshot(world).await else { return Err("there is no edge".into()) };
    let busy: Vec<_> =
        world.engines.iter().filter(|engine| engine.running().0 > 0).map(|engine| engine.provider).collect();
    let (waiting, active) = (number(&snapshot, "/queue/length"), number(&snapshot, "/leases/active"));
    if (waiting, active) == (0, 0) && busy.is_empty() {
        Ok(())
    } else {
        Err(format!("busy {busy:?}, {snapshot}"))
    }
}

/// Asks again and again until it is so.
async fn wait_until<F: Future<Output = Result<(), String>>>(
    world: &World,
    what: &str,
    limit: Duration,
    is_so: impl Fn() -> F,
) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        match is_so().await {
            Ok(()) => return true,
            Err(why) if Instant::now() > deadline => {
                let limit_ms = limit.as_millis();
                world.trace.violation(format_args!("after {limit_ms} ms it is not so that {what}: {why}"));
                return false;
            }
            Err(_) => sleep(Duration::from_millis(250)).await,
        }
    }
}

/// Fills every slot of every provider at once: none may be lost, and none too many.
async fn probe(world: &Arc<World>) {
    let settings = world.settings();
    let mut clients = JoinSet::new();
    for (index, provider) in settings.providers.iter().enumerate() {
        for slot in 0..provider.capacity {
            let request = world.add_request(|id| Request::probe(id, index, slot < provider.long));
            clients.spawn(start_client(world.clone(), request, Instant::now()));
        }
    }
    let filled = || async {
        let full = |engine: &Arc<Engine>| {
            let provider = &settings.providers[engine.provider];
            provider.echo || engine.running().0 as u64 == provider.capacity
        };
        let empty: Vec<_> = world.engines.iter().filter(|engine| !full(engine)).collect();
        let name = |engine: &&Arc<Engine>| {
            let (running, peak) = (engine.running().0, engine.peak());
            format!("{} runs {running} (peak {peak})", provider_name(engine.provider))
        };
        if empty.is_empty() { Ok(()) } else { Err(empty.iter().map(name).collect::<Vec<_>>().join(", ")) }
    };
    wait_until(world, "every slot is in use", PROBE_LIMIT, filled).await;
    world.probes_released.cancel();
    while let Ok(Some(client)) = timeout(REST_LIMIT, clients.join_next()).await {
        if let Ok((request, _, outcome)) = client
            && outcome != Outcome::Complete
        {
            world.trace.violation(format_args!("probe {} of {}: {outcome:?}", request.id, request.model));
        }
    }
}

async fn note_totals(world: &World, counts: &mut BTreeMap<String, u64>) {
    if let Some((snapshot, _)) = watch::snapshot(world).await {
        for total in ["acquired_total", "released_total", "fenced_total"] {
            counts.insert(format!("leases: {total}"), number(&snapshot, &format!("/leases/{total}")));
        }
    }
}

/// Stops everything as an operator would. Nodes that say goodbye are gone at once.
async fn stop(world: &Arc<World>) {
    for node in 0..world.settings().nodes {
        let Some(process) = world.take_node(node) else { continue };
        process.stop.cancel();
        world.clone().expect_exit(node, process).await;
        if let Some((snapshot, _)) = watch::snapshot(world).await
            && is_connected(&snapshot, node)
        {
            world.trace.violation(format_args!("node {node} has stopped and is still shown as connected"));
        }
    }
    if let Some(edge) = world.take_edge() {
        edge.stop.cancel();
        world.clone().expect_end(edge).await;
    }
}

/// Nothing of anything may be left.
async fn look_for_remains(world: &World, own: [AbortHandle; 2]) {
    let [network, watch] = own;
    watch.abort();
    sleep(REMAINS_LIMIT).await;
    network.abort();
    sleep(Duration::from_millis(1)).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    let tasks = metrics.num_alive_tasks();
    let sockets = world.network.open_sockets();
    let streams: usize = world.engines.iter().map(|engine| engine.open_connections()).sum();
    if (tasks, sockets, streams) != (0, 0, 0) {
        world.trace.violation(format_args!(
            "{tasks} tasks, {sockets} sockets and {streams} streams to engines are left"
        ));
    }
}
