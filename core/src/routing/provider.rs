//! Which providers serve a model, and how each stands.
