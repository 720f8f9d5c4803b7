//! Packaged configurations in `packaging/`: each passes its check, has only the warning that its comment explains, and
//! publishes only to topics with a handler.

use std::path::{Path, PathBuf};

use punctual::Clock as _;
use punctual::SystemClock;
use punctual_server::config::{LoadedConfig, Sources};

/// Topic that every server handles; see [`punctual_server::TEST_TOPIC`].
const HANDLED: &str = punctual_server::TEST_TOPIC;
/// Key of the expected warning: the configuration cannot know where TLS is terminated.
const PLAIN: &str = "server.listen";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// Returns the indented text under a key of a YAML file.
fn block(yaml: &str, key: &str) -> String {
    let after = yaml.split_once(&format!("{key}: |\n")).unwrap().1;
    let lines = after.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.flat_map(|line| [line.trim_start_matches("    "), "\n"]).collect()
}

/// Returns every configuration with the name of its file.
fn all() -> Vec<(&'static str, String)> {
    let manifest = read("kubernetes/punctual.yaml");
    vec![
        ("container.toml", read("container.toml")),
        ("kubernetes/punctual.yaml", block(&manifest, "punctual.toml")),
    ]
}

fn loaded(name: &str, text: &str) -> LoadedConfig {
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

// The example for Kubernetes published to a topic without a handler every five minutes.
#[test]
fn no_job_publishes_to_a_topic_without_a_handler() {
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

/// A new configuration must be tested here as well.
#[test]
fn every_configuration_is_tested() {
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
