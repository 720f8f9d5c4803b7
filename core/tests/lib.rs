//! Empty: cargo requires a library or a program in every package, and this one has tests only (`it/`).
