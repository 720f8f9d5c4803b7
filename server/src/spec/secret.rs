//! Secret text of a configuration or job: plain, or the name of a variable or file. Views never show plain text.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::redact::HIDDEN;

/// A text that may be a secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Secret {
    /// Plain text.
    Plain(String),
    /// In an environment variable.
    Env {
        /// The name of the variable.
        env: String,
    },
    /// In a file, without trailing line breaks.
    File {
        /// The path of the file.
        file: String,
    },
}

impl Secret {
    /// Returns the text, if it is plain.
    pub fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the secret for views: its variable or file, or the placeholder of hidden values.
    #[must_use]
    pub fn hidden(&self) -> Self {
        match self {
            Self::Plain(_) => Self::Plain(HIDDEN.to_owned()),
            other => other.clone(),
        }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str(HIDDEN),
            Self::Env { env } => write!(f, "{{ env = {env:?} }}"),
            Self::File { file } => write!(f, "{{ file = {file:?} }}"),
        }
    }
}

/// The table form, with one key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    env: Option<String>,
    file: Option<String>,
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> serde::de::Visitor<'de> for Reader {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::Plain(text.to_owned()))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Secret, A::Error> {
        let table = Table::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        match (table.env, table.file) {
            (Some(env), None) => Ok(Secret::Env { env }),
            (None, Some(file)) => Ok(Secret::File { file }),
            _ => Err(serde::de::Error::custom("set one of env and file")),
        }
    }
}
