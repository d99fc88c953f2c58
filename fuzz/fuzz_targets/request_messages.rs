//! Any bytes as a request of the client protocol messages, written for every provider.

#![no_main]

use holdline_fuzz::protocols::Protocol;
use holdline_fuzz::{request, mutate, samples};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| request::check(Protocol::Messages, data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed, || samples::requests(Protocol::Messages))
});
