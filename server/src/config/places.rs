//! Places: where each key of a configuration was said, for errors and warnings.

use std::collections::BTreeMap;

use super::problem::Problem;

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

/// Where each key of a configuration was said.
#[derive(Clone, Debug)]
pub struct Places {
    file: String,
    keys: BTreeMap<Vec<String>, Place>,
}

impl Default for Places {
    fn default() -> Self {
        Self::of_file("the configuration")
    }
}

impl Places {
    pub(super) fn of_file(file: &str) -> Self {
        Self { file: file.to_owned(), keys: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, path: &[String], place: Place) {
        self.keys.insert(path.to_vec(), place);
    }

    /// Sets a place where none is known yet.
    pub(super) fn insert_new(&mut self, path: &[String], place: &Place) {
        self.keys.entry(path.to_vec()).or_insert_with(|| place.clone());
    }

    /// Returns where a key was said; the nearest table around it when it was not said itself.
    fn of(&self, path: &[String]) -> String {
        for end in (1..=path.len()).rev() {
            match self.keys.get(&path[..end]) {
                Some(Place::Line(line)) => return self.line(*line),
                Some(Place::Variable(name)) => return format!("the variable {name}"),
                Some(Place::Flag(name)) => return format!("the flag {name}"),
                None => {}
            }
        }
        self.file.clone()
    }

    /// Returns the text of a line of the file, such as `punctual.toml:12`.
    pub(super) fn line(&self, line: usize) -> String {
        format!("{}:{line}", self.file)
    }

    /// Returns a sentence about a key, with its place.
    pub(super) fn problem(&self, path: &[String], problem: impl Into<String>) -> Problem {
        Problem { place: self.of(path), key: path.join("."), problem: problem.into() }
    }
}
