//! [disconnect-exclusion] [disconnect-queue-resolution] [offline-snapshot] [reconnect-candidate-recovery]
//! [node-connectivity-supervision] and client cancel, through processes of the built binary on loopback. Broken networks
//! are in networks.rs; what a single room does in detail is tested beside that room.

#[path = "connectivity/again.rs"]
mod again;
#[path = "connectivity/broken.rs"]
mod broken;
#[path = "connectivity/cancel.rs"]
mod cancel;
#[path = "connectivity/clients.rs"]
mod clients;
#[path = "connectivity/duplicate.rs"]
mod duplicate;
#[path = "connectivity/events.rs"]
mod events;
#[path = "connectivity/exit.rs"]
mod exit;
#[path = "connectivity/expiry.rs"]
mod expiry;
#[path = "connectivity/fleet.rs"]
mod fleet;
#[path = "connectivity/lab.rs"]
mod lab;
#[path = "connectivity/reasons.rs"]
mod reasons;
#[path = "connectivity/renewal.rs"]
mod renewal;
#[path = "connectivity/revocation.rs"]
mod revocation;
#[path = "connectivity/silence.rs"]
mod silence;
#[path = "connectivity/supervision.rs"]
mod supervision;
