//! Nothing: cargo asks every package for a library or a program, and this one has tests only (`it/`).
