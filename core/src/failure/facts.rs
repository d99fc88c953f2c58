//! What is read from a response before it is classified.
