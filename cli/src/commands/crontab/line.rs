//! Lines of a crontab: comments, variables and jobs.

use std::collections::{BTreeMap, BTreeSet};

use punctual::schedule::Cron;
use punctual_server::cron_warnings;

use super::days::schedules;

/// Programs that are no useful name for a job.
const GENERIC_PROGRAMS: [&str; 14] = [
    "cd", "sh", "bash", "env", "exec", "flock", "ionice", "nice", "nohup", "python", "python3",
    "sudo", "test", "timeout",
];

/// A crontab that was read.
#[derive(Debug, Default)]
pub(super) struct Crontab {
    /// Jobs in the order of the lines.
    pub(super) jobs: Vec<Entry>,
    /// Number of lines that run a command.
    pub(super) lines: usize,
    /// Differences to cron, as sentences.
    pub(super) notes: Vec<String>,
    /// Probable mistakes in converted lines, as sentences.
    pub(super) warnings: Vec<String>,
    /// Lines that could not be converted, with the reason.
    pub(super) rejected: Vec<String>,
}

/// A job to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) cron: String,
    pub(super) zone: Option<String>,
    pub(super) shell: Option<String>,
    pub(super) command: String,
    pub(super) input: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// Reader of the lines of a crontab.
pub(super) struct CrontabReader {
    system: bool,
    zone: Option<String>,
    variables: BTreeMap<String, String>,
    comment: Vec<String>,
    names: BTreeSet<String>,
    /// Subjects of the notes, each reported once.
    noted: BTreeSet<String>,
    crontab: Crontab,
}

impl CrontabReader {
    pub(super) fn new(system: bool, zone: Option<String>) -> Self {
        Self {
            system,
            zone,
            variables: BTreeMap::new(),
            comment: Vec::new(),
            names: BTreeSet::new(),
            noted: BTreeSet::new(),
            crontab: Crontab::default(),
        }
    }

    pub(super) fn finish(self) -> Crontab {
        self.crontab
    }

    /// Reads the next line.
    pub(super) fn line(&mut self, number: usize, line: &str) {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            self.comment.push(comment.trim().to_owned());
            return;
        }
        if !line.is_empty() {
            if let Some((name, value)) = variable(line) {
                self.variable(number, name, value);
            } else {
                self.crontab.lines += 1;
                if let Err(why) = self.entry(number, line) {
                    self.crontab.rejected.push(format!("line {number}: {line}: {why}"));
                }
            }
        }
        self.comment.clear();
    }

    /// Adds a note, once per subject.
    fn note(&mut self, about: &str, note: String) {
        if self.noted.insert(about.to_owned()) {
            self.crontab.notes.push(note);
        }
    }

    fn variable(&mut self, number: usize, name: &str, value: String) {
        match name {
            "MAILTO" | "MAILFROM" => self.note(
                "mail",
                format!("line {number}: {name}: no mail is sent; the output is in the log of each execution, and a webhook can report failures"),
            ),
            "RANDOM_DELAY" => self.note(
                "delay",
                format!("line {number}: {name} is ignored; set `jitter` on the jobs that need it"),
            ),
            _ => {
                self.variables.insert(name.to_owned(), value);
            }
        }
    }

    fn entry(&mut self, number: usize, line: &str) -> Result<(), String> {
        let (crons, rest) = parse_schedule(line)?;
        let rest = if self.system { self.user(number, rest)? } else { rest };
        let (command, input) = split_input(rest);
        if command.is_empty() {
            return Err("there is no command".to_owned());
        }
        let mut env = self.variables.clone();
        let zone = env.remove("CRON_TZ").or_else(|| self.zone.clone());
        let shell = env.remove("SHELL").filter(|shell| !shell.ends_with("/sh"));
        let directory = env.remove("HOME");
        let texts = env.values().chain([&command]).chain(&input).chain(&directory);
        if texts.into_iter().any(|text| text.contains("{{")) {
            return Err(
                "\"{{\" would be read as a template; move the command into a script".to_owned()
            );
        }
        let description = match self.comment.join(" ").trim() {
            "" => format!("From line {number} of the crontab"),
            comment => comment.to_owned(),
        };
        let crons = self.check(number, crons)?;
        let base = job_name(&command, number);
        for cron in crons {
            let name = self.unique(&base);
            self.crontab.jobs.push(Entry {
                name,
                description: description.clone(),
                cron,
                zone: zone.clone(),
                shell: shell.clone(),
                command: command.clone(),
                input: input.clone(),
                directory: directory.clone(),
                env: env.clone(),
            });
        }
        Ok(())
    }

    /// Returns the schedules of a line, without one that never runs; warns about probable mistakes.
    fn check(&mut self, number: usize, texts: Vec<String>) -> Result<Vec<String>, String> {
        let mut crons = Vec::new();
        for text in texts {
            crons.push(Cron::parse(&text).map_err(|error| error.to_string())?);
        }
        if crons.iter().any(Cron::happens) {
            crons.retain(Cron::happens);
        } else {
            crons.truncate(1);
        }
        match crons.as_slice() {
            // Both day fields are restricted.
            [_, _, ..] => self.note(
                &format!("days {number}"),
                format!("line {number}: cron runs when either day field matches, so the line became two jobs that share no day"),
            ),
            [cron] if !cron.happens() => {
                let warnings = cron_warnings(cron).into_iter();
                self.crontab.warnings.extend(warnings.map(|text| format!("line {number}: {cron}: {text}")));
            }
            _ => {}
        }
        Ok(crons.iter().map(|cron| cron.source().to_owned()).collect())
    }

    /// Returns the rest of a line after the user, and adds a note about the user.
    fn user<'l>(&mut self, number: usize, rest: &'l str) -> Result<&'l str, String> {
        let (user, rest) = rest.split_once([' ', '\t']).ok_or_else(|| {
            format!("{rest:?} has no user and command; is this the crontab of one user?")
        })?;
        self.note(
            &format!("user {user}"),
            format!("line {number}: programs run as the user of the server, not as {user}"),
        );
        Ok(rest.trim_start())
    }

    fn unique(&mut self, base: &str) -> String {
        let others = (2..).map(|count| format!("{base}-{count}"));
        let mut names = std::iter::once(base.to_owned()).chain(others);
        let name = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(name.clone());
        name
    }
}

