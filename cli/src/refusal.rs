//! What a refusal of the API means on the command line.

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use serde_json::Value;

use crate::client::Answer;
use crate::failure::{Code, Failure};
use crate::render::one_line;

/// What the API says to callers over HTTP, and the command or flag that does the same.
const COMMANDS: [(&str, &str); 8] = [
    ("GET /api/v1/jobs lists", "`punctual jobs list` lists"),
    ("GET /api/v1/queues lists", "`punctual queues list` lists"),
    ("GET /api/v1/subscriptions lists", "`punctual subscriptions list` lists"),
    ("see /api/v1/workers", "see `punctual workers list`"),
    ("see /api/v1/webhooks", "see `punctual webhooks list`"),
    ("read it from GET /api/v1/session", "log in with `punctual login`"),
    ("send \"ignore_overlap\": true", "add `--ignore-overlap`"),
    ("GET /api/openapi.json lists what there is", "the server may be of another version"),
];
/// Routes that end a sentence with the name of a job.
const EDITS: [&str; 2] = ["PUT /api/v1/jobs/", "PATCH /api/v1/jobs/"];

/// Rewords what the API says to callers over HTTP, for those who give commands.
fn for_commands(said: &str) -> String {
    let said = COMMANDS
        .iter()
        .fold(said.to_owned(), |said, (route, command)| said.replace(route, command));
    let planned = said
        .split_once("GET /api/v1/jobs/")
        .and_then(|(before, rest)| Some((before, rest.strip_suffix("/planned")?)));
    if let Some((before, name)) = planned {
        return format!("{before}`punctual jobs planned list {name}`");
    }
    match EDITS.iter().find_map(|route| said.split_once(route)) {
        Some((before, name)) => format!("{before}`punctual jobs edit {name}`"),
        None => said,
    }
}

/// The failure that a refusal becomes.
pub(crate) fn refusal(answer: &Answer, base: &str) -> Failure {
    let status = answer.status;
    let Ok(problem) = serde_json::from_slice::<Value>(&answer.body) else {
        return unknown(status, base);
    };
    let Some(detail) = problem["detail"].as_str() else { return unknown(status, base) };
    let mut text = one_line(&for_commands(detail), 1_000);
    let fields = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for field in fields {
        let (name, wrong) = (field["field"].as_str(), field["problem"].as_str());
        if let (Some(name), Some(wrong)) = (name, wrong)
            && !detail.contains(wrong)
        {
            let wrong = one_line(&for_commands(wrong), 500);
            text = format!("{text}\n  {}: {wrong}", one_line(name, 100));
        }
    }
    let failure = Failure::new(code(status), text);
    match status {
        StatusCode::UNAUTHORIZED => {
            failure.hint("log in with `punctual login`, or give a token in PUNCTUAL_TOKEN")
        }
        StatusCode::FORBIDDEN => failure.hint("ask an admin for a larger role, or for a token"),
        StatusCode::PRECONDITION_FAILED => {
            failure.hint("look at it again, then repeat the command")
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let after = answer.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok());
            failure.hint(format!("try again in {} s", after.unwrap_or("a few")))
        }
        _ => failure,
    }
}

fn code(status: StatusCode) -> Code {
    match status.as_u16() {
        401 | 403 => Code::Forbidden,
        404 => Code::Missing,
        409 | 412 | 429 => Code::Refused,
        502..=504 => Code::Unreachable,
        400..=499 => Code::Wrong,
        _ => Code::Failed,
    }
}

/// Nothing of ours answered.
fn unknown(status: StatusCode, base: &str) -> Failure {
    let code = if status.is_server_error() { code(status) } else { Code::Failed };
    Failure::new(code, format!("{base} answers {status} and says no more"))
        .hint("check the address: is this a Punctual server, of this version?")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::for_commands;

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs")
            {
                found.push(path);
            }
        }
    }

    /// The texts of a line of code in quotation marks.
    fn literals(line: &str) -> Vec<String> {
        let (mut found, mut text, mut is_escaped) = (Vec::new(), None::<String>, false);
        for sign in line.chars() {
            match (&mut text, sign) {
                (None, '"') => text = Some(String::new()),
                (None, _) => {}
                (Some(_), '\\') if !is_escaped => is_escaped = true,
                (Some(_), '"') if !is_escaped => found.extend(text.take()),
                (Some(text), sign) => {
                    text.push(sign);
                    is_escaped = false;
                }
            }
        }
        found
    }

    /// Sentences in the sources of the server.
    fn sentences() -> Vec<String> {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src"), &mut files);
        let text = |file: &PathBuf| fs::read_to_string(file).unwrap();
        let lines = files.iter().flat_map(|file| {
            let lines: Vec<String> =
                text(file).lines().map(|line| line.trim().to_owned()).collect();
            lines
        });
        let code = lines.filter(|line| !line.starts_with("//"));
        let literals = code.flat_map(|line| literals(&line));
        literals.filter(|text| text.trim().contains(' ')).collect()
    }

    /// Whether a text tells a caller to send a field of a JSON body. What begins as one is an example of a value.
    fn names_a_field(text: &str) -> bool {
        let is_field = |(at, _): (usize, &str)| {
            let name = text[..at].rsplit('"').next().unwrap_or_default();
            let is_quoted = text[..at].len() > name.len();
            let is_name = |sign: char| sign.is_ascii_lowercase() || sign == '_';
            is_quoted && !name.is_empty() && name.chars().all(is_name)
        };
        let is_advice = text.contains("send \"") || text.match_indices("\":").any(is_field);
        let inner = text.trim_start_matches(['{', '[', ' ']);
        let is_value = inner.len() < text.len() && inner.starts_with('"');
        is_advice && !is_value
    }

    // `punctual jobs trigger` advised to send "ignore_overlap": true.
    #[test]
    fn no_refusal_of_the_api_names_a_field_of_json_on_the_command_line() {
        let sentences = sentences();
        let advice: Vec<&String> = sentences.iter().filter(|text| names_a_field(text)).collect();
        assert!(advice.iter().any(|text| text.contains("ignore_overlap")), "{advice:?}");
        for sentence in advice {
            let said = for_commands(sentence);
            assert!(!names_a_field(&said), "no flag stands for the field in: {said}");
        }
    }

    #[test]
    fn no_refusal_of_the_api_names_a_route_on_the_command_line() {
        let all = sentences();
        let sentences: Vec<&String> = all.iter().filter(|text| text.contains("/api/")).collect();
        assert!(sentences.len() >= 8, "{sentences:?}");
        for sentence in sentences {
            let said = for_commands(sentence);
            assert!(!said.contains("/api/"), "no command stands for the route in: {said}");
        }
    }

    #[test]
    fn a_command_stands_in_place_of_a_route() {
        let said = "there is a job \"a\" already; choose another name, or change it with PUT /api/v1/jobs/a";
        assert!(for_commands(said).ends_with("or change it with `punctual jobs edit a`"));
        let said = "2 one-time jobs of the name are planned; see GET /api/v1/jobs/a/planned";
        assert!(for_commands(said).ends_with("see `punctual jobs planned list a`"));
    }
}
