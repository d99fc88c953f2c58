//! Any bytes as a request for embeddings and its answers, between every two protocols that have them.

#![no_main]

use holdline_fuzz::{mutate, vectors};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| vectors::check(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed, vectors::samples)
});
