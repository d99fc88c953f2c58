//! Wire mapping of each dialect: addresses, headers, what an event of a stream is. No retries, no
//! routing, no choice of keys.

pub mod openai;
