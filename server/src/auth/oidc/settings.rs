//! How people sign in by `OpenID` Connect, as the configuration says.

use std::collections::BTreeMap;
use std::fmt;

use punctual::{Error, Result};
use url::Url;

use crate::caller::Role;
use crate::config::Config;
use crate::outgoing::Outgoing;
use crate::targets::resolve;

/// Where a provider sends browsers back to, below the public address.
const CALLBACK: &str = "/api/v1/session/oidc/callback";

/// How people sign in by `OpenID` Connect.
#[derive(Clone, PartialEq, Eq)]
pub struct Oidc {
    /// The provider: what its discovery document lies below.
    pub issuer: String,
    /// What this server is called there.
    pub client_id: String,
    /// Its secret there; a public client has none.
    pub client_secret: Option<String>,
    /// The address under which people open the dashboard.
    pub public_url: String,
    /// What is asked for; `openid` is always among it.
    pub scopes: Vec<String>,
    /// What the provider is called on the button.
    pub name: String,
    /// The claim that says what somebody may do.
    pub role_claim: Option<String>,
    /// The role of each of its values.
    pub roles: BTreeMap<String, Role>,
    /// The role of everybody else; without one they are refused.
    pub role_default: Option<Role>,
    /// How the provider is called.
    pub outgoing: Outgoing,
}

impl Oidc {
    /// What a configuration says.
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
            outgoing: Outgoing::load(&config.outgoing)?,
            issuer,
        })
    }

    /// Where people go once they are known.
    pub(crate) fn home(&self) -> String {
        format!("{}/", self.public_url.trim_end_matches('/'))
    }

    /// Where the provider sends browsers back to.
    pub(crate) fn callback(&self) -> String {
        format!("{}{CALLBACK}", self.public_url.trim_end_matches('/'))
    }

    /// Whether browsers come over https.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https:")
    }

    /// The path below which the cookie of an attempt is sent.
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
