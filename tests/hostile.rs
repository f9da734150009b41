//! Peers that mean harm, against real processes: nodes and edges with a good certificate of the deployment, and strangers
//! without one. In each case that peer alone suffers, and whoever is honest goes on.

#[path = "hostile/answers.rs"]
mod answers;
#[path = "hostile/control.rs"]
mod control;
#[path = "hostile/crowd.rs"]
mod crowd;
#[path = "hostile/edge.rs"]
mod edge;
#[path = "hostile/events.rs"]
mod events;
#[path = "hostile/fake_edge.rs"]
mod fake_edge;
#[path = "hostile/fake_node.rs"]
mod fake_node;
#[path = "hostile/order.rs"]
mod order;
#[path = "hostile/renewal.rs"]
mod renewal;
#[path = "hostile/silence.rs"]
mod silence;
#[path = "hostile/site.rs"]
mod site;
#[path = "hostile/strangers.rs"]
mod strangers;
