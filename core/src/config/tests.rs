//! Tests of the configuration: which keys are read, which job each belongs to, and what is ignored.

use super::*;
use crate::schedule::Schedule;

fn jobs(names: &[&str]) -> Vec<Job> {
    let schedule = || Schedule::cron_utc("0 * * * *").unwrap();
    names.iter().map(|name| Job::new(name, schedule()).unwrap()).collect()
}

fn texts(sources: &[Configuration], jobs: &[Job]) -> Vec<(String, String)> {
    let resolved = resolve(sources, jobs);
    let name = |index: usize| jobs[index].name.as_str().to_owned();
    resolved.texts.into_iter().map(|(index, _, text)| (name(index), text)).collect()
}

fn found(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    texts(&[Configuration::from_pairs(pairs.iter().copied())], &jobs(&["nightly-report", "a.b"]))
}

// spec: H-53
#[test]
fn every_spelling_of_the_key_finds_its_job() {
    for key in [
        "Messaging:Scheduling:Jobs:nightly-report:CronExpression",
        "Messaging__Scheduling__Jobs__nightly-report__CronExpression",
        "Messaging__Scheduling__Jobs__nightly_report__CronExpression",
        "MESSAGING__SCHEDULING__JOBS__NIGHTLY_REPORT__CRONEXPRESSION",
        "Punctual:Jobs:nightly-report:Cron",
        "PUNCTUAL_JOBS__NIGHTLY_REPORT__CRON",
        "punctual_jobs__Nightly_Report__cron",
    ] {
        let expected = [("nightly-report".to_owned(), "0 3 * * *".to_owned())];
        assert_eq!(found(&[(key, "0 3 * * *")]), expected, "{key}");
    }
    let other = [("PATH", "x"), ("PUNCTUAL_JOBS", "x"), ("PUNCTUAL_JOBS____CRON", "x")];
    assert!(found(&other).is_empty());
    assert_eq!(resolve(&[Configuration::from_pairs(other)], &[]).ignored, []);
}

// spec: H-57
#[test]
fn an_empty_value_is_no_value() {
    assert!(found(&[("PUNCTUAL_JOBS__NIGHTLY_REPORT__CRON", "  ")]).is_empty());
}

// spec: H-53
#[test]
fn a_file_is_nested_or_flat_and_may_hold_anything_else() {
    let nested = r#"{
        "Logging": {"Level": {"Default": 3}},
        "messaging": {"scheduling": {"jobs": {
            "nightly-report": {"CronExpression": "0 3 * * *"},
            "a.b": {"cronExpression": null}
        }}},
        "Punctual:Jobs:a.b:Cron": "0 4 * * *"
    }"#;
    let configuration = Configuration::from_json(nested).unwrap();
    let jobs = jobs(&["nightly-report", "a.b"]);
    let mut found = texts(std::slice::from_ref(&configuration), &jobs);
    found.sort();
    let expected = [("a.b", "0 4 * * *"), ("nightly-report", "0 3 * * *")]
        .map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(resolve(&[configuration], &jobs).ignored, []);
}

// spec: H-53
#[test]
fn the_first_source_wins() {
    let file = r#"{"Punctual": {"Jobs": {"nightly-report": {"Cron": "0 3 * * *"}}}}"#;
    let sources = [
        Configuration::from_pairs([("PUNCTUAL_JOBS__NIGHTLY_REPORT__CRON", "0 5 * * *")]),
        Configuration::from_json(file).unwrap(),
    ];
    let jobs = jobs(&["nightly-report"]);
    assert_eq!(texts(&sources, &jobs), [("nightly-report".to_owned(), "0 5 * * *".to_owned())]);
    assert_eq!(resolve(&sources, &jobs).ignored, [], "that is no mistake");
}

fn problem(jobs: &[Job], pairs: &[(&str, &str)]) -> ConfigProblem {
    let resolved = resolve(&[Configuration::from_pairs(pairs.iter().copied())], jobs);
    let [only] = resolved.ignored.as_slice() else { panic!("{:?}", resolved.ignored) };
    only.clone()
}

// spec: H-56
#[test]
fn anything_but_the_cron_text_is_ignored_by_name() {
    let jobs = jobs(&["nightly-report"]);
    let key = "Messaging__Scheduling__Jobs__nightly-report__TimeZone";
    let ignored = problem(&jobs, &[(key, "Asia/Tokyo")]);
    assert_eq!(ignored.key, key);
    assert!(ignored.problem.contains("TimeZone cannot be configured"), "{}", ignored.problem);
    let file = r#"{"Punctual": {"Jobs": {"nightly-report": {"Cron": 7, "Retries": 3}}}}"#;
    let resolved = resolve(&[Configuration::from_json(file).unwrap()], &jobs);
    assert_eq!((resolved.texts.len(), resolved.ignored.len()), (0, 2));
}

#[test]
fn an_unknown_name_and_one_that_could_be_two_jobs_are_ignored() {
    let cron = "PUNCTUAL_JOBS__A_B__CRON";
    assert!(problem(&jobs(&["other"]), &[(cron, "x")]).problem.contains("no job of this name"));
    let two = jobs(&["a-b", "a.b"]);
    let unclear = problem(&two, &[(cron, "0 1 * * *")]).problem;
    assert!(unclear.contains("\"a-b\"") && unclear.contains("\"a.b\""), "{unclear}");
    let exact = [("Punctual:Jobs:a.b:Cron", "0 1 * * *")];
    assert_eq!(
        texts(&[Configuration::from_pairs(exact)], &two),
        [("a.b".to_owned(), "0 1 * * *".to_owned())]
    );
    let twice = [(cron, "0 1 * * *"), ("PUNCTUAL_JOBS__a_b__CRON", "0 2 * * *")];
    assert!(problem(&jobs(&["a-b"]), &twice).problem.contains("sets it already"));
}

#[test]
fn a_file_that_is_not_json_or_too_large_is_refused() {
    assert!(Configuration::from_json("{").unwrap_err().to_string().contains("not JSON"));
    let large = " ".repeat(FILE_BYTES_MAX + 1);
    assert!(Configuration::from_json(&large).unwrap_err().to_string().contains("at most"));
}
