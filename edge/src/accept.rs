//! New connections, as far as there is room for their handshakes. What becomes of them is `session`'s.

use crate::handshakes::Verdict;
use crate::quiet::Who;
use crate::session::Sessions;
use iop_transport::Endpoint;
use tokio_util::task::TaskTracker;
use tracing::warn;

/// Accepts until the endpoint is closed. Each connection is a task of `tracker`.
pub(crate) async fn accept(endpoint: &Endpoint, sessions: &Sessions, tracker: &TaskTracker) {
    let Sessions { handshakes, quiet, .. } = sessions;
    while let Some(incoming) = endpoint.accept().await {
        let address = incoming.remote_address();
        match handshakes.arrive(address.ip(), incoming.remote_address_validated()) {
            Verdict::Go(place) => {
                tracker.spawn(sessions.clone().serve(incoming, place));
            }
            // Fails only for an address that is proven already, and those are not asked.
            Verdict::Prove => drop(incoming.retry()),
            Verdict::Refuse => {
                incoming.refuse();
                if let Some(left_out) = quiet.may_say(Who::Stranger) {
                    warn!(%address, left_out, "refused a connection: too many handshakes are under way");
                }
            }
        }
    }
}
