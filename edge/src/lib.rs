//! iop-edge: the process that clients call and nodes dial: admission, dispatch, gateway.

mod accept;
mod admin;
pub mod admission;
mod bearer;
mod certificates;
mod control;
mod desk;
mod dispatch;
mod estimate;
mod events;
mod gateway;
mod handshakes;
mod listeners;
mod live;
mod open_files;
mod patience;
mod quiet;
mod refresh;
mod registry;
pub mod render;
mod revocation;
pub mod scan;
mod server;
mod session;
mod settings;
mod told;

pub use certificates::{
    BUNDLE, CertificateFolder, Certificates, Issued, Looking, NodeRequest, OwnLook, Renewed, RevokedLook,
};
pub use listeners::{Accept, Addresses, ClientStream, ListenError, Listeners};
pub use refresh::{ConfigFile, ConfigSource, Loading, Reading};
pub use server::HttpTlsError;

use admin::{Admin, Guard, Subscribers};
use certificates::{Issuing, Own};
use desk::Desk;
use events::Events;
use gateway::Gateway;
use handshakes::Handshakes;
use iop_certs::{Identity, Revocations};
use iop_config::EdgeConfig;
use iop_transport::codes::CloseCode;
use iop_transport::endpoint::{self, EndpointError, QuicSettings, ResetSecret};
use iop_transport::tls::Credentials;
use live::Live;
use quiet::Quiet;
use refresh::Refresher;
use registry::Registry;
use revocation::Revoked;
use server::{Door, StallLimit};
use session::Sessions;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longest wait for the nodes to hear that the edge closes their connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What nodes hear then.
const GOODBYE: &[u8] = b"the edge is shutting down";

/// What an edge is made of. Everything that touches the world is handed in.
pub struct Edge {
    /// The configuration.
    pub config: EdgeConfig,
    /// Where it came from and is refreshed from.
    pub source: Arc<dyn ConfigSource>,
    /// Notified when somebody asks for a refresh by signal.
    pub refresh: Arc<Notify>,
    /// Certificate, key and trusted roots.
    pub identity: Identity,
    /// The certificates of nodes that are revoked.
    pub revocations: Revocations,
    /// Where both are looked up again and again.
    pub certificates: Arc<dyn Certificates>,
    /// Survives restarts, so that nodes notice one at once.
    pub reset_secret: ResetSecret,
    /// The bound sockets.
    pub listeners: Listeners,
}

impl Edge {
    /// Serves until `shutdown`. `ready` is called once, when everything answers.
    ///
    /// Errors: the QUIC endpoint could not be made. Nothing else ends an edge but its shutdown.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        ready: impl FnOnce(Addresses),
    ) -> Result<(), EndpointError> {
        let Self { config, source, refresh, identity, revocations, certificates, reset_secret, listeners } =
            self;
        let settings = QuicSettings {
            idle_timeout: config.quic.idle_timeout,
            keep_alive: None,
            segmentation_offload: config.quic.segmentation_offload,
        };
        let (addresses, max_clients) = (listeners.addresses, config.http.max_connections);
        let endpoint = endpoint::edge(
            listeners.quic,
            listeners.runtime,
            listeners.seed,
            credentials(&identity),
            &reset_secret,
            settings,
        )?;

        let (events, registry) = (Events::default(), Registry::default());
        let desk = Desk::new(events.clone());
        desk.configure(settings::admission(&config));
        let live = Live::new(config.clone());
        let refresher =
            Refresher::new(source, config, live.clone(), desk.clone(), registry.clone(), events.clone());
        let (deployment, own) = (identity.deployment.as_str().into(), Own::new(identity));
        let sessions = Sessions {
            desk: desk.clone(),
            registry: registry.clone(),
            live: live.clone(),
            events: events.clone(),
            handshakes: Handshakes::default(),
            revoked: Revoked::new(revocations),
            issuing: Issuing::new(certificates.clone(), own.clone()),
            quiet: Quiet::default(),
            idle_timeout: settings.idle_timeout,
            deployment,
        };
        let gateway = Gateway::new(live.clone(), desk.clone(), registry.clone(), addresses.http);
        let limits = live.clone();
        let stall_limit = StallLimit::new(move || limits.get().config.http.write_stall_timeout);
        let stop = CancellationToken::new();
        // Nothing goes on when this future is dropped before its end.
        let _stops = stop.clone().drop_guard();
        let admin = Admin {
            desk: desk.clone(),
            registry: registry.clone(),
            guard: Guard::new(live.clone(), addresses.admin),
            live,
            refresher: refresher.clone(),
            own: own.clone(),
            revoked: sessions.revoked.clone(),
            events,
            subscribers: Subscribers::default(),
            quiet: sessions.quiet.clone(),
            stop: stop.clone(),
        };

        let tracker = TaskTracker::new();
        let door = Door {
            listener: listeners.admin,
            tls: None,
            stall_limit: stall_limit.clone(),
            max_connections: admin::MAX_CONNECTIONS,
            max_streams: admin::MAX_STREAMS,
        };
        let operators = server::serve(door, stop.clone(), move |request| admin.clone().handle(request));
        tracker.spawn(operators);
        // A number of 32 bits fits wherever this runs.
        let max_clients =
            NonZeroUsize::try_from(max_clients.min(listeners.max_clients)).unwrap_or(NonZeroUsize::MAX);
        let door = Door {
            listener: listeners.http,
            tls: listeners.tls,
            stall_limit,
            max_connections: max_clients,
            max_streams: gateway::MAX_STREAMS,
        };
        let http = server::serve(door, shutdown, move |request| gateway.clone().handle(request));
        let install = |identity: &Identity| {
            let server = endpoint::edge_config(credentials(identity), settings);
            endpoint.set_server_config(Some(server.map_err(|error| error.to_string())?));
            Ok(())
        };
        ready(addresses);
        tokio::select! {
            biased;
            () = desk.run_timer() => {}
            () = accept::accept(&endpoint, &sessions, &tracker) => {}
            () = sessions.quiet.run_timer() => {}
            () = sessions.revoked.watch(&*certificates) => {}
            () = own.watch(&*certificates, install) => {}
            () = own.renew(&*certificates) => {}
            () = refresher.watch(&refresh) => {}
            // Ends after the shutdown, when running requests have had their time.
            () = http => {}
        }
        tracing::info!("shutting down");
        for registered in registry.all().into_values() {
            iop_transport::close(&registered.connection, CloseCode::EdgeShutdown, GOODBYE);
        }
        endpoint.close(CloseCode::EdgeShutdown.wire(), GOODBYE);
        stop.cancel();
        tracker.close();
        let closed = async {
            endpoint.wait_idle().await;
            tracker.wait().await;
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, closed).await.is_err() {
            tracing::warn!("some nodes did not confirm the end of their connection");
        }
        Ok(())
    }
}

fn credentials(identity: &Identity) -> Credentials {
    let Identity { chain, key, roots, .. } = identity.clone();
    Credentials { chain, key, roots }
}
