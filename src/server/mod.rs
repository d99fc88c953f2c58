//! The accept loop: limits, timeouts, drain.
