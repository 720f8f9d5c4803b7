//! Who calls, and what they may do. Every endpoint asks; nothing is allowed by default.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{EVERY_QUEUE, Owner, Scope};
use crate::problem::{Answer, Problem};

/// What somebody may do; each may what those before may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sees nothing; the scopes of a token may allow single things.
    Guest,
    /// Sees everything and changes nothing.
    Viewer,
    /// Acts on work: pauses, triggers, sends again.
    Operator,
    /// Changes what there is: jobs, users, settings.
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
    /// Reads the name of a role that a person may have.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "viewer" => Some(Self::Viewer),
            "operator" => Some(Self::Operator),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name the audit trail shows.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The address the call came from, when it came over a socket.
    pub from: Option<IpAddr>,
    /// What a token allows beyond its role.
    pub scopes: Vec<Scope>,
    /// The queues that the scope `work` is for; [`EVERY_QUEUE`] is every queue.
    pub queues: Vec<String>,
    /// What changing calls must show, when a cookie says who calls.
    pub csrf: Option<String>,
    /// Whose token it is, when a token says who calls.
    pub owner: Option<String>,
    /// What says who calls.
    pub(crate) proof: Proof,
}

/// What says who calls.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// The application around the server.
    Application,
    /// Nobody is asked here.
    Nobody,
    /// The header of a proxy, and the generation of the tokens of the user of this name; 0 without one.
    Proxy { generation: u64 },
    /// A cookie, of the user with this id.
    Session { secret: String, id: String },
    /// The password of the user with this id.
    Password { id: String, generation: u64 },
    /// A token.
    Token { id: String, owner: Owner },
}

impl Caller {
    /// Somebody of a role.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
            from: None,
            scopes: Vec::new(),
            queues: Vec::new(),
            csrf: None,
            owner: None,
            proof: Proof::Application,
        }
    }

    /// What no two callers share, whatever they are called: what is kept for one of them is kept by this.
    pub(crate) fn identity(&self) -> String {
        match &self.proof {
            Proof::Application => format!("application {}", self.name),
            Proof::Nobody => "nobody".to_owned(),
            Proof::Proxy { .. } => format!("proxy {}", self.name),
            Proof::Session { id, .. } | Proof::Password { id, .. } => format!("user {id}"),
            Proof::Token { id, .. } => format!("token {id}"),
        }
    }

    /// Whom bounds are counted for: the owner, however many tokens they have.
    pub(crate) fn counted_as(&self) -> String {
        match self.owning() {
            Owner::User(id) => format!("user {id}"),
            Owner::Proxied => format!("proxy {}", self.person()),
            Owner::Local => format!("local {}", self.person()),
        }
    }

    /// Who owns the tokens that this caller makes.
    pub(crate) fn owning(&self) -> Owner {
        match &self.proof {
            Proof::Application | Proof::Nobody => Owner::Local,
            Proof::Proxy { .. } => Owner::Proxied,
            Proof::Session { id, .. } | Proof::Password { id, .. } => Owner::User(id.clone()),
            Proof::Token { owner, .. } => owner.clone(),
        }
    }

    /// The person behind the call: the owner of the token, or who calls.
    pub fn person(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.name)
    }

    /// The same caller, who may also claim and settle work of these queues; [`EVERY_QUEUE`] is every queue.
    #[must_use]
    pub fn working_on(mut self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes.push(Scope::Work);
        self.queues.extend(queues.into_iter().map(Into::into));
        self
    }

    /// Refuses when the scope `work` is missing. No role stands for it, because claiming takes work away from its
    /// handlers and shows what is hidden elsewhere.
    pub fn must_work(&self) -> Result<(), Problem> {
        if self.scopes.contains(&Scope::Work) {
            return Ok(());
        }
        let sentence = format!(
            "this needs a token with the scope work, which no role has; {} has none",
            self.name
        );
        Err(Problem::new(StatusCode::FORBIDDEN, sentence))
    }

    /// Refuses when the scope `work` is missing or not for this queue.
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

    /// Refuses when neither a scope nor the role of an operator allows it.
    pub fn must_have(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) { Ok(()) } else { self.must_be(Role::Operator) }
    }

    /// Refuses when the role does not suffice.
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

/// Who calls, when anybody is known.
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

    /// Whom the layer of the router has found out.
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Answer<Self> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Problem::new(
                StatusCode::UNAUTHORIZED,
                "log in, or give a token as `Authorization: Bearer`",
            )
        })
    }
}
