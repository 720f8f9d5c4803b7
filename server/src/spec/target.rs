//! Targets of jobs without code: call a URL, run a program, publish a message, or leave the run to the handler of
//! a topic. The target is the body of the job's messages, so that any node can run it.

use std::collections::BTreeMap;

use punctual::Result;
use punctual::model::{SYSTEM_TOPICS, Topic};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Secret, Statuses};

/// The topic of jobs that call a URL.
pub const HTTP_TOPIC: &str = "punctual.http";
/// The topic of jobs that run a program.
pub const COMMAND_TOPIC: &str = "punctual.command";
/// The topic of jobs that publish a message.
pub const PUBLISH_TOPIC: &str = "punctual.publish";

/// The target of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Calls a URL.
    Http(HttpTarget),
    /// Runs a program.
    Command(CommandTarget),
    /// Publishes a message.
    Publish(PublishTarget),
    /// Handled by the handler of this topic.
    Code(String),
}

impl Target {
    /// Returns the topic whose handler runs the target.
    pub fn topic(&self) -> Result<Topic> {
        match self {
            Self::Http(_) => Ok(Topic::system(HTTP_TOPIC)),
            Self::Command(_) => Ok(Topic::system(COMMAND_TOPIC)),
            Self::Publish(_) => Ok(Topic::system(PUBLISH_TOPIC)),
            Self::Code(topic) => Topic::new(topic),
        }
    }

    /// Returns the kind of target.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Command(_) => "command",
            Self::Publish(_) => "publish",
            Self::Code(_) => "code",
        }
    }

    /// Returns the target for views, without secrets.
    #[must_use]
    pub fn hidden(&self) -> Self {
        let hide = |secrets: &BTreeMap<String, Secret>| {
            secrets.iter().map(|(name, secret)| (name.clone(), secret.hidden())).collect()
        };
        match self.clone() {
            Self::Http(mut http) => {
                http.headers = hide(&http.headers);
                if let Some(signature) = &mut http.signature {
                    signature.secret = signature.secret.hidden();
                }
                Self::Http(http)
            }
            Self::Command(mut command) => {
                command.env = hide(&command.env);
                Self::Command(command)
            }
            other => other,
        }
    }

    /// Returns the target as one object with its `kind`, without secrets, for job views.
    pub fn view(&self) -> Value {
        let hidden = serde_json::to_value(self.hidden()).unwrap_or_default();
        let mut view = match hidden.get(self.kind()) {
            Some(Value::Object(members)) => members.clone(),
            Some(Value::String(topic)) => {
                serde_json::Map::from_iter([("topic".to_owned(), Value::from(topic.as_str()))])
            }
            _ => serde_json::Map::new(),
        };
        view.insert("kind".to_owned(), Value::from(self.kind()));
        Value::Object(view)
    }
}

/// The body of a message that runs a target: the target and the payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The target.
    pub target: Target,
    /// The value `payload` of templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

impl Work {
    /// Returns the target and payload of a body; the target of other topics than those of the server is code. For
    /// an unreadable body of a server topic the payload is omitted, because its secrets are unknown.
    pub fn of(topic: &str, body: &[u8]) -> Self {
        let target = Target::Code(topic.to_owned());
        if topic.starts_with(SYSTEM_TOPICS) {
            return serde_json::from_slice(body).unwrap_or(Self { target, payload: None });
        }
        Self { target, payload: serde_json::from_slice(body).ok() }
    }
}

/// Calls a URL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// The method; GET without a body and POST with one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The URL; may be a template.
    pub url: String,
    /// Headers; values may be templates, or secrets as `{ env = "NAME" }` or `{ file = "path" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// The body: a string, which may be a template, or an object, which is sent as JSON and whose strings may be
    /// templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Statuses that mean success; 200 to 299 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Statuses>,
    /// Statuses that are retried; 408, 425, 429 and 500 to 599 by default. Other unexpected statuses fail
    /// permanently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Statuses>,
    /// Signs the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// Timeout of the whole request; 30 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Largest number of redirects that are followed, 0 to 10; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10)]
    pub redirects_max: Option<u8>,
    /// Largest number of bytes of the response that are read; 1 MiB by default, at most 16 MiB.
    #[serde(default, alias = "answer_max", skip_serializing_if = "Option::is_none")]
    pub response_bytes_max: Option<u32>,
}

/// Signature of a body by HMAC-SHA256.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The secret key.
    pub secret: Secret,
    /// The header of the signature; `Punctual-Signature` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

/// Runs a program. Refused unless the configuration enables commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandTarget {
    /// The program; with `shell` the command line of the shell.
    pub program: String,
    /// The arguments; each may be a template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Whether a shell runs `program`. It may then not contain templates; use `env` instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Environment variables besides those that the configuration passes on; values may be templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// Standard input; may be a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Exit codes that mean success; 0 by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<i32>,
}

/// Publishes a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishTarget {
    /// The topic.
    pub topic: String,
    /// The transport; that of the topic, or the storage, by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// The key of the message; may be a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The queue of the message in the storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Headers; each value may be a template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a string, which may be a template, or an object, which is sent as JSON and whose strings may be
    /// templates. The payload of the job by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The content type of a string body; `text/plain` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}
