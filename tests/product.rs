//! The product as its users meet it: processes of the built binary, their files, output, exit codes, HTTP and signals.
//! What a single room does in detail is tested beside that room.

#[path = "product/by_hand.rs"]
mod by_hand;
#[path = "product/check.rs"]
mod check;
#[path = "product/demo.rs"]
mod demo;
#[path = "product/demo_providers.rs"]
mod demo_providers;
#[path = "product/drain.rs"]
mod drain;
#[path = "product/keys.rs"]
mod keys;
#[path = "product/lab.rs"]
mod lab;
#[path = "product/ports.rs"]
mod ports;
#[path = "product/refusal.rs"]
mod refusal;
#[path = "product/registration.rs"]
mod registration;
#[path = "product/smoke.rs"]
mod smoke;
#[path = "product/status.rs"]
mod status;
#[path = "product/status_refusal.rs"]
mod status_refusal;
#[path = "product/stop.rs"]
mod stop;
#[path = "product/streaming.rs"]
mod streaming;
#[path = "product/too_large.rs"]
mod too_large;
#[path = "product/unchanged.rs"]
mod unchanged;
