//! The engine's thread: accepts connections, reads requests into the log, and starts the scripted answer.

use super::body::{Answering, Broken, ScriptedBody, break_off};
use super::gate::Gate;
use super::log::{Log, MAX_REQUESTS};
use super::openai::{Pieces, Standard, standard};
use super::script::{Reply, Script, Then};
use super::wire::{Wire, Wishes};
use crate::deadline::wait_until_async;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long the port that an engine had before may be in use when it is to listen again.
const BIND_AGAIN: Duration = Duration::from_secs(10);

/// Largest request body kept: four times the gateway's own default limit.
const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// How new connections are met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Door {
    /// Not listening, all connections closed.
    #[default]
    Down,
    /// Accepted and served.
    Open,
    /// Accepted and closed without a byte.
    Refusing,
    /// The engine ends.
    Gone,
}

/// What the engine's handle and its thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    log: Mutex<Log>,
    scripts: Mutex<Scripts>,
    models: Mutex<Vec<String>>,
    pub(super) gate: Gate,
}

#[derive(Debug, Default)]
pub(super) struct Scripts {
    pub(super) queue: VecDeque<Script>,
    pub(super) default: Script,
}

impl Shared {
    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn scripts(&self) -> MutexGuard<'_, Scripts> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids that the list of models shows.
    pub(super) fn models(&self) -> MutexGuard<'_, Vec<String>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_script(&self) -> Script {
        let mut scripts = self.scripts();
        scripts.queue.pop_front().unwrap_or_else(|| scripts.default.clone())
    }
}

pub(super) struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    door: watch::Receiver<Door>,
}

impl Server {
    pub(super) fn new(
        listener: std::net::TcpListener,
        address: SocketAddr,
        shared: Arc<Shared>,
        door: watch::Receiver<Door>,
    ) -> Self {
        Self { listener, address, shared, door }
    }

    /// Serves until the door says `Gone`. One thread: the log's counts rely on it (wire.rs).
    pub(super) fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(self.serve());
    }

    async fn serve(mut self) {
        self.listener.set_nonblocking(true).expect("a listening socket can be made non-blocking");
        let listener = TcpListener::from_std(self.listener).expect("a bound socket joins the runtime");
        let mut listener = Some(listener);
        let mut connections = JoinSet::new();
        loop {
            let door = *self.door.borrow_and_update();
            match door {
                Door::Gone => return,
                Door::Down => {
                    listener = None;
                    connections.shutdown().await;
                }
                Door::Open | Door::Refusing if listener.is_none() => {
                    // For a moment the port may be the near end of somebody's outgoing connection.
                    let bind = async || TcpListener::bind(self.address).await;
                    listener = Some(wait_until_async("the port it had before", BIND_AGAIN, bind).await);
                }
                Door::Open | Door::Refusing => {}
            }
            self.shared.log().door = door;
            tokio::select! {
                changed = self.door.changed() => if changed.is_err() { return },
                stream = accept(listener.as_ref()) => match door {
                    Door::Open => { connections.spawn(converse(stream, Arc::clone(&self.shared))); }
                    _ => drop(stream),
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        // A failed accept is a client that has gone already.
        if let Ok((stream, _)) = listener.accept().await {
            return stream;
        }
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).expect("a connected socket takes TCP_NODELAY");
    let wire = Wire::new(stream, Arc::clone(&shared));
    let (connection, wishes) = (wire.number, Arc::clone(&wire.wishes));
    let service =
        service_fn(move |request| answer(request, connection, Arc::clone(&shared), Arc::clone(&wishes)));
    // Its error is the client's leaving or the script's break: both are in the log.
    let _ended = hyper::server::conn::http1::Builder::new().serve_connection(wire, service).await;
}

async fn answer(
    request: Request<Incoming>,
    connection: usize,
    shared: Arc<Shared>,
    wishes: Arc<Wishes>,
) -> Result<Response<ScriptedBody>, Broken> {
    let (head, body) = request.into_parts();
    let number = shared.log().arrived(connection, &head);
    receive(body, number, &shared).await?;
    let script = if head.method == Method::GET { Script::answer() } else { shared.next_script() };
    if head.method != Method::GET {
        shared.gate.pass(number, script.hold).await;
        tokio::time::sleep(script.delay).await;
    }
    let Script { reply, interval, cut, stepped, headers, .. } = script;
    let (status, content_type, pieces, sized) = match reply {
        _ if number >= MAX_REQUESTS => {
            (StatusCode::INSUFFICIENT_STORAGE, None, Pieces::list(vec!["the log is full".into()]), true)
        }
        Reply::OpenAi { chunks, chunk_bytes } => {
            let (path, body) =
                shared.log().requests.get(number).map(|it| (it.path.clone(), it.json())).unzip();
            let (path, body) = (path.unwrap_or_default(), body.unwrap_or_default());
            let Standard { status, content_type, pieces } =
                standard(&head.method, &path, &body, &shared.models(), chunks, chunk_bytes);
            (status, Some(content_type), pieces, true)
        }
        Reply::Http { status, pieces, sized } => (status, None, Pieces::list(pieces), sized),
        Reply::Raw(raw) => {
            wishes.send_instead(raw);
            // hyper's answer never leaves: only its break counts.
            let then = cut.map_or(Then::Close, |cut| cut.then);
            return Ok(raw_response(number, shared, wishes, then));
        }
        Reply::Nothing => {
            let then = cut.map_or(Then::Close, |cut| cut.then);
            break_off(then, number, &shared, &wishes).await?;
            return Err(Broken);
        }
    };
    let answering = Answering { request: number, shared, wishes, pieces, interval, cut, stepped, sized };
    let mut response = Response::new(ScriptedBody::new(answering));
    *response.status_mut() = status;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    for (name, value) in headers {
        let name: HeaderName = name.parse().expect("a script's header name is valid");
        response.headers_mut().append(name, value.parse().expect("a script's header value is valid"));
    }
    Ok(response)
}

fn raw_response(
    request: usize,
    shared: Arc<Shared>,
    wishes: Arc<Wishes>,
    then: Then,
) -> Response<ScriptedBody> {
    let cut = Some(super::script::Cut { after: 0, then });
    let (pieces, interval) = (Pieces::list(Vec::new()), Duration::ZERO);
    let stepped = false;
    let answering = Answering { request, shared, wishes, pieces, interval, cut, stepped, sized: false };
    Response::new(ScriptedBody::new(answering))
}

/// Reads the request's body into the log as it comes.
async fn receive(mut body: Incoming, number: usize, shared: &Shared) -> Result<(), Broken> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Broken)?;
        let mut log = shared.log();
        let kept = &mut log.requests[number].body;
        if let Some(data) = frame.data_ref() {
            if kept.len() + data.len() > MAX_BODY_BYTES {
                return Err(Broken);
            }
            kept.extend_from_slice(data);
        }
    }
    shared.log().requests[number].body_complete = true;
    Ok(())
}
