//! Generated documents, rendered from the code. Each test fails when its file is outdated; with
//! `PUNCTUAL_GENERATE=1`, which `cargo xtask generate` sets, it writes the file instead.

use std::path::Path;

fn generated(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("PUNCTUAL_GENERATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/{name} is stale; run `cargo xtask generate`");
}

#[test]
fn generated_states_are_fresh() {
    generated("states.md", &punctual::model::render_states());
}

#[test]
fn generated_events_are_fresh() {
    generated("guide/events.md", &punctual::event::render_events());
}
