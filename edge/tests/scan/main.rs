//! The scan of bodies, by example and against parsers that have the whole body at hand.

mod json;
mod multipart;
