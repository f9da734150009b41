//! iop-edge: the process that clients call and nodes dial: admission, dispatch, gateway.

pub mod admission;
pub mod render;
pub mod scan;
