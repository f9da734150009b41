//! What the wire promises, shown on its bytes and over real QUIC on loopback. No network faults here: loopback neither
//! loses nor delays.

mod wire {
    mod cancel;
    mod close;
    mod codec;
    mod contract;
    mod deployment;
    mod edge_run;
    mod fairness;
    mod golden;
    mod links;
    mod node_run;
    mod path;
    mod registration;
    mod runs;
    mod send;
    mod silence;
    mod soak;
    mod tls;
}
