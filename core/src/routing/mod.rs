//! Where a request goes: providers, then keys.
//!
//! [`view`] is what a request reads; [`plan()`] makes its legs; [`key`] picks one key of a leg. All pure,
//! so that explaining, simulating and serving use the same functions.

pub mod budget;
pub mod explain;
#[cfg(test)]
pub(crate) mod fixture;
pub mod key;
pub mod naming;
pub mod pin;
pub mod plan;
pub mod provider;
pub mod session;
pub mod settings;
pub mod view;

pub use budget::{Bucket, BudgetRule, RetryBudget};
pub use pin::Pin;
pub use plan::{Leg, Legs, Plan, PlanError, PlannedCheck, RequestFacts, Target, dry_run, plan};
pub use session::Bound;
pub use settings::Settings;
pub use view::{KeySpec, KeyView, ModelRule, ProviderView, RetryPolicy, View};
