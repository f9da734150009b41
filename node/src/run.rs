//! The node's driver: does what the supervisor answers, and tells it what came of it. It decides nothing itself.

use crate::diagnosis::Diagnosis;
use crate::dial::{
    BundleFile, Dialer, Identities, IdentitySource, Resolver, Sockets, SystemResolver, UdpSockets,
    connect_timeout,
};
use crate::providers::Providers;
use crate::session::{self, Registered, Renewals};
use crate::supervisor::{Attempts, Event, Exit, Policy, Retry, Step, Supervisor};
use crate::upstream::{Connector, TcpConnector};
use iop_config::NodeConfig;
use iop_transport::endpoint::QuicSettings;
use iop_transport::wire::Hello;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// The node's own idle timeout. The smaller value of both ends counts, and the edge's configuration owns it: this is the
/// largest that it may have.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Everything that a node is made of. What touches the world can be replaced.
pub struct NodeOptions {
    /// The node's file.
    pub config: NodeConfig,
    /// Random, one per process: tells this process from another one with the same certificate.
    pub instance: [u8; 16],
    /// The certificate that it dials with.
    pub identity: Arc<dyn IdentitySource>,
    /// UDP.
    pub sockets: Arc<dyn Sockets>,
    /// Name resolution.
    pub resolver: Arc<dyn Resolver>,
    /// Connections to inference servers.
    pub connector: Arc<dyn Connector>,
    /// Where the keys of inference servers are looked up by name.
    pub environment: fn(&str) -> Option<String>,
}

impl NodeOptions {
    /// A node in the real world.
    pub fn new(config: NodeConfig, instance: [u8; 16]) -> Self {
        let identity = Arc::new(BundleFile(config.certs.bundle.clone()));
        Self {
            config,
            instance,
            identity,
            sockets: Arc::new(UdpSockets),
            resolver: Arc::new(SystemResolver),
            connector: Arc::new(TcpConnector),
            environment: |name| std::env::var(name).ok(),
        }
    }
}

/// An accepted registration whose providers are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcomed {
    /// The node's id, from its certificate.
    pub node_id: String,
    /// Where the edge was reached.
    pub edge: SocketAddr,
    /// The generation that the registration owns.
    pub generation: u64,
}

/// Runs a node until `shutdown` resolves or nothing is left to try. `on_welcome` is called at each registration.
///
/// Why the node is not connected is logged, once per change. When this returns, nothing of the node runs any more. It
/// takes less than two seconds from `shutdown` to there.
pub async fn run(
    options: NodeOptions,
    shutdown: impl Future<Output = ()> + Send,
    mut on_welcome: impl FnMut(Welcomed) + Send,
) -> Exit {
    let stop = CancellationToken::new();
    let driver = Driver::new(options, stop.clone());
    let watch = async {
        shutdown.await;
        stop.cancel();
        std::future::pending().await
    };
    let driven = driver.run(&mut on_welcome).instrument(tracing::info_span!("node"));
    tokio::select! {
        biased;
        exit = driven => exit,
        never = watch => never,
    }
}

struct Driver {
    supervisor: Supervisor,
    dialer: Dialer,
    providers: Arc<Providers>,
    renewals: Renewals,
    stop: CancellationToken,
    /// The origin of the supervisor's time.
    started: Instant,
    /// The connection that was welcomed, until it is served.
    registered: Option<Registered>,
    /// What was last said about not being connected.
    said: Option<Diagnosis>,
}

