//! Check and serve: `config check` refuses what `serve` refuses, with the key and a hint.

use punctual::ErrorKind;
use punctual_server::Assembly;
use punctual_server::config::{Config, EXAMPLE, LoadedConfig, Sources};

use crate::wrong_types::{assert_plain, job_keys, keys};

/// Starts a server with an unchecked configuration and returns its error.
async fn assembled(text: &str) -> Result<(), punctual::Error> {
    let mut config: Config = toml::from_str(text).unwrap();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.storage.address = "memory:".into();
    let loaded = LoadedConfig { config, ..LoadedConfig::default() };
    let assembly = Assembly { loaded, sources: Sources::default(), demo: false };
    assembly.start().await?.shutdown().await;
    Ok(())
}

/// Returns the problems found by `config check`.
fn checked(text: &str) -> Vec<String> {
    match Sources::default().read("punctual.toml", text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

fn transports(topics: &[(&str, &str)]) -> String {
    let table = |(name, topics): &(&str, &str)| {
        format!("[transports.{name:?}]\naddress = \"memory:\"\ntopics = {topics}\n")
    };
    topics.iter().map(table).collect()
}

// Finding P16 of the newcomer's review: `config check` passed what `serve` refuses with a message for programmers.
#[tokio::test]
async fn check_and_serve_refuse_the_same_configurations() {
    let job = |name: &str| format!("[jobs.{name:?}]\nevery = \"1h\"\ntopic = \"{name}\"\n");
    let large = format!("{}payload = {:?}\n", job("a"), "x".repeat(1_100_000));
    for (text, key, words) in [
        (transports(&[("a", "[\"*\"]")]), "transports.a.topics", "such as \"orders.*\""),
        (
            transports(&[("a", "[\"or*ders*\"]")]),
            "transports.a.topics",
            "only as the last character",
        ),
        (transports(&[("a", "[\"\"]")]), "transports.a.topics", "at least one character"),
        (transports(&[("a", "[\"~x*\"]")]), "transports.a.topics", "first character"),
        (transports(&[("a", "[\"punctual.http\"]")]), "transports.a.topics", "another name"),
        (transports(&[("a", "[\"x\", \" x\"]")]), "transports.a.topics", "is listed twice"),
        (
            transports(&[("a", "[\"x*\"]"), ("b", "[\"x*\"]")]),
            "transports.b.topics",
            "already belongs to the transport \"a\"",
        ),
        (
            transports(&[("a", "[\"x\"]"), ("b", "[\"x\"]")]),
            "transports.b.topics",
            "already belongs to the transport \"a\"",
        ),
        (transports(&[(" a", "[]"), ("a", "[]")]), "transports.a", "rename one"),
        ("[queues.\" a\"]\n[queues.a]\n".to_owned(), "queues.a", "rename one"),
        ("[queues.\"punctual.webhook\"]\n".to_owned(), "punctual.webhook", "remove this table"),
        (job("A") + &job("a"), "jobs.a", "rename one"),
        (large, "jobs.a.payload", "at most"),
    ] {
        let start: String = text.chars().take(200).collect();
        let error = assembled(&text).await.expect_err(&start);
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict), "{error}");
        assert_plain(&start, &error.to_string());
        let problems = checked(&text);
        assert!(
            problems.iter().any(|one| one.contains(&format!("{key}: "))),
            "{start}: {problems:?}"
        );
        assert!(problems.iter().any(|one| one.contains(words)), "{start}: {problems:?}");
        assert_plain(&start, &problems.join("\n"));
    }
}

// A topic of two separately declared jobs, and queues that the server adds itself, were refused.
#[tokio::test]
async fn allowed_duplicates_start() {
    for text in [
        "[jobs.A]\nevery = \"1h\"\ntopic = \"t\"\nenabled = false\n[jobs.a]\nevery = \"1h\"\ntopic = \"t\"\n",
        "[jobs.a]\nevery = \"1h\"\ntopic = \"t\"\nqueue = \"punctual.webhook\"\n",
        "[jobs.a]\nevery = \"1h\"\ntopic = \"t\"\nqueue = \" default\"\n",
        "[webhooks]\nenabled = false\n[queues.\"punctual.webhook\"]\n",
        &transports(&[("a", "[\"x\", \"x*\", \"xy*\"]"), ("b", "[\"y\"]")]),
    ] {
        assert_eq!(checked(text), [""; 0], "{text}");
        assembled(text).await.expect(text);
    }
}

/// Delays of a broker whose messages survive a restart. What transports need is compared with their capabilities where
/// they are opened by address.
#[cfg(feature = "nats")]
#[test]
fn a_durable_broker_needs_a_durable_storage() {
    let text = |storage: &str| {
        format!(
            "[storage]\naddress = \"{storage}\"\n[transports.events]\naddress = \"nats://127.0.0.1:4222\"\n"
        )
    };
    assert_eq!(checked(&text("sqlite:a.db")), [""; 0]);
    let problems = checked(&text("memory:"));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("punctual.toml:2: storage.address: "), "{problems:?}");
    assert!(
        problems[0].contains("\"events\"") && problems[0].contains("sqlite:punctual.db"),
        "{problems:?}"
    );
    assert_plain("a durable broker", &problems[0]);
}

/// Tries every key of the example and of a job with values of each type: what the check accepts must start. Only files
/// are checked at the start, because they may be on another machine.
#[tokio::test]
async fn a_configuration_that_passes_the_check_starts() {
    let config = Sources::default().read("example.toml", EXAMPLE).unwrap();
    let mut all = Vec::new();
    keys(&serde_json::to_value(&config).unwrap(), &[], &mut all);
    let quoted =
        |key: &str| key.split('.').map(|part| format!("{part:?}")).collect::<Vec<_>>().join(".");
    let whole = all.iter().map(|key| quoted(key));
    let of_jobs = job_keys().await.into_iter();
    let of_jobs =
        of_jobs.map(|key| format!("[jobs.x]\nevery = \"1h\"\ntopic = \"t\"\n{}", quoted(&key)));
    let (mut started, mut refused) = (0, Vec::new());
    for key in whole.chain(of_jobs) {
        for value in ["\"§\"", "\" a \"", "\"1s\"", "0", "7", "true", "[]", "[\"a*\"]", "{}"] {
            let text = format!("{key} = {value}\n");
            if !checked(&text).is_empty() {
                continue;
            }
            started += 1;
            if let Err(error) = assembled(&text).await
                && !error.to_string().contains("cannot be read: ")
            {
                refused.push(format!("{text}{error}"));
            }
        }
    }
    assert!(refused.is_empty(), "the check let pass:\n{}", refused.join("\n"));
    assert!(started > 50, "{started}");
}
