//! Tests of reading config.json.
