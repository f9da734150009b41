//! iop-node: the process beside the inference servers: supervisor, session, gate, adapters.
