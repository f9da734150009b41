//! A whole node against an edge that is made of the transport alone, over real QUIC on loopback. What the node does with
//! its runs is tested elsewhere.

mod edge;
mod log;
mod node;
mod outage;
mod pki;
mod refusal;
mod serving;
