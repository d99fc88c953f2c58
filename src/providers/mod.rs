//! Wire mapping of providers, and nothing else: no retry, routing or key choice.
