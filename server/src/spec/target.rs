//! What a job without code does: calls a URL, runs a program, publishes a message, or leaves it to whoever
//! handles a topic. The target is the body of the job's messages, so that any node can run it.

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

/// What a job does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Calls a URL.
    Http(HttpTarget),
    /// Runs a program.
    Command(CommandTarget),
    /// Publishes a message.
    Publish(PublishTarget),
    /// Is handled by whoever handles this topic.
    Code(String),
}

impl Target {
    /// The topic whose handler does it.
    pub fn topic(&self) -> Result<Topic> {
        match self {
            Self::Http(_) => Ok(Topic::system(HTTP_TOPIC)),
            Self::Command(_) => Ok(Topic::system(COMMAND_TOPIC)),
            Self::Publish(_) => Ok(Topic::system(PUBLISH_TOPIC)),
            Self::Code(topic) => Topic::new(topic),
        }
    }

    /// The kind in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Command(_) => "command",
            Self::Publish(_) => "publish",
            Self::Code(_) => "code",
        }
    }

    /// The same to show to people, without secrets.
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

    /// The target as one object with its `kind`, without secrets, as job views show it.
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

/// The body of a message whose handler is one of the targets: what to do, and what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// What to do.
    pub target: Target,
    /// What templates know as `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

impl Work {
    /// What a job of this topic does and is about, by the body of the job; any other topic is code. Of a
    /// topic of the server whose body cannot be read nothing is known, also not what of it is secret.
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
    /// GET without a body and POST with one, when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Where; may be a template.
    pub url: String,
    /// Headers; texts may be templates, or secrets as `{ env = "NAME" }` or `{ file = "path" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// What is sent: a text, which may be a template, or a table, which is sent as JSON and whose texts
    /// may be templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The statuses that mean success; 200 to 299 when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Statuses>,
    /// The statuses that are tried again; 408, 425, 429 and 500 to 599 when not given. Any other
    /// unexpected one fails for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Statuses>,
    /// Signs what is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// How long the whole exchange may take; 30 s when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The most redirects that are followed, 0 to 10; none when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10)]
    pub redirects_max: Option<u8>,
    /// The most bytes of the answer that are read; 1 MiB when not given, at most 16 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_max: Option<u32>,
}

/// Signs what is sent with HMAC-SHA256.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The key.
    pub secret: Secret,
    /// The header it is sent in; `Punctual-Signature` when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

/// Runs a program. Refused unless the configuration enables commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandTarget {
    /// The program; with `shell` the line the shell reads.
    pub program: String,
    /// What it is started with; each may be a template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Whether a shell reads `program`. Templates are refused there; use the environment instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// The folder it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Variables it gets besides those that the configuration lets through; texts may be templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// What it reads from its standard input; may be a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The exit codes that mean success; 0 when not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<i32>,
}

/// Publishes a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishTarget {
    /// The topic.
    pub topic: String,
    /// The transport that carries it; the topic's own, or the storage, when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// What the message is about; may be a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The line it waits in, where the storage carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Headers that travel along; each may be a template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What is sent: a text, which may be a template, or a table, which is sent as JSON and whose texts
    /// may be templates. The payload of the job when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What a text is sent as; `text/plain` when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}
