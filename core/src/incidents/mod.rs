//! Incidents: every trouble of a key, of a key for a model, or of a provider for a model, from its first
//! sign to its end.
//!
//! A node follows what it sees by itself ([`Tracker`]): routes whose health fails, holds, providers with
//! every key out. What one node saw of one trouble is a [`Sighting`]; it is kept there and told as it is.
//! An [`Incident`] is what [`merge()`] makes of the sightings of all nodes, the same on whichever node it is
//! asked for. [`Query`] picks, sorts and counts incidents.

mod merge;
mod scene;
mod select;
mod sighting;
mod tracker;

pub use merge::{Incident, merge};
pub use select::{FACETS, Facets, Field, Page, Query, Sort, Summary};
pub use sighting::{Cause, Entity, Event, Extent, Phase, Sighting, Status, Turn, Worst};
pub use tracker::{MAX_OPEN, Tracker, Traffic};

/// How long after its end a trouble that comes back, for the same class of failure, is the same one:
/// as long as a flapping key keeps its rung. In the node's own milliseconds.
pub const REOPEN_MS: u64 = crate::holds::ladder::MEMORY_MS;

/// How long no request may have reached what recovers before it waits for traffic: two recomputes of
/// health.
pub const QUIET_MS: u64 = 10_000;
