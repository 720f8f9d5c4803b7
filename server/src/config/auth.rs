//! The section `[auth]`: authentication of callers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ConfigDuration, Networks};
use crate::caller::Role;
use crate::spec::Secret;

/// Error of the mode `oidc` in a build without the feature.
#[cfg(not(feature = "oidc"))]
pub(crate) const WITHOUT_OIDC: &str = "this program was built without the cargo feature `oidc`; build it with `--features oidc`, or choose auth.mode = \"password\", or \"proxy\" behind a proxy that speaks OpenID Connect";

/// How callers are authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// No authentication: every caller is an admin. Only for this machine.
    #[default]
    None,
    /// By name and password.
    Password,
    /// By a header that a reverse proxy sets.
    Proxy,
    /// By the protocol `OpenID` Connect.
    Oidc,
}

/// The section `[auth]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// How callers are authenticated.
    pub mode: AuthMode,
    /// How long a session lasts without use.
    pub session_ttl: ConfigDuration,
    /// The header with the user's name, in the mode `proxy`.
    pub proxy_header: String,
    /// The header with the role, in the mode `proxy`.
    pub proxy_role_header: Option<String>,
    /// The addresses and networks of the proxy.
    pub proxy_trusted: Networks,
    /// The issuer, in the mode `oidc`.
    pub oidc_issuer: Option<String>,
    /// The client id of this server at the provider.
    pub oidc_client_id: Option<String>,
    /// The client secret; a public client has none.
    pub oidc_client_secret: Option<Secret>,
    /// Requested scopes; `openid` is always included.
    pub oidc_scopes: Vec<String>,
    /// The name on the sign-in button; the host of the issuer by default.
    pub oidc_name: Option<String>,
    /// The claim that is mapped to a role; dots lead into objects, as in `realm_access.roles`.
    pub oidc_role_claim: Option<String>,
    /// The role of each value of that claim; the highest of several counts.
    pub oidc_roles: BTreeMap<String, Role>,
    /// The role of users without a mapped value; without it they are refused.
    pub oidc_role_default: Option<Role>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            mode: AuthMode::None,
            session_ttl: ConfigDuration::hours(12),
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
