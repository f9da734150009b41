//! iop-edge: the process that clients call and nodes dial: admission, dispatch, gateway.

mod admin;
pub mod admission;
mod control;
pub mod desk;
mod dispatch;
mod gateway;
mod listeners;
mod live;
mod registry;
pub mod render;
pub mod scan;
mod server;
mod session;
pub mod settings;

pub use listeners::{Addresses, ListenError, Listeners};

use admin::Admin;
use desk::Desk;
use gateway::Gateway;
use iop_certs::Identity;
use iop_config::EdgeConfig;
use iop_transport::codes::CloseCode;
use iop_transport::endpoint::{self, EndpointError, QuicSettings, ResetSecret};
use iop_transport::tls::Credentials;
use live::Live;
use registry::Registry;
use session::Sessions;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longest wait for the nodes to hear that the edge closes their connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What an edge is made of. Everything that touches the world is handed in.
pub struct Edge {
    /// The configuration.
    pub config: EdgeConfig,
    /// Certificate, key and trusted roots.
    pub identity: Identity,
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
        let Self { config, identity, reset_secret, listeners } = self;
        let settings = QuicSettings {
            idle_timeout: config.quic.idle_timeout,
            keep_alive: None,
            segmentation_offload: config.quic.segmentation_offload,
        };
        let addresses = listeners.addresses;
        let credentials = Credentials { chain: identity.chain, key: identity.key, roots: identity.roots };
        let endpoint =
            endpoint::edge(listeners.quic, listeners.runtime, credentials, &reset_secret, settings)?;

        let (desk, registry) = (Desk::default(), Registry::default());
        desk.configure(settings::admission(&config));
        let live = Live::new(config);
        let sessions = Sessions {
            desk: desk.clone(),
            registry: registry.clone(),
            live: live.clone(),
            deployment: identity.deployment.into(),
        };
        let gateway = Gateway::new(live.clone(), desk.clone(), registry.clone());
        let admin = Admin { desk: desk.clone(), registry, live };

        let tracker = TaskTracker::new();
        let admin_stop = CancellationToken::new();
        tracker.spawn(server::serve(listeners.admin, admin_stop.clone(), move |request| {
            admin.clone().handle(request)
        }));
        let accept = async {
            while let Some(incoming) = endpoint.accept().await {
                tracker.spawn(sessions.clone().serve(incoming));
            }
        };
        let http = server::serve(listeners.http, shutdown, move |request| gateway.clone().handle(request));
        ready(addresses);
        tokio::select! {
            () = desk.run_timer() => {}
            () = accept => {}
            // Ends after the shutdown, when running requests have had their time.
            () = http => {}
        }
        tracing::info!("shutting down");
        endpoint.close(CloseCode::EdgeShutdown.wire(), b"the edge is shutting down");
        admin_stop.cancel();
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
