//! What an answer of a provider means.
//!
//! [`class`] says what each class means for retry, rotation and holds: one table. [`facts`] are
//! read from a response; [`rules`] turn facts into a class; [`hint`] reads how long a provider asks
//! to be left alone; [`words()`] makes its words fit to be shown.

pub mod class;
pub mod facts;
pub mod hint;
pub mod rules;
pub mod words;

pub use class::{FailureClass, Reason, Scope};
pub use facts::{Facts, Headers};
pub use hint::stated_wait_ms;
pub use rules::{Classifier, OwnRule, RuleName, Verdict};
pub use words::{label, words};
