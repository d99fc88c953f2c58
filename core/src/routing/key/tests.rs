//! Tests of key choice.
