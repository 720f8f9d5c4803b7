//! Configuration: cron texts from the environment and from files win over the code, nothing else can be
//! configured, and errors are reported without preventing the start.

use std::io::Write as _;
use std::process::Command;

use punctual::health::Condition;
use punctual::{Builder, Configuration, ErrorKind, Job, Misfire, Punctual};
use tempfile::NamedTempFile;

use crate::harness::{Bench, instant, seconds, world};

fn daily(builder: Builder) -> Builder {
    builder.declare(Job::cron("nightly-report", "0 8 * * *").zone("Europe/Warsaw"))
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn file_with_cron(cron: &str) -> NamedTempFile {
    file(&format!(
        r#"{{"Messaging": {{"Scheduling": {{"Jobs": {{"nightly-report": {{"CronExpression": "{cron}"}}}}}}}}}}"#
    ))
}

fn variable(value: &'static str) -> Configuration {
    Configuration::from_pairs([(
        "Messaging__Scheduling__Jobs__nightly_report__CronExpression",
        value,
    )])
}

async fn cursor(bench: &Bench) -> String {
    let record = bench.punctual.admin().job("nightly-report").await.unwrap();
    record.cursor.unwrap().strftime("%H:%M").to_string()
}

// spec: H-53, H-54, H-57
#[tokio::test]
async fn a_file_wins_over_the_code_and_a_later_file_over_an_earlier_one() {
    let world = world();
    let (seven, noon) = (file_with_cron("0 9 * * *"), file_with_cron("0 12 * * *"));
    let bench =
        Bench::start_in(world.clone(), |builder| daily(builder).configure_file(seven.path())).await;
    assert_eq!(cursor(&bench).await, "08:00", "nine in Warsaw");
    bench.punctual.shutdown().await;
    let both = |builder| daily(builder).configure_file(seven.path()).configure_file(noon.path());
    let bench = Bench::start_in(world.clone(), both).await;
    assert_eq!(cursor(&bench).await, "11:00");
    bench.punctual.shutdown().await;
    let bench = Bench::start_in(world, daily).await;
    let record = bench.punctual.admin().job("nightly-report").await.unwrap();
    assert_eq!(
        (record.configured, record.job),
        (None, record.declared),
        "absent, the code is back"
    );
}

// spec: H-53, H-54
#[tokio::test]
async fn what_the_application_sets_wins_over_files() {
    let noon = file_with_cron("0 12 * * *");
    let bench = Bench::start(|builder| {
        daily(builder).configure_file(noon.path()).configure(variable("0 10 * * *"))
    })
    .await;
    assert_eq!(cursor(&bench).await, "09:00", "ten in Warsaw");
}

// The variables of a running process cannot be set safely, so this test starts itself with them.
// spec: H-53, H-54
#[tokio::test]
async fn the_environment_wins_over_a_file() {
    const NAME: &str = "PUNCTUAL_JOBS__NIGHTLY_REPORT__CRON";
    if std::env::var_os(NAME).is_none() {
        let test = "configuration::the_environment_wins_over_a_file";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(NAME, "0 10 * * *")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && output.contains("1 passed"), "{output}");
        return;
    }
    let noon = file_with_cron("0 12 * * *");
    let bench =
        Bench::start(|builder| daily(builder).configure_from_env().configure_file(noon.path()))
            .await;
    assert_eq!(cursor(&bench).await, "09:00", "ten in Warsaw");
}

// trap 16
// spec: H-55, H-56
#[tokio::test]
async fn a_wrong_value_is_reported_shown_and_not_used() {
    let wrong = file_with_cron("every now and then");
    let bench = Bench::start(|builder| daily(builder).configure_file(wrong.path())).await;
    assert_eq!(bench.punctual.events().count("job.configuration_invalid"), 1);
    let record = bench.punctual.admin().job("nightly-report").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-03T07:00:00Z")), "the declared one");
    let admin = bench.punctual.admin();
    let health = admin.health().await;
    assert_eq!(health.condition, Condition::Degraded);
    assert!(health.reasons[0].contains("nightly-report"), "{:?}", health.reasons);
    let status = admin.status().await;
    assert!(status.jobs[0].misconfigured.as_ref().unwrap().contains("is wrong"));
    assert_eq!(status.misconfigured[0].text, "every now and then");
}

