//! Reads a crontab line by line: comments, variables, and what is run when.

use std::collections::{BTreeMap, BTreeSet};

use punctual::schedule::Cron;
use punctual_server::cron_warnings;

use super::days::schedules;

/// Words that say nothing of what a command does.
const PLAIN: [&str; 14] = [
    "cd", "sh", "bash", "env", "exec", "flock", "ionice", "nice", "nohup", "python", "python3",
    "sudo", "test", "timeout",
];

/// What a crontab says.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The jobs, in the order of the lines.
    pub(super) jobs: Vec<Entry>,
    /// Lines that run something.
    pub(super) lines: usize,
    /// What is not quite the same, in sentences.
    pub(super) notes: Vec<String>,
    /// What is taken over and probably not meant, in sentences.
    pub(super) warnings: Vec<String>,
    /// Lines that could not be converted, and why.
    pub(super) refused: Vec<String>,
}

/// A job to be.
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

/// Reads lines.
pub(super) struct Reader {
    system: bool,
    zone: Option<String>,
    variables: BTreeMap<String, String>,
    comment: Vec<String>,
    names: BTreeSet<String>,
    said: BTreeSet<String>,
    found: Found,
}

impl Reader {
    pub(super) fn new(system: bool, zone: Option<String>) -> Self {
        Self {
            system,
            zone,
            variables: BTreeMap::new(),
            comment: Vec::new(),
            names: BTreeSet::new(),
            said: BTreeSet::new(),
            found: Found::default(),
        }
    }

    pub(super) fn finish(self) -> Found {
        self.found
    }

    /// Takes the next line.
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
                self.found.lines += 1;
                if let Err(why) = self.entry(number, line) {
                    self.found.refused.push(format!("line {number}: {line}: {why}"));
                }
            }
        }
        self.comment.clear();
    }

    /// Says something once.
    fn note(&mut self, about: &str, note: String) {
        if self.said.insert(about.to_owned()) {
            self.found.notes.push(note);
        }
    }

    fn variable(&mut self, number: usize, name: &str, value: String) {
        match name {
            "MAILTO" | "MAILFROM" => self.note(
                "mail",
                format!("line {number}: {name}: nothing is mailed; output stands in the log of each execution, and a webhook can tell of failures"),
            ),
            "RANDOM_DELAY" => self.note(
                "delay",
                format!("line {number}: {name} is left out; write `jitter` into the jobs that need it"),
            ),
            _ => {
                self.variables.insert(name.to_owned(), value);
            }
        }
    }

    fn entry(&mut self, number: usize, line: &str) -> Result<(), String> {
        let (crons, rest) = when(line)?;
        let rest = if self.system { self.user(number, rest)? } else { rest };
        let (command, input) = parted(rest);
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
                "\"{{\" would be read as a template; put the command into a script".to_owned()
            );
        }
        let description = match self.comment.join(" ").trim() {
            "" => format!("From line {number} of the crontab"),
            comment => comment.to_owned(),
        };
        let crons = self.checked(number, crons)?;
        let base = named(&command, number);
        for cron in crons {
            let name = self.unique(&base);
            self.found.jobs.push(Entry {
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

    /// The schedules of a line, without a half that never runs; says what is probably not meant.
    fn checked(&mut self, number: usize, texts: Vec<String>) -> Result<Vec<String>, String> {
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
            // Both day fields, as they are meant in a crontab.
            [_, _, ..] => self.note(
                &format!("days {number}"),
                format!("line {number}: either day field is enough, so it became two jobs that share no day"),
            ),
            [cron] if !cron.happens() => {
                let warnings = cron_warnings(cron).into_iter();
                self.found.warnings.extend(warnings.map(|text| format!("line {number}: {cron}: {text}")));
            }
            _ => {}
        }
        Ok(crons.iter().map(|cron| cron.source().to_owned()).collect())
    }

    /// The rest after the user, who is told of.
    fn user<'l>(&mut self, number: usize, rest: &'l str) -> Result<&'l str, String> {
        let (user, rest) = rest.split_once([' ', '\t']).ok_or_else(|| {
            format!("{rest:?} names no user and a command; is this the crontab of one user?")
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

/// A line such as `NAME = "value"`.
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

/// The schedules of a line, and what follows them.
fn when(line: &str) -> Result<(Vec<String>, &str), String> {
    if line.starts_with('@') {
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        if word.eq_ignore_ascii_case("@reboot") {
            return Err(
                "@reboot has no time; let the service manager start it, or call it from a unit"
                    .to_owned(),
            );
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

/// The command, and what it reads: after the first `%`, with every further one a new line. `\%` is a `%`.
fn parted(text: &str) -> (String, Option<String>) {
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

/// A name out of the program that is run.
fn named(command: &str, number: usize) -> String {
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
    if name.is_empty() || PLAIN.contains(&name) {
        format!("line-{number}")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests;
