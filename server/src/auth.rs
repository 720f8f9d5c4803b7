//! Who calls. A request shows a session's cookie, a token, a name and a password, or comes from a proxy that
//! has asked already; each leads to a [`Caller`] or to none. What a caller may do is asked by the endpoints.

mod browser;
mod changes;
mod forwarded;
mod login;
#[cfg(feature = "oidc")]
mod oidc;
mod origin;
mod password;
mod proxied;
mod seats;
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
use punctual::documents::DocumentStore;

pub(crate) use self::browser::{BROWSER_COOKIE, BROWSER_KNOWN_FOR};
#[cfg(feature = "oidc")]
pub(crate) use self::login::note_login;
pub(crate) use self::login::{Login, LoginCounts, log_in};
#[cfg(feature = "oidc")]
pub use self::oidc::Oidc;
#[cfg(feature = "oidc")]
pub(crate) use self::oidc::{Attempt, Person, Provider};
pub(crate) use self::origin::CallAddress;
pub(crate) use self::password::LENGTH_MIN as PASSWORD_LENGTH_MIN;
pub(crate) use self::session::{COOKIE_NAME, csrf_of};
pub use self::token::{EVERY_QUEUE, Scope};
pub(crate) use self::token::{KIND as TOKEN_KIND, Owner, Token, TokenDraft};
pub(crate) use self::user::{KIND as USER_KIND, User};

use self::browser::Browsers;
use self::changes::Changes;
use self::password::Passwords;
use self::proxied::Proxied;
use self::seats::Seats;
use self::session::Sessions;
use self::throttle::Throttle;
use self::token::Tokens;
use self::user::Users;
use crate::app::App;
use crate::caller::{Caller, Proof, Role};
use crate::config::Networks;
use crate::problem::{Answer, Problem};

/// How callers are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mode {
    /// Nobody has to say who they are; only for this machine.
    #[default]
    None,
    /// Users with a name and a password.
    Password,
    /// A proxy in front has asked, and says who it is in a header.
    Proxy(Proxy),
    /// A provider of `OpenID` Connect says who somebody is.
    #[cfg(feature = "oidc")]
    Oidc(Oidc),
}

/// What a proxy in front says, and from where.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// The header with the name.
    pub header: String,
    /// The header with the role; without it a user's own, and viewer for those without one.
    pub role_header: Option<String>,
    /// The addresses it may come from.
    pub trusted: Networks,
}

/// How callers are known, and for how long.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// How.
    pub mode: Mode,
    /// How long a session lasts without being used.
    pub session_ttl: Duration,
    /// What every path begins with.
    pub prefix: String,
    /// The addresses of proxies that say in `X-Forwarded-For` or `Forwarded` where a call came from.
    pub forwarders: Networks,
}

impl Default for AuthSettings {
    fn default() -> Self {
        let session_ttl = Duration::from_secs(12 * 60 * 60);
        let (prefix, forwarders) = (String::new(), Networks::default());
        Self { mode: Mode::None, session_ttl, prefix, forwarders }
    }
}

/// An application's own way to know callers; asked before all others.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Who calls; none when this way does not know.
    async fn authenticate(&self, request: &Parts) -> Result<Option<Caller>, Problem>;
}

