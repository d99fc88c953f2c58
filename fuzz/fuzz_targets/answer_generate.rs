//! Any bytes as an answer of a provider that speaks generate, whole and streamed, written for every client.

#![no_main]

use holdline_fuzz::protocols::Protocol;
use holdline_fuzz::{answer, mutate, samples};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| answer::check(Protocol::Generate, data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed, || samples::answers(Protocol::Generate))
});