/// Parses a line such as `NAME = "value"`.
fn variable(line: &str) -> Option<(&str, String)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end().trim_matches(['"', '\'']);
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if !starts || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return None;
    }
    let value = value.trim();
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    Some((name, quoted.unwrap_or(value).to_owned()))
}

/// Returns the schedules of a line and the text after them.
fn parse_schedule(line: &str) -> Result<(Vec<String>, &str), String> {
    if line.starts_with('@') {
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        if word.eq_ignore_ascii_case("@reboot") {
            return Err("@reboot has no time; start the command from the service manager instead"
                .to_owned());
        }
        return Ok((vec![word.to_owned()], rest.trim_start()));
    }
    let mut rest = line;
    let mut fields = [""; 5];
    for field in &mut fields {
        let (word, after) = rest
            .split_once([' ', '\t'])
            .ok_or("there are not five fields and a command".to_owned())?;
        (*field, rest) = (word, after.trim_start());
    }
    Ok((schedules(fields)?, rest))
}

/// Returns the command and its input: the text after the first `%`, where each further `%` is a line feed. `\%` is a
/// `%`.
fn split_input(text: &str) -> (String, Option<String>) {
    let mut command = String::new();
    let mut input: Option<String> = None;
    let mut letters = text.trim_end().chars().peekable();
    while let Some(letter) = letters.next() {
        let escaped = letter == '\\' && letters.next_if_eq(&'%').is_some();
        match (escaped, letter, &mut input) {
            (true, _, None) => command.push('%'),
            (true, _, Some(input)) => input.push('%'),
            (false, '%', None) => input = Some(String::new()),
            (false, '%', Some(input)) => input.push('\n'),
            (false, letter, None) => command.push(letter),
            (false, letter, Some(input)) => input.push(letter),
        }
    }
    let input = input.map(|input| format!("{input}\n"));
    (command.trim_end().to_owned(), input)
}

/// Returns a job name derived from the program of the command.
fn job_name(command: &str, number: usize) -> String {
    let program = command.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
    let file = program.rsplit('/').next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let name: String = stem
        .chars()
        .map(
            |letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' },
        )
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() || GENERIC_PROGRAMS.contains(&name) {
        format!("line-{number}")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests;
