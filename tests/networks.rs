//! Nodes behind broken networks, each in network namespaces of its own. Built only with the feature `networks`, since it
//! needs Linux, root, iproute2, nftables and conntrack, which tests/run looks after; a missing piece is a failure.
#![cfg(target_os = "linux")]

#[path = "networks/load.rs"]
mod load;
#[path = "networks/moving.rs"]
mod moving;
#[path = "networks/namespaces.rs"]
mod namespaces;
#[path = "networks/outage.rs"]
mod outage;
#[path = "networks/relay.rs"]
mod relay;
#[path = "networks/site.rs"]
mod site;
#[path = "networks/weather.rs"]
mod weather;
