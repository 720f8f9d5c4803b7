//! Places: the line, variable or flag that sets each key of a configuration, for errors and warnings.

use std::collections::BTreeMap;

use super::problem::ConfigError;

/// The place that sets a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// An environment variable.
    Variable(String),
    /// A command line flag.
    Flag(&'static str),
}

/// The place of each key of a configuration.
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

    /// Sets the place of a key that has none yet.
    pub(super) fn insert_new(&mut self, path: &[String], place: &Place) {
        self.keys.entry(path.to_vec()).or_insert_with(|| place.clone());
    }

    /// Returns the place of a key; that of the nearest enclosing table when the key is not set.
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

    /// Returns the place of a line of the file, such as `punctual.toml:12`.
    pub(super) fn line(&self, line: usize) -> String {
        format!("{}:{line}", self.file)
    }

    /// Returns a problem of a key, with its place.
    pub(super) fn problem(&self, path: &[String], problem: impl Into<String>) -> ConfigError {
        ConfigError { place: self.of(path), key: path.join("."), problem: problem.into() }
    }
}