impl Driver {
    fn new(options: NodeOptions, stop: CancellationToken) -> Self {
        let NodeOptions { config, instance, identity, sockets, resolver, connector, environment } = options;
        let interval = config.reconnect.interval();
        let attempts = config.reconnect.max_attempts().map_or(Attempts::Unlimited, Attempts::Exactly);
        let dialer = Dialer {
            edge: config.edge,
            settings: QuicSettings {
                idle_timeout: IDLE_TIMEOUT,
                keep_alive: Some(config.keep_alive),
                segmentation_offload: config.segmentation_offload,
            },
            connect_timeout: connect_timeout(interval),
            sockets,
            resolver,
            identities: Identities::new(identity.clone()),
            hello: Hello {
                instance,
                dial: 0,
                software: concat!("iop ", env!("CARGO_PKG_VERSION")).to_owned(),
            },
            endpoint: None,
            preferred: None,
        };
        Self {
            supervisor: Supervisor::new(Policy { attempts, interval }),
            dialer,
            providers: Arc::new(Providers::new(connector, config.allow_endpoints, environment)),
            renewals: Renewals::new(identity, instance),
            stop,
            started: Instant::now(),
            registered: None,
            said: None,
        }
    }

    async fn run(mut self, on_welcome: &mut (dyn FnMut(Welcomed) + Send)) -> Exit {
        let mut event = Event::Start;
        let exit = loop {
            event = match self.supervisor.apply(self.started.elapsed(), event) {
                Step::Dial => self.dial().await,
                Step::WaitUntil(time) => self.wait(time).await,
                Step::Serve => self.serve(on_welcome).await,
                Step::Exit(exit) => break exit,
            };
        };
        self.dialer.hang_up().await;
        match exit {
            Exit::Stopped => tracing::info!("stopped"),
            exit => tracing::error!(code = exit.code(), "giving up: {exit}"),
        }
        exit
    }

    async fn dial(&mut self) -> Event {
        let dialed = tokio::select! {
            biased;
            dialed = self.dialer.dial() => dialed,
            () = self.stop.cancelled() => return Event::Shutdown,
        };
        match dialed {
            Ok(registered) => {
                self.registered = Some(registered);
                Event::Welcomed
            }
            Err(diagnosis) => {
                let failure = diagnosis.failure();
                self.say("not connected", diagnosis);
                Event::DialFailed(failure)
            }
        }
    }

    async fn wait(&self, time: Duration) -> Event {
        tokio::select! {
        biased;
            () = sleep_until(self.started + time) => Event::WaitOver,
            () = self.stop.cancelled() => Event::Shutdown,
        }
    }

    async fn serve(&mut self, on_welcome: &mut (dyn FnMut(Welcomed) + Send)) -> Event {
        let registered = self.registered.take().expect("only a dial that was welcomed is served");
        let Registered { registration, node, shown, .. } = &registered;
        let generation = registration.welcome.generation;
        tracing::info!(%node, edge = shown, generation, "connected");
        self.said = None;
        self.compare_keep_alive(Duration::from_millis(registration.welcome.idle_timeout_ms));
        let span = tracing::info_span!("session", %node, generation);
        let served = session::serve(registered, &self.providers, &mut self.renewals, &self.stop, on_welcome);
        match served.instrument(span).await {
            Some(diagnosis) => {
                let failure = diagnosis.failure();
                self.say("connection lost", diagnosis);
                Event::Lost(failure)
            }
            None => Event::Shutdown,
        }
    }

    /// Two lost packets in a row must not end a connection.
    fn compare_keep_alive(&self, idle_timeout: Duration) {
        let keep_alive = self.dialer.settings.keep_alive.unwrap_or_default();
        if keep_alive * 3 > idle_timeout {
            tracing::warn!(
                keep_alive_ms = keep_alive.as_millis(),
                idle_timeout_ms = idle_timeout.as_millis(),
                "keep_alive_ms is more than a third of the edge's quic.idle_timeout_ms: the connection will be lost at times"
            );
        }
    }

    /// Says why there is no connection, once per change.
    fn say(&mut self, what: &str, diagnosis: Diagnosis) {
        if self.said.as_ref().is_some_and(|said| said.is_same(&diagnosis)) {
            return;
        }
        match diagnosis.failure().retry() {
            Retry::Never(_) => tracing::error!("{what}: {diagnosis}"),
            Retry::Soon | Retry::Paced => tracing::warn!("{what}: {diagnosis}"),
        }
        self.said = Some(diagnosis);
    }
}