// spec: H-56
#[tokio::test]
async fn only_the_cron_can_be_configured() {
    let job = || {
        Job::cron("nightly-report", "0 8 * * *")
            .zone("Europe/Warsaw")
            .timeout(seconds(9))
            .misfire(Misfire::skip_to_next())
    };
    let everything = file(
        r#"{"Messaging": {"Scheduling": {"Jobs": {"nightly-report": {
            "CronExpression": "0 12 * * *", "TimeZone": "Asia/Tokyo", "Timeout": "1s",
            "Retries": 7, "Enabled": false}}}}}"#,
    );
    let bench =
        Bench::start(|builder| builder.declare(job()).configure_file(everything.path())).await;
    assert_eq!(bench.punctual.events().count("configuration.ignored"), 4);
    let record = bench.punctual.admin().job("nightly-report").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T11:00:00Z")), "noon in Warsaw");
    assert_eq!(record.job.handler_options, record.declared.handler_options);
    assert_eq!((record.job.misfire, record.paused), (Misfire::skip_to_next(), None));
    let keys: Vec<String> =
        bench.punctual.admin().status().await.misconfigured.into_iter().map(|it| it.key).collect();
    assert!(keys.contains(&"Messaging:Scheduling:Jobs:nightly-report:TimeZone".to_owned()));
    let health = bench.punctual.admin().health().await;
    assert_eq!(health.condition, Condition::Healthy, "an unknown key is no problem of health");
}

#[tokio::test]
async fn a_configured_job_that_is_not_declared_is_warned_about() {
    let bench = Bench::start(|builder| {
        let other = Configuration::from_pairs([("PUNCTUAL_JOBS__WEEKLY__CRON", "0 1 * * *")]);
        daily(builder).configure(other).cron_override("monthly", "0 1 1 * *")
    })
    .await;
    assert_eq!(bench.punctual.events().count("configuration.ignored"), 2);
    assert_eq!(bench.punctual.events().count("job.configuration_invalid"), 0);
    assert_eq!(bench.punctual.admin().health().await.condition, Condition::Healthy);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused_by_name() {
    let broken = file("{\"Messaging\": ");
    for path in [broken.path().to_owned(), broken.path().with_extension("missing")] {
        let built = daily(Punctual::builder()).configure_file(&path).build();
        let error = built.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(error.to_string().contains(&name), "{error}");
    }
}

// spec: H-58
#[test]
fn every_spelling_is_in_the_guide() {
    let guide = include_str!("../../../docs/guide/operating.md");
    for spelling in [
        "Messaging:Scheduling:Jobs:{Name}:CronExpression",
        "Messaging__Scheduling__Jobs__nightly_report__CronExpression",
        "PUNCTUAL_JOBS__NIGHTLY_REPORT__CRON",
    ] {
        assert!(guide.contains(spelling), "{spelling}");
    }
    // The files that the guide shows are read as documented.
    let shown = guide.lines().filter_map(|line| line.split('`').find(|part| part.starts_with('{')));
    let shown: Vec<&str> = shown.collect();
    assert_eq!(shown.len(), 2);
    for text in shown {
        let built = daily(Punctual::builder())
            .configure(Configuration::from_json(text).unwrap())
            .build()
            .unwrap();
        assert_eq!(built.events().count("configuration.ignored"), 0, "{text}");
    }
}

// trap 16
// spec: H-55
#[tokio::test]
async fn a_cron_text_for_a_job_that_is_declared_later_is_shown_when_it_is_wrong() {
    let job = || vec![Job::cron("nightly-report", "0 8 * * *")];
    let start = |text: &'static str| {
        Bench::start(move |builder| builder.expect_more_jobs().configure(variable(text)))
    };
    let bench = start("0 9 * * *").await;
    let (admin, events) = (bench.punctual.admin(), bench.punctual.events());
    admin.reconcile("file", job()).await.unwrap();
    assert_eq!(events.count("configuration.ignored"), 0, "it is used");
    let status = admin.status_of("nightly-report").await.unwrap();
    assert_eq!(status.misconfigured, None);
    assert_eq!(admin.health().await.condition, Condition::Healthy);

    let bench = start("every day").await;
    let (admin, events) = (bench.punctual.admin(), bench.punctual.events());
    admin.reconcile("file", job()).await.unwrap();
    let status = admin.status_of("nightly-report").await.unwrap();
    assert!(status.misconfigured.unwrap().contains("is wrong, so it is not used"));
    assert_eq!(admin.health().await.condition, Condition::Degraded);
    assert_eq!(events.count("configuration.ignored"), 0);
    admin.reconcile("file", job()).await.unwrap();
    assert_eq!(
        admin.health().await.reasons.len(),
        1,
        "reported once, not with every reconciliation"
    );

    let bench = start("0 9 * * *").await;
    let admin = bench.punctual.admin();
    for _ in 0..2 {
        admin.reconcile("file", vec![Job::cron("other", "0 8 * * *")]).await.unwrap();
    }
    assert_eq!(bench.punctual.events().count("configuration.ignored"), 1, "no such job");
}