/// Knows callers.
#[derive(Clone)]
pub struct Auth {
    pub(crate) settings: Arc<AuthSettings>,
    pub(crate) users: Users,
    pub(crate) sessions: Sessions,
    pub(crate) tokens: Tokens,
    /// What ended sessions and tokens on this node.
    pub(crate) changes: Changes,
    /// Browsers in which somebody logged in before.
    pub(crate) browsers: Browsers,
    /// How many logins ended how.
    pub(crate) counts: Arc<LoginCounts>,
    proxied: Proxied,
    #[cfg(feature = "oidc")]
    provider: Option<Arc<Provider>>,
    passwords: Passwords,
    seats: Seats,
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
        let length = settings.session_ttl;
        let sessions = Sessions::new(documents, clock, (&users, &changes), length);
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
            proxied: Proxied::new(documents, clock),
            passwords: Passwords::default(),
            seats: Seats::default(),
            throttle: Arc::default(),
            clock: clock.clone(),
            custom: None,
        }
    }

    /// The same, asking an application's own way first.
    #[must_use]
    pub fn custom(self, custom: Arc<dyn Authenticate>) -> Self {
        Self { custom: Some(custom), ..self }
    }

    /// The mode in one word.
    pub(crate) fn word(&self) -> &'static str {
        match self.settings.mode {
            Mode::None => "none",
            Mode::Password => "password",
            Mode::Proxy(_) => "proxy",
            #[cfg(feature = "oidc")]
            Mode::Oidc(_) => "oidc",
        }
    }

    /// What the button to sign in elsewhere says, when there is one.
    pub(crate) fn provider_name(&self) -> Option<&str> {
        match &self.settings.mode {
            #[cfg(feature = "oidc")]
            Mode::Oidc(oidc) => Some(&oidc.name),
            Mode::None | Mode::Password | Mode::Proxy(_) => None,
        }
    }

    /// Whether browsers are known to come over https.
    pub(crate) fn is_secure(&self) -> bool {
        match &self.settings.mode {
            #[cfg(feature = "oidc")]
            Mode::Oidc(oidc) => oidc.is_secure(),
            Mode::None | Mode::Password | Mode::Proxy(_) => false,
        }
    }

    /// The provider that knows people.
    #[cfg(feature = "oidc")]
    pub(crate) fn provider(&self) -> Answer<&Provider> {
        self.provider.as_deref().ok_or_else(|| {
            let sentence =
                format!("nobody signs in elsewhere; the auth mode is {}, not oidc", self.word());
            Problem::conflict(sentence)
        })
    }

    /// Whether people log in by a name and a password.
    pub(crate) fn needs_users(&self) -> bool {
        self.settings.mode == Mode::Password
    }

    /// Whether callers have to say who they are.
    pub(crate) fn is_closed(&self) -> bool {
        self.settings.mode != Mode::None || self.custom.is_some()
    }

    pub(crate) async fn has_users(&self) -> punctual::Result<bool> {
        Ok(!self.users.list(None, 1).await?.is_empty())
    }

    /// The hash of a password that is good enough, for a caller who may set it.
    pub(crate) async fn hash(&self, password: &str, from: Option<IpAddr>) -> Answer<String> {
        password::judge(password)?;
        let place = self.seats.enter(from, true)?;
        let seat = place.seat().await?;
        Ok(self.passwords.hash(seat, password.to_owned()).await?)
    }

    async fn caller(
        &self,
        app: &App,
        parts: &Parts,
        from: Option<IpAddr>,
    ) -> Answer<Option<Caller>> {
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
                Ok(Some(Caller { from, proof: Proof::Nobody, ..local }))
            }
            Mode::Password => self.by_cookie(&parts.headers, from).await,
            Mode::Proxy(proxy) => {
                // The proxy is who has connected, wherever the call it hands on came from.
                let is_trusted = origin::peer(&parts.extensions)
                    .is_some_and(|peer| proxy.trusted.has_address(peer));
                if is_trusted { self.by_proxy(proxy, &parts.headers, from).await } else { Ok(None) }
            }
            #[cfg(feature = "oidc")]
            Mode::Oidc(_) => self.by_cookie(&parts.headers, from).await,
        }
    }

    async fn authorized(&self, app: &App, text: &str, from: Option<IpAddr>) -> Answer<Caller> {
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
                let proof = Proof::Password { id, generation };
                Ok(Caller { from, proof, ..Caller::new(user.name, user.role) })
            }
            _ => Err(unreadable()),
        }
    }

    async fn bearer(&self, secret: &str, from: Option<IpAddr>) -> Answer<Caller> {
        let token = self.tokens.find(secret).await?.ok_or_else(|| {
            let sentence = "the token is unknown, revoked or has expired; make another one";
            Problem::new(StatusCode::UNAUTHORIZED, sentence)
        })?;
        let most = self.most_of(&token).await?;
        let role = token.role().min(most);
        let mut scopes = token.scopes.clone();
        scopes.retain(|scope| most >= scope.needs());
        let name = format!("{} (token {})", token.user, token.name);
        let proof = Proof::Token { id: token.id, owner: token.owner };
        let owner = Some(token.user);
        let queues = if scopes.contains(&Scope::Work) { token.queues } else { Vec::new() };
        Ok(Caller { from, scopes, queues, owner, proof, ..Caller::new(name, role) })
    }

    /// The most that a token may: what its owner may at the moment.
    async fn most_of(&self, token: &Token) -> Answer<Role> {
        let gone = |why: &str| {
            let sentence = format!("the user {:?} of this token {why}", token.user);
            Problem::new(StatusCode::UNAUTHORIZED, sentence)
        };
        match &token.owner {
            Owner::Local => Ok(Role::Admin),
            Owner::Proxied => {
                let role = self.proxied_role(&token.user, token.generation).await?;
                role.ok_or_else(|| gone("is or was disabled, or not known to the proxy any more"))
            }
            Owner::User(_) => {
                let user = self.users.find(&token.user).await?;
                let user = user.filter(|user| token.is_of(user));
                let user = user.ok_or_else(|| gone("is gone or has ended it"))?;
                if user.disabled { Err(gone("is disabled")) } else { Ok(user.role) }
            }
        }
    }

    async fn by_cookie(&self, headers: &HeaderMap, from: Option<IpAddr>) -> Answer<Option<Caller>> {
        let Some(secret) = cookie(headers) else { return Ok(None) };
        let user = self.sessions.user(&secret).await?;
        Ok(user.map(|user| {
            let csrf = Some(csrf_of(&secret));
            let proof = Proof::Session { secret, id: user.id };
            Caller { from, csrf, proof, ..Caller::new(user.name, user.role) }
        }))
    }

    /// The generation of the tokens that a caller makes: theirs as a user at the moment.
    pub(crate) async fn tokens_generation(&self, caller: &Caller) -> punctual::Result<u64> {
        let user = match caller.owning() {
            Owner::User(_) | Owner::Proxied => self.users.find(caller.person()).await?,
            Owner::Local => None,
        };
        Ok(user.map_or(0, |user| user.tokens_generation))
    }

    /// Whether what let a caller in would still let them in as a viewer.
    pub(crate) async fn still_lets_in(&self, caller: &Caller) -> Answer<bool> {
        let role = match &caller.proof {
            Proof::Application | Proof::Nobody => return Ok(true),
            Proof::Proxy { generation } => self.proxied_role(&caller.name, *generation).await?,
            Proof::Session { secret, .. } => {
                self.sessions.user(secret).await?.map(|user| user.role)
            }
            Proof::Password { id, generation } => {
                let user = self.users.find(&caller.name).await?;
                let same = |user: &User| user.id == *id && user.generation == *generation;
                user.filter(|user| same(user) && !user.disabled).map(|user| user.role)
            }
            Proof::Token { id, .. } => match self.tokens.get(id).await? {
                None => None,
                Some(token) => match self.most_of(&token).await {
                    Ok(most) => Some(token.role().min(most)),
                    Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => None,
                    Err(problem) => return Err(problem),
                },
            },
        };
        Ok(role.is_some_and(|role| role >= Role::Viewer))
    }

    /// The role that a person behind the proxy has at the moment: the one the proxy said last, or their own where the
    /// proxy says none. None for those who are disabled here, were since what they show was made, or have not come for
    /// long.
    async fn proxied_role(&self, name: &str, generation: u64) -> punctual::Result<Option<Role>> {
        let user = self.users.find(name).await?;
        let ended = |user: &User| user.disabled || user.tokens_generation != generation;
        if user.as_ref().is_some_and(ended) {
            return Ok(None);
        }
        let says_none =
            matches!(&self.settings.mode, Mode::Proxy(proxy) if proxy.role_header.is_none());
        let role = self.proxied.role(name).await?;
        if !says_none {
            return Ok(role);
        }
        Ok(role.map(|_| user.map_or(Role::Viewer, |user| user.role)))
    }

    async fn by_proxy(
        &self,
        proxy: &Proxy,
        headers: &HeaderMap,
        from: Option<IpAddr>,
    ) -> Answer<Option<Caller>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(name) = text(&proxy.header) else { return Ok(None) };
        let user = self.users.find(name).await?;
        if user.as_ref().is_some_and(|user| user.disabled) {
            let sentence = format!("the user {name:?} is disabled here");
            return Err(Problem::new(StatusCode::FORBIDDEN, sentence));
        }
        let generation = user.as_ref().map_or(0, |user| user.tokens_generation);
        let said = proxy.role_header.as_deref().and_then(text);
        let role = match said {
            Some(said) => Role::parse(said).ok_or_else(|| {
                Problem::new(
                    StatusCode::FORBIDDEN,
                    format!(
                        "the proxy says the role {said:?}; there are viewer, operator and admin"
                    ),
                )
            })?,
            None => user.map_or(Role::Viewer, |user| user.role),
        };
        self.proxied.came(name, role).await?;
        let proof = Proof::Proxy { generation };
        Ok(Some(Caller { from, proof, ..Caller::new(name, role) }))
    }
}

/// Finds out from which address a call came: the one of the connection, or the one that a trusted forwarder says.
pub(crate) fn located(app: &App, mut request: Request) -> (Request, Option<IpAddr>) {
    let forwarders = &app.auth().settings.forwarders;
    let from = origin::peer(request.extensions())
        .map(|peer| forwarded::caller(peer, request.headers(), forwarders));
    request.extensions_mut().insert(CallAddress(from));
    (request, from)
}

/// Finds out who calls, unless the application around this router has put somebody in, and refuses changes
/// that another site makes a browser send.
pub(crate) async fn known(app: &App, request: Request) -> Answer<Request> {
    let (request, from) = located(app, request);
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

/// The session's secret in the cookies.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    cookie_named(headers, COOKIE_NAME)
}

/// What an earlier login left in this browser.
pub(crate) fn browser_cookie(headers: &HeaderMap) -> Option<String> {
    cookie_named(headers, BROWSER_COOKIE)
}

fn cookie_named(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then(|| value.to_owned())
    })
}

fn basic(pair: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(pair).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

fn unreadable() -> Problem {
    let sentence =
        "the Authorization header is not understood; write `Bearer TOKEN` or `Basic ...`";
    Problem::new(StatusCode::UNAUTHORIZED, sentence)
}
