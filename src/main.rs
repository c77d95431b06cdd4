//! The `barevip` command.
fn main() {}
