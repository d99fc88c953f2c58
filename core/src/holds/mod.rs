//! Held keys: who may use which key, how long it rests, what each answer does to a hold.
//!
//! A [`Record`] is what travels; the [`Ledger`] is one node's table of them. Local answers, records
//! of other nodes, operator releases and restored snapshots are inputs to the same ledger.

pub mod check;
pub mod ladder;
pub mod ledger;
pub mod record;
mod row;
pub mod settle;
pub mod view;

pub use check::{CheckGuard, CheckSlot};
pub use ledger::{Ledger, RouteKey, Selector};
pub use record::{Body, Details, Incoming, Record, Register, Subject, SubjectScope, Wait};
pub use settle::{Answer, Refusal, Token};
pub use view::{HeldRow, HoldRef, HoldState, KeyHolds};
