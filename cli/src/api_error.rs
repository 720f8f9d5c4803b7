//! API errors as errors of commands.

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use serde_json::Value;

use crate::client::ApiResponse;
use crate::error::{Code, CommandError};
use crate::render::one_line;

/// Parts of API messages that name a route or a JSON field, and the command or flag that does the same.
const COMMANDS: [(&str, &str); 8] = [
    ("GET /api/v1/jobs lists", "`punctual jobs list` lists"),
    ("GET /api/v1/queues lists", "`punctual queues list` lists"),
    ("GET /api/v1/subscriptions lists", "`punctual subscriptions list` lists"),
    ("see /api/v1/workers", "see `punctual workers list`"),
    ("see /api/v1/webhooks", "see `punctual webhooks list`"),
    ("read it from GET /api/v1/session", "log in with `punctual login`"),
    ("send \"ignore_overlap\": true", "add `--ignore-overlap`"),
    ("GET /api/openapi.json lists the routes", "the server may be of another version"),
];
/// Routes that end a sentence with the name of a job.
const EDITS: [&str; 2] = ["PUT /api/v1/jobs/", "PATCH /api/v1/jobs/"];

/// Replaces routes and JSON fields in an API message by commands and flags.
fn for_commands(message: &str) -> String {
    let message = COMMANDS
        .iter()
        .fold(message.to_owned(), |message, (route, command)| message.replace(route, command));
    let planned = message
        .split_once("GET /api/v1/jobs/")
        .and_then(|(before, rest)| Some((before, rest.strip_suffix("/planned")?)));
    if let Some((before, name)) = planned {
        return format!("{before}`punctual jobs planned list {name}`");
    }
    match EDITS.iter().find_map(|route| message.split_once(route)) {
        Some((before, name)) => format!("{before}`punctual jobs edit {name}`"),
        None => message,
    }
}

/// Returns the command error for a response that is not a success.
pub(crate) fn api_error(response: &ApiResponse, base: &str) -> CommandError {
    let status = response.status;
    let Ok(problem) = serde_json::from_slice::<Value>(&response.body) else {
        return without_detail(status, base);
    };
    let Some(detail) = problem["detail"].as_str() else { return without_detail(status, base) };
    let mut text = one_line(&for_commands(detail), 1_000);
    let fields = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for field in fields {
        let (name, problem) = (field["field"].as_str(), field["problem"].as_str());
        if let (Some(name), Some(problem)) = (name, problem)
            && !detail.contains(problem)
        {
            let problem = one_line(&for_commands(problem), 500);
            text = format!("{text}\n  {}: {problem}", one_line(name, 100));
        }
    }
    let error = CommandError::new(code(status), text);
    match status {
        StatusCode::UNAUTHORIZED => {
            error.hint("log in with `punctual login`, or pass a token in PUNCTUAL_TOKEN")
        }
        StatusCode::FORBIDDEN => error.hint("request a larger role or a token from an admin"),
        StatusCode::PRECONDITION_FAILED => {
            error.hint("it was changed in the meantime; read it again, then repeat the command")
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let after = response.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok());
            error.hint(format!("try again in {} s", after.unwrap_or("a few")))
        }
        _ => error,
    }
}

fn code(status: StatusCode) -> Code {
    match status.as_u16() {
        401 | 403 => Code::Forbidden,
        404 => Code::NotFound,
        409 | 412 | 429 => Code::Refused,
        502..=504 => Code::Unreachable,
        400..=499 => Code::InvalidInput,
        _ => Code::Failed,
    }
}

/// Returns the error for a response without a problem document, such as one of a proxy.
fn without_detail(status: StatusCode, base: &str) -> CommandError {
    let code = if status.is_server_error() { code(status) } else { Code::Failed };
    CommandError::new(code, format!("{base} returned {status} without a reason"))
        .hint("check the address: is this a Punctual server, of this version?")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::for_commands;

    /// Collects the source files below a folder.
    fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, files);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs")
            {
                files.push(path);
            }
        }
    }

    /// Returns the string literals of a line of code.
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

    /// Returns the texts in the sources of the server.
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

    /// Returns whether a text advises to send a field of a JSON body. A text that begins as one is an example value.
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
    fn no_api_error_names_a_json_field_on_the_command_line() {
        let sentences = sentences();
        let advice: Vec<&String> = sentences.iter().filter(|text| names_a_field(text)).collect();
        assert!(advice.iter().any(|text| text.contains("ignore_overlap")), "{advice:?}");
        for sentence in advice {
            let text = for_commands(sentence);
            assert!(!names_a_field(&text), "no flag replaces the field in: {text}");
        }
    }

    #[test]
    fn no_api_error_names_a_route_on_the_command_line() {
        let all = sentences();
        let sentences: Vec<&String> = all.iter().filter(|text| text.contains("/api/")).collect();
        assert!(sentences.len() >= 8, "{sentences:?}");
        for sentence in sentences {
            let text = for_commands(sentence);
            assert!(!text.contains("/api/"), "no command replaces the route in: {text}");
        }
    }

    #[test]
    fn a_route_is_replaced_by_a_command() {
        let text = "there is a job \"a\" already; choose another name, or change it with PUT /api/v1/jobs/a";
        assert!(for_commands(text).ends_with("or change it with `punctual jobs edit a`"));
        let text = "2 one-time jobs of the name are planned; see GET /api/v1/jobs/a/planned";
        assert!(for_commands(text).ends_with("see `punctual jobs planned list a`"));
    }
}
