//! What an answer of a provider means.
//!
//! [`class`] says what each class means for retry, rotation and holds: one table. [`facts`] are
//! read from a response; [`rules`] turn facts into a class; [`hint`] reads how long a provider asks
//! to be left alone.

pub mod class;
pub mod facts;
pub mod hint;
pub mod rules;

pub use class::{FailureClass, Reason, Scope};
