//! Facts to class: provider rules before generic ones.
