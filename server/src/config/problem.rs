//! Problems of a configuration: place, key, problem and fix; all of them are reported together.

use std::fmt;

use punctual::Error;

/// A problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The place: `punctual.toml:12`, a variable, or a flag.
    pub place: String,
    /// The key, with dots.
    pub key: String,
    /// The problem and how to fix it.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}: {}", self.place, self.problem),
            key => write!(f, "{}: {key}: {}", self.place, self.problem),
        }
    }
}

/// All problems, in the order they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigErrors> for Error {
    fn from(problems: ConfigErrors) -> Self {
        Self::invalid(problems.to_string())
    }
}
