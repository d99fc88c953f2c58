//! Tests of merging file and edits.
