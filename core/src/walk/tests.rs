//! Tests of the walk.
