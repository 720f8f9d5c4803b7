//! What is wrong with a configuration: where, which key, what, and the way out; all of it at once.

use std::fmt;

use punctual::Error;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was said: `punctual.toml:12`, a variable, or a flag.
    pub place: String,
    /// The key, with dots.
    pub key: String,
    /// What is wrong, and the way out.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}: {}", self.place, self.problem),
            key => write!(f, "{}: {key}: {}", self.place, self.problem),
        }
    }
}

/// Everything that is wrong, in the order it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        Self::invalid(problems.to_string())
    }
}
