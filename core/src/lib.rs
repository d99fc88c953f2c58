//! The rules of the gateway: what a failure means, which keys are held, where a request goes next.
//!
//! Nothing here reads a clock, draws entropy, waits or talks to anyone. Callers pass `now` and a
//! generator in, and get back values and effects to carry out. Same inputs, same outputs.
#![warn(missing_docs)]

pub mod failure;
pub mod halves;
pub mod health;
pub mod holds;
pub mod ids;
pub mod incidents;
pub mod replica;
pub mod routing;
pub mod time;
pub mod tpm;
pub mod trail;
pub mod walk;
