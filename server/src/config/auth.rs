//! The section `[auth]`: how callers are known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Length, Networks};
use crate::caller::Role;
use crate::spec::Secret;

/// What is said of the mode `oidc` by a program that cannot do it.
#[cfg(not(feature = "oidc"))]
pub(crate) const WITHOUT_OIDC: &str = "this program was built without the cargo feature `oidc`; build it with `--features oidc`, or choose auth.mode = \"password\", or \"proxy\" behind a proxy that speaks OpenID Connect";

/// How callers are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// Not at all: whoever reaches the port may do everything. Only on this machine.
    #[default]
    None,
    /// By name and password.
    Password,
    /// By a header that a reverse proxy sets.
    Proxy,
    /// By the protocol `OpenID` Connect.
    Oidc,
}

/// Who may do what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// How callers are known.
    pub mode: AuthMode,
    /// How long a session lasts.
    pub session_ttl: Length,
    /// The header with the user's name, in the mode `proxy`.
    pub proxy_header: String,
    /// The header with the role, in the mode `proxy`.
    pub proxy_role_header: Option<String>,
    /// The addresses and networks the proxy may come from.
    pub proxy_trusted: Networks,
    /// The issuer, in the mode `oidc`.
    pub oidc_issuer: Option<String>,
    /// What the server is called there.
    pub oidc_client_id: Option<String>,
    /// Its secret there; a public client has none.
    pub oidc_client_secret: Option<Secret>,
    /// What is asked for; `openid` is always among it.
    pub oidc_scopes: Vec<String>,
    /// What the button says after `Sign in with`; the host of the issuer when not given.
    pub oidc_name: Option<String>,
    /// The claim that says what somebody may do; dots lead into tables, as in `realm_access.roles`.
    pub oidc_role_claim: Option<String>,
    /// The role of each value of that claim; of several the greatest counts.
    pub oidc_roles: BTreeMap<String, Role>,
    /// The role of those whose claim says nothing that is known; they are refused when it is not given.
    pub oidc_role_default: Option<Role>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            mode: AuthMode::None,
            session_ttl: Length::hours(12),
            proxy_header: "X-Forwarded-User".to_owned(),
            proxy_role_header: None,
            proxy_trusted: Networks::default(),
            oidc_issuer: None,
            oidc_client_id: None,
            oidc_client_secret: None,
            oidc_scopes: ["openid", "profile", "email"].map(str::to_owned).to_vec(),
            oidc_name: None,
            oidc_role_claim: None,
            oidc_roles: BTreeMap::new(),
            oidc_role_default: None,
        }
    }
}
