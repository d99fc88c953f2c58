//! One request from its bytes to its answer: admit, plan, walk, call, account.
