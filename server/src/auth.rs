//! Authentication: finds the [`Caller`] of a request by session cookie, token, name and password, or the header of a
//! trusted proxy. Authorization is checked by the endpoints.

mod browser;
mod changes;
mod forwarded;
mod hash_limiter;
mod login;
#[cfg(feature = "oidc")]
mod oidc;
mod origin;
mod password;
mod proxy_users;
mod session;
mod throttle;
mod token;
mod user;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use punctual::Clock;
use punctual::backend::documents::DocumentStore;

pub(crate) use self::browser::{BROWSER_COOKIE, BROWSER_TTL};
#[cfg(feature = "oidc")]
pub(crate) use self::login::note_login;
pub(crate) use self::login::{Login, LoginCounts, log_in};
#[cfg(feature = "oidc")]
pub use self::oidc::Oidc;
#[cfg(feature = "oidc")]
pub(crate) use self::oidc::{Attempt, Person, Provider};
pub(crate) use self::origin::CallAddress;
pub(crate) use self::password::CHARS_MIN as PASSWORD_LENGTH_MIN;
pub(crate) use self::session::{COOKIE_NAME, csrf_of};
pub use self::token::{EVERY_QUEUE, Scope};
pub(crate) use self::token::{KIND as TOKEN_KIND, Token, TokenDraft, TokenOwner};
pub(crate) use self::user::{KIND as USER_KIND, User};

use self::browser::Browsers;
use self::changes::Changes;
use self::hash_limiter::HashLimiter;
use self::password::Passwords;
use self::proxy_users::ProxyUsers;
use self::session::Sessions;
use self::throttle::Throttle;
use self::token::Tokens;
use self::user::Users;
use crate::app::App;
use crate::caller::{AuthenticationMethod, Caller, Role};
use crate::config::Networks;
use crate::problem::{ApiResult, Problem};

/// How callers are authenticated.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mode {
    /// No authentication; only for this machine.
    #[default]
    None,
    /// Users with a name and a password.
    Password,
    /// A proxy in front has authenticated the caller and names it in a header.
    Proxy(Proxy),
    /// Users sign in at a provider of `OpenID` Connect.
    #[cfg(feature = "oidc")]
    Oidc(Oidc),
}

/// Headers of an authenticating proxy, and its addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// The header with the name.
    pub header: String,
    /// The header with the role; without it the role of the user of that name, or viewer.
    pub role_header: Option<String>,
    /// The addresses of the proxy.
    pub trusted: Networks,
}

/// Settings of authentication.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// How callers are authenticated.
    pub mode: Mode,
    /// How long a session lasts without use.
    pub session_ttl: Duration,
    /// The URL prefix of every path.
    pub prefix: String,
    /// The addresses of proxies whose `X-Forwarded-For` or `Forwarded` is trusted.
    pub forwarders: Networks,
}

impl Default for AuthSettings {
    fn default() -> Self {
        let session_ttl = Duration::from_secs(12 * 60 * 60);
        let (prefix, forwarders) = (String::new(), Networks::default());
        Self { mode: Mode::None, session_ttl, prefix, forwarders }
    }
}

/// Authentication by the embedding application; tried before all other ways.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the caller; none to continue with the other ways.
    async fn authenticate(&self, request: &Parts) -> Result<Option<Caller>, Problem>;
}

/// Authenticates callers.
#[derive(Clone)]
pub struct Auth {
    pub(crate) settings: Arc<AuthSettings>,
    pub(crate) users: Users,
    pub(crate) sessions: Sessions,
    pub(crate) tokens: Tokens,
    /// Counts changes on this node that end sessions and tokens.
    pub(crate) changes: Changes,
    /// Browsers in which a user has logged in before.
    pub(crate) browsers: Browsers,
    /// Number of logins by result.
    pub(crate) counts: Arc<LoginCounts>,
    proxy_users: ProxyUsers,
    #[cfg(feature = "oidc")]
    provider: Option<Arc<Provider>>,
    passwords: Passwords,
    limiter: HashLimiter,
    throttle: Arc<Throttle>,
    clock: Arc<dyn Clock>,
    custom: Option<Arc<dyn Authenticate>>,
}

