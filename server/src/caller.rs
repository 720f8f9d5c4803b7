//! Who calls, and what they may do. Every endpoint asks; nothing is allowed by default.

use std::fmt;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::problem::{Answer, Problem};

/// What somebody may do; each may what those before may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
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
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        })
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
}

impl Caller {
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
