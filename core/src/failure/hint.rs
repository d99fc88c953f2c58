//! How long a provider asks to be left alone.