impl Auth {
    pub(crate) fn new(
        settings: AuthSettings,
        documents: &Arc<dyn DocumentStore>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let changes = Changes::default();
        let users = Users::new(documents, clock, &changes);
        let ttl = settings.session_ttl;
        let sessions = Sessions::new(documents, clock, (&users, &changes), ttl);
        #[cfg(feature = "oidc")]
        let provider = match &settings.mode {
            Mode::Oidc(oidc) => Some(Arc::new(Provider::new(oidc.clone(), clock.clone()))),
            _ => None,
        };
        Self {
            #[cfg(feature = "oidc")]
            provider,
            settings: Arc::new(settings),
            users,
            sessions,
            tokens: Tokens::new(documents, clock, &changes),
            changes,
            browsers: Browsers::new(documents, clock),
            counts: Arc::default(),
            proxy_users: ProxyUsers::new(documents, clock),
            passwords: Passwords::default(),
            limiter: HashLimiter::default(),
            throttle: Arc::default(),
            clock: clock.clone(),
            custom: None,
        }
    }

    /// Sets the authentication by the embedding application.
    #[must_use]
    pub fn custom(self, custom: Arc<dyn Authenticate>) -> Self {
        Self { custom: Some(custom), ..self }
    }

    /// Returns the name of the mode.
    pub(crate) fn word(&self) -> &'static str {
        match self.settings.mode {
            Mode::None => "none",
            Mode::Password => "password",
            Mode::Proxy(_) => "proxy",
            #[cfg(feature = "oidc")]
            Mode::Oidc(_) => "oidc",
        }
    }

    /// Returns the name of the identity provider, in the mode `oidc`.
    pub(crate) fn provider_name(&self) -> Option<&str> {
        match &self.settings.mode {
            #[cfg(feature = "oidc")]
            Mode::Oidc(oidc) => Some(&oidc.name),
            Mode::None | Mode::Password | Mode::Proxy(_) => None,
        }
    }

    /// Returns whether the public address uses https.
    pub(crate) fn is_secure(&self) -> bool {
        match &self.settings.mode {
            #[cfg(feature = "oidc")]
            Mode::Oidc(oidc) => oidc.is_secure(),
            Mode::None | Mode::Password | Mode::Proxy(_) => false,
        }
    }

    /// Returns the identity provider; fails in other modes than `oidc`.
    #[cfg(feature = "oidc")]
    pub(crate) fn provider(&self) -> ApiResult<&Provider> {
        self.provider.as_deref().ok_or_else(|| {
            let sentence = format!(
                "sign-in by a provider is not enabled: the auth mode is {}, not oidc",
                self.word()
            );
            Problem::conflict(sentence)
        })
    }

    /// Returns whether users log in by name and password.
    pub(crate) fn needs_users(&self) -> bool {
        self.settings.mode == Mode::Password
    }

    /// Returns whether callers have to authenticate.
    pub(crate) fn is_closed(&self) -> bool {
        self.settings.mode != Mode::None || self.custom.is_some()
    }

    pub(crate) async fn has_users(&self) -> punctual::Result<bool> {
        Ok(!self.users.list(None, 1).await?.is_empty())
    }

    /// Returns the hash of a new password; refuses a weak one.
    pub(crate) async fn hash(&self, password: &str, from: Option<IpAddr>) -> ApiResult<String> {
        password::check_strength(password)?;
        let slot = self.limiter.enter(from, true)?;
        let permit = slot.permit().await?;
        Ok(self.passwords.hash(permit, password.to_owned()).await?)
    }

    async fn caller(
        &self,
        app: &App,
        parts: &Parts,
        from: Option<IpAddr>,
    ) -> ApiResult<Option<Caller>> {
        if let Some(custom) = &self.custom
            && let Some(caller) = custom.authenticate(parts).await?
        {
            return Ok(Some(caller));
        }
        if let Some(text) = authorization(&parts.headers) {
            return self.authorized(app, text, from).await.map(Some);
        }
        match &self.settings.mode {
            Mode::None => {
                origin::check_host(parts, from.is_some())?;
                let local = Caller::new("local", Role::Admin).working_on([EVERY_QUEUE]);
                Ok(Some(Caller {
                    from,
                    authentication: AuthenticationMethod::NotRequired,
                    ..local
                }))
            }
            Mode::Password => self.by_cookie(&parts.headers, from).await,
            Mode::Proxy(proxy) => {
                // The proxy is the peer of the connection, not the forwarded address.
                let is_trusted = origin::peer(&parts.extensions)
                    .is_some_and(|peer| proxy.trusted.has_address(peer));
                if is_trusted { self.by_proxy(proxy, &parts.headers, from).await } else { Ok(None) }
            }
            #[cfg(feature = "oidc")]
            Mode::Oidc(_) => self.by_cookie(&parts.headers, from).await,
        }
    }

    async fn authorized(&self, app: &App, text: &str, from: Option<IpAddr>) -> ApiResult<Caller> {
        match text.split_once(' ') {
            Some((kind, secret)) if kind.eq_ignore_ascii_case("bearer") => {
                let found = self.bearer(secret.trim(), from).await;
                let is_refused = |problem: &Problem| problem.status() == StatusCode::UNAUTHORIZED;
                if found.as_ref().is_err_and(is_refused) {
                    self.counts.refuse_token();
                }
                found
            }
            Some((kind, pair)) if kind.eq_ignore_ascii_case("basic") => {
                let (name, password) = basic(pair.trim()).ok_or_else(unreadable)?;
                let login = Login { name: &name, password: &password, from, browser: None };
                let user = log_in(app, login).await?;
                let (id, generation) = (user.id.clone(), user.generation);
                let authentication = AuthenticationMethod::Password { id, generation };
                Ok(Caller { from, authentication, ..Caller::new(user.name, user.role) })
            }
            _ => Err(unreadable()),
        }
    }

    async fn bearer(&self, secret: &str, from: Option<IpAddr>) -> ApiResult<Caller> {
        let token = self.tokens.find(secret).await?.ok_or_else(|| {
            let sentence = "the token is unknown, revoked or expired; create another one";
            Problem::new(StatusCode::UNAUTHORIZED, sentence)
        })?;
        let role_max = self.owner_role(&token).await?;
        let role = token.role().min(role_max);
        let mut scopes = token.scopes.clone();
        scopes.retain(|scope| role_max >= scope.needs());
        let name = format!("{} (token {})", token.user, token.name);
        let authentication = AuthenticationMethod::Token { id: token.id, owner: token.owner };
        let owner = Some(token.user);
        let queues = if scopes.contains(&Scope::Work) { token.queues } else { Vec::new() };
        Ok(Caller { from, scopes, queues, owner, authentication, ..Caller::new(name, role) })
    }

    /// Returns the current role of the owner of a token, which limits the token.
    async fn owner_role(&self, token: &Token) -> ApiResult<Role> {
        let ended = |why: &str| {
            let sentence = format!("the user {:?} of this token {why}", token.user);
            Problem::new(StatusCode::UNAUTHORIZED, sentence)
        };
        match &token.owner {
            TokenOwner::Local => Ok(Role::Admin),
            TokenOwner::Proxied => {
                let role = self.proxy_user_role(&token.user, token.generation).await?;
                role.ok_or_else(|| ended("is or was disabled, or is no longer known to the proxy"))
            }
            TokenOwner::User(_) => {
                let user = self.users.find(&token.user).await?;
                let user = user.filter(|user| token.is_of(user));
                let user = user.ok_or_else(|| ended("was deleted or has ended it"))?;
                if user.disabled { Err(ended("is disabled")) } else { Ok(user.role) }
            }
        }
    }

    async fn by_cookie(
        &self,
        headers: &HeaderMap,
        from: Option<IpAddr>,
    ) -> ApiResult<Option<Caller>> {
        let Some(secret) = cookie(headers) else { return Ok(None) };
        let user = self.sessions.user(&secret).await?;
        Ok(user.map(|user| {
            let csrf = Some(csrf_of(&secret));
            let authentication = AuthenticationMethod::Session { secret, id: user.id };
            Caller { from, csrf, authentication, ..Caller::new(user.name, user.role) }
        }))
    }

    /// Returns the generation of tokens that a caller creates: the current one of their user.
    pub(crate) async fn tokens_generation(&self, caller: &Caller) -> punctual::Result<u64> {
        let user = match caller.owning() {
            TokenOwner::User(_) | TokenOwner::Proxied => self.users.find(caller.person()).await?,
            TokenOwner::Local => None,
        };
        Ok(user.map_or(0, |user| user.tokens_generation))
    }

    /// Returns whether the credentials of a caller still grant at least the role viewer.
    pub(crate) async fn is_still_authorized(&self, caller: &Caller) -> ApiResult<bool> {
        let role = match &caller.authentication {
            AuthenticationMethod::Application | AuthenticationMethod::NotRequired => {
                return Ok(true);
            }
            AuthenticationMethod::Proxy { generation } => {
                self.proxy_user_role(&caller.name, *generation).await?
            }
            AuthenticationMethod::Session { secret, .. } => {
                self.sessions.user(secret).await?.map(|user| user.role)
            }
            AuthenticationMethod::Password { id, generation } => {
                let user = self.users.find(&caller.name).await?;
                let same = |user: &User| user.id == *id && user.generation == *generation;
                user.filter(|user| same(user) && !user.disabled).map(|user| user.role)
            }
            AuthenticationMethod::Token { id, .. } => match self.tokens.get(id).await? {
                None => None,
                Some(token) => match self.owner_role(&token).await {
                    Ok(role_max) => Some(token.role().min(role_max)),
                    Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => None,
                    Err(problem) => return Err(problem),
                },
            },
        };
        Ok(role.is_some_and(|role| role >= Role::Viewer))
    }

    /// Returns the current role of a user behind the proxy: the last one the proxy sent, or the user's own
    /// without a role header. None for a user who is disabled, was disabled since the credentials were issued, or
    /// is long inactive.
    async fn proxy_user_role(&self, name: &str, generation: u64) -> punctual::Result<Option<Role>> {
        let user = self.users.find(name).await?;
        let ended = |user: &User| user.disabled || user.tokens_generation != generation;
        if user.as_ref().is_some_and(ended) {
            return Ok(None);
        }
        let has_no_role_header =
            matches!(&self.settings.mode, Mode::Proxy(proxy) if proxy.role_header.is_none());
        let role = self.proxy_users.role(name).await?;
        if !has_no_role_header {
            return Ok(role);
        }
        Ok(role.map(|_| user.map_or(Role::Viewer, |user| user.role)))
    }

    async fn by_proxy(
        &self,
        proxy: &Proxy,
        headers: &HeaderMap,
        from: Option<IpAddr>,
    ) -> ApiResult<Option<Caller>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(name) = text(&proxy.header) else { return Ok(None) };
        let user = self.users.find(name).await?;
        if user.as_ref().is_some_and(|user| user.disabled) {
            let sentence = format!("the user {name:?} is disabled here");
            return Err(Problem::new(StatusCode::FORBIDDEN, sentence));
        }
        let generation = user.as_ref().map_or(0, |user| user.tokens_generation);
        let sent = proxy.role_header.as_deref().and_then(text);
        let role = match sent {
            Some(sent) => Role::parse(sent).ok_or_else(|| {
                Problem::new(
                    StatusCode::FORBIDDEN,
                    format!(
                        "the proxy sent the unknown role {sent:?}; use viewer, operator or admin"
                    ),
                )
            })?,
            None => user.map_or(Role::Viewer, |user| user.role),
        };
        self.proxy_users.record(name, role).await?;
        let authentication = AuthenticationMethod::Proxy { generation };
        Ok(Some(Caller { from, authentication, ..Caller::new(name, role) }))
    }
}

