//! Caller of a request: identity, role and scopes. Every endpoint checks them; nothing is allowed by default.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{EVERY_QUEUE, Scope, TokenOwner};
use crate::problem::{ApiResult, Problem};

/// The role of a caller; each includes the ones before.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// No access; the scopes of a token may allow single actions.
    Guest,
    /// Read access.
    Viewer,
    /// Acts on work: pauses, triggers, redrives.
    Operator,
    /// Manages jobs, users and settings.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guest => "guest",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        })
    }
}

impl Role {
    /// Parses the name of a role that a user may have; none for `guest` and unknown names.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "viewer" => Some(Self::Viewer),
            "operator" => Some(Self::Operator),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }
}

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name shown in the audit trail.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The address the call came from, when it came over a socket.
    pub from: Option<IpAddr>,
    /// Scopes of a token beyond its role.
    pub scopes: Vec<Scope>,
    /// The queues of the scope `work`; [`EVERY_QUEUE`] is every queue.
    pub queues: Vec<String>,
    /// The CSRF token that changing requests need, for a caller with a session cookie.
    pub csrf: Option<String>,
    /// The owner of the token, for a caller with a token.
    pub owner: Option<String>,
    /// How the caller was authenticated.
    pub(crate) authentication: AuthenticationMethod,
}

/// How a caller was authenticated.
#[derive(Clone, Debug)]
pub(crate) enum AuthenticationMethod {
    /// By the embedding application.
    Application,
    /// Authentication is disabled.
    NotRequired,
    /// By the header of a proxy; with the token generation of the user of this name, 0 without one.
    Proxy { generation: u64 },
    /// By a session cookie of the user with this id.
    Session { secret: String, id: String },
    /// By the password of the user with this id.
    Password { id: String, generation: u64 },
    /// By a token.
    Token { id: String, owner: TokenOwner },
}

impl Caller {
    /// Returns a caller with a role, authenticated by the application.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
            from: None,
            scopes: Vec::new(),
            queues: Vec::new(),
            csrf: None,
            owner: None,
            authentication: AuthenticationMethod::Application,
        }
    }

    /// Returns the unique identity of the caller, under which data of the caller is stored.
    pub(crate) fn identity(&self) -> String {
        match &self.authentication {
            AuthenticationMethod::Application => format!("application {}", self.name),
            AuthenticationMethod::NotRequired => "nobody".to_owned(),
            AuthenticationMethod::Proxy { .. } => format!("proxy {}", self.name),
            AuthenticationMethod::Session { id, .. }
            | AuthenticationMethod::Password { id, .. } => format!("user {id}"),
            AuthenticationMethod::Token { id, .. } => format!("token {id}"),
        }
    }

    /// Returns the key that limits are counted by: the owner, however many tokens they have.
    pub(crate) fn counted_as(&self) -> String {
        match self.owning() {
            TokenOwner::User(id) => format!("user {id}"),
            TokenOwner::Proxied => format!("proxy {}", self.person()),
            TokenOwner::Local => format!("local {}", self.person()),
        }
    }

    /// Returns the owner of tokens that this caller creates.
    pub(crate) fn owning(&self) -> TokenOwner {
        match &self.authentication {
            AuthenticationMethod::Application | AuthenticationMethod::NotRequired => {
                TokenOwner::Local
            }
            AuthenticationMethod::Proxy { .. } => TokenOwner::Proxied,
            AuthenticationMethod::Session { id, .. }
            | AuthenticationMethod::Password { id, .. } => TokenOwner::User(id.clone()),
            AuthenticationMethod::Token { owner, .. } => owner.clone(),
        }
    }

    /// Returns the name of the user: the owner of the token, or the caller.
    pub fn person(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.name)
    }

    /// Adds the scope `work` for these queues; [`EVERY_QUEUE`] is every queue.
    #[must_use]
    pub fn working_on(mut self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes.push(Scope::Work);
        self.queues.extend(queues.into_iter().map(Into::into));
        self
    }

    /// Refuses without the scope `work`. No role includes it, because claiming takes work away from its handlers and
    /// shows redacted values.
    pub fn must_work(&self) -> Result<(), Problem> {
        if self.scopes.contains(&Scope::Work) {
            return Ok(());
        }
        let sentence = format!(
            "this needs a token with the scope work, which no role includes; {} has none",
            self.name
        );
        Err(Problem::new(StatusCode::FORBIDDEN, sentence))
    }

    /// Refuses without the scope `work` for this queue.
    pub fn must_work_on(&self, queue: &str) -> Result<(), Problem> {
        self.must_work()?;
        if self.works_on_every_queue() || self.queues.iter().any(|one| one == queue) {
            return Ok(());
        }
        let queues = self.queues.join(", ");
        let sentence = format!("{} may work on {queues}, not on the queue {queue:?}", self.name);
        Err(Problem::new(StatusCode::FORBIDDEN, sentence))
    }

    pub(crate) fn works_on_every_queue(&self) -> bool {
        self.queues.iter().any(|one| one == EVERY_QUEUE)
    }

    /// Refuses without the scope or the role operator.
    pub fn must_have(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) { Ok(()) } else { self.must_be(Role::Operator) }
    }

    /// Refuses without the role or a higher one.
    pub fn must_be(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            format!("this needs the role {role}; {} is {}", self.name, self.role),
        ))
    }
}

/// The caller, if authenticated.
#[derive(Clone, Debug)]
pub(crate) struct MaybeCaller(pub(crate) Option<Caller>);

impl FromRequestParts<App> for MaybeCaller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Caller>().cloned()))
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    /// Returns the caller that the authentication layer has set.
    async fn from_request_parts(parts: &mut Parts, _: &App) -> ApiResult<Self> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Problem::new(
                StatusCode::UNAUTHORIZED,
                "log in, or send a token as `Authorization: Bearer`",
            )
        })
    }
}
