//! The configurations that are shipped in `packaging/`: each passes its check, warns of nothing but what its comment says,
//! and publishes nothing that nobody handles.

use std::path::{Path, PathBuf};

use punctual::Clock as _;
use punctual::SystemClock;
use punctual_server::config::{Loaded, Sources};

/// What every server handles; see [`punctual_server::TEST_TOPIC`].
const HANDLED: &str = punctual_server::TEST_TOPIC;
/// Where TLS ends in front of the server the configuration cannot know; a comment says so.
const PLAIN: &str = "server.listen";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// The text that stands indented under a key of a YAML file.
fn block(yaml: &str, key: &str) -> String {
    let after = yaml.split_once(&format!("{key}: |\n")).unwrap().1;
    let lines = after.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.flat_map(|line| [line.trim_start_matches("    "), "\n"]).collect()
}

/// Every configuration by the name of its file.
fn all() -> Vec<(&'static str, String)> {
    let manifest = read("kubernetes/punctual.yaml");
    vec![
        ("container.toml", read("container.toml")),
        ("kubernetes/punctual.yaml", block(&manifest, "punctual.toml")),
    ]
}

fn loaded(name: &str, text: &str) -> Loaded {
    Sources::default().load_text(name, text).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn every_configuration_passes_its_check() {
    for (name, text) in all() {
        let loaded = loaded(name, &text);
        let warnings = loaded.warnings(SystemClock.now());
        let unexpected: Vec<_> = warnings.iter().filter(|one| one.key != PLAIN).collect();
        assert!(unexpected.is_empty(), "{name}: {unexpected:?}");
    }
}

// The example for Kubernetes published a topic every five minutes that nobody handled.
#[test]
fn no_job_publishes_what_nobody_handles() {
    let mut jobs = 0;
    for (name, text) in all() {
        for (job, spec) in loaded(name, &text).config.jobs {
            jobs += 1;
            let published = spec.publish.map(|publish| publish.topic).or(spec.topic);
            assert!(published.is_none_or(|topic| topic == HANDLED), "{name}: {job}");
        }
    }
    assert!(jobs > 0, "the example for Kubernetes has a job");
}

/// A configuration that is added is read here as well.
#[test]
fn no_configuration_is_left_out() {
    let (mut folders, mut found) = (vec![folder()], Vec::new());
    while let Some(one) = folders.pop() {
        for entry in std::fs::read_dir(one).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("[server]\n") {
                found.push(path.strip_prefix(folder()).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    let known: Vec<&str> = all().into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, known);
}