/// Adds the address of the caller to a request: the peer of the connection, or the one a trusted forwarder sent.
pub(crate) fn with_address(app: &App, mut request: Request) -> (Request, Option<IpAddr>) {
    let forwarders = &app.auth().settings.forwarders;
    let from = origin::peer(request.extensions())
        .map(|peer| forwarded::caller(peer, request.headers(), forwarders));
    request.extensions_mut().insert(CallAddress(from));
    (request, from)
}

/// Authenticates a request, unless the embedding application has set its caller, and refuses cross-site changes.
pub(crate) async fn authenticated(app: &App, request: Request) -> ApiResult<Request> {
    let (request, from) = with_address(app, request);
    let (mut parts, body) = request.into_parts();
    if let Some(caller) = parts.extensions.get_mut::<Caller>() {
        caller.from = caller.from.or(from);
        let caller = caller.clone();
        origin::check(&parts, Some(&caller))?;
        return Ok(Request::from_parts(parts, body));
    }
    let caller = app.auth().caller(app, &parts, from).await?;
    origin::check(&parts, caller.as_ref())?;
    if let Some(caller) = caller {
        parts.extensions.insert(caller);
    }
    Ok(Request::from_parts(parts, body))
}

fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()
}

/// Returns the secret of the session cookie.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    cookie_named(headers, COOKIE_NAME)
}

/// Returns the cookie that an earlier login left in this browser.
pub(crate) fn browser_cookie(headers: &HeaderMap) -> Option<String> {
    cookie_named(headers, BROWSER_COOKIE)
}

fn cookie_named(headers: &HeaderMap, cookie_name: &str) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == cookie_name).then(|| value.to_owned())
    })
}

fn basic(pair: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(pair).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

fn unreadable() -> Problem {
    let sentence = "the Authorization header is invalid; use `Bearer TOKEN` or `Basic ...`";
    Problem::new(StatusCode::UNAUTHORIZED, sentence)
}
