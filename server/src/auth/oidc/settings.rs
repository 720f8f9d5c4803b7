//! Settings of sign-in by `OpenID` Connect from the configuration.

use std::collections::BTreeMap;
use std::fmt;

use punctual::{Error, Result};
use url::Url;

use crate::caller::Role;
use crate::config::Config;
use crate::outgoing::OutgoingCalls;
use crate::targets::resolve;

/// Path of the redirect URI below the public address.
const CALLBACK: &str = "/api/v1/session/oidc/callback";

/// Settings of sign-in by `OpenID` Connect.
#[derive(Clone, PartialEq, Eq)]
pub struct Oidc {
    /// The issuer URL; its discovery document is below it.
    pub issuer: String,
    /// The client id of this server.
    pub client_id: String,
    /// The client secret; a public client has none.
    pub client_secret: Option<String>,
    /// The public address of the dashboard.
    pub public_url: String,
    /// Requested scopes; `openid` is always included.
    pub scopes: Vec<String>,
    /// The name of the provider on the sign-in button.
    pub name: String,
    /// The claim that is mapped to a role.
    pub role_claim: Option<String>,
    /// The role of each claim value.
    pub roles: BTreeMap<String, Role>,
    /// The role without a mapped value; without a default these users are refused.
    pub role_default: Option<Role>,
    /// Proxy and certificate authorities of calls to the provider.
    pub outgoing: OutgoingCalls,
}

impl Oidc {
    /// Reads the settings from a configuration; fails when a required key is missing.
    pub(crate) fn of(config: &Config) -> Result<Self> {
        let auth = &config.auth;
        let needed = |key: &str, value: &Option<String>| {
            value.clone().ok_or_else(|| Error::invalid(format!("the mode oidc needs {key}")))
        };
        let issuer = needed("auth.oidc_issuer", &auth.oidc_issuer)?;
        let host = Url::parse(&issuer).ok().and_then(|url| url.host().map(|host| host.to_string()));
        Ok(Self {
            client_id: needed("auth.oidc_client_id", &auth.oidc_client_id)?,
            client_secret: auth.oidc_client_secret.as_ref().map(resolve).transpose()?,
            public_url: needed("server.public_url", &config.server.public_url)?,
            scopes: auth.oidc_scopes.clone(),
            name: auth.oidc_name.clone().or(host).unwrap_or_else(|| issuer.clone()),
            role_claim: auth.oidc_role_claim.clone(),
            roles: auth.oidc_roles.clone(),
            role_default: auth.oidc_role_default,
            outgoing: OutgoingCalls::load(&config.outgoing)?,
            issuer,
        })
    }

    /// Returns the address that users are redirected to after sign-in.
    pub(crate) fn home(&self) -> String {
        format!("{}/", self.public_url.trim_end_matches('/'))
    }

    /// Returns the redirect URI.
    pub(crate) fn callback(&self) -> String {
        format!("{}{CALLBACK}", self.public_url.trim_end_matches('/'))
    }

    /// Returns whether the public address uses https.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https:")
    }

    /// Returns the path of the attempt cookie.
    pub(crate) fn cookie_path(&self) -> String {
        let path = Url::parse(&self.callback()).map(|url| url.path().to_owned());
        path.unwrap_or_else(|_| CALLBACK.to_owned())
    }

    pub(super) fn scope(&self) -> String {
        let others = self.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        std::iter::once("openid").chain(others).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer, client_id, public_url, .. } = self;
        f.debug_struct("Oidc")
            .field("issuer", issuer)
            .field("client_id", client_id)
            .field("public_url", public_url)
            .finish_non_exhaustive()
    }
}
