//! Which key of a provider an attempt uses: weighted chance among those that serve and are not held.
