//! Asks the API: of a running server over HTTP, or of the same endpoints in this process on top of a
//! storage. Commands do not know which.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, DATE};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use punctual::clock::{Clock, SystemClock};
use punctual::engine::Roles;
use punctual::jiff::Timestamp;
use punctual_connect::Opened;
use punctual_server::{App, Parts, router};
use reqwest::{Certificate, Url};
use serde_json::Value;
use tower::ServiceExt;

use crate::desk::variable;
use crate::failure::{Code, Failure};
use crate::refusal::refusal;

/// The longest a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest an answer may take; a large redrive takes its time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The most bytes of an answer.
const ANSWER_MAX: usize = 64 << 20;

/// One question to the API.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: Vec<String>,
    query: Vec<(String, String)>,
    body: Option<Value>,
}

impl Call {
    fn new(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        Self { method, path, query: Vec::new(), body: None }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: &[&str], body: Value) -> Self {
        Self { body: Some(body), ..Self::new(Method::POST, path) }
    }

    pub(crate) fn patch(path: &[&str], body: Value) -> Self {
        Self { body: Some(body), ..Self::new(Method::PATCH, path) }
    }

    pub(crate) fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Adds a parameter, when there is a value for it.
    #[must_use]
    pub(crate) fn with<T: ToString>(mut self, name: &str, value: Option<T>) -> Self {
        self.query.extend(value.map(|value| (name.to_owned(), value.to_string())));
        self
    }
}

/// An answer, before anybody looked whether it is a good one.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Where questions go.
enum Way {
    Http(reqwest::Client),
    Direct(Box<(Router, Opened)>),
}

/// How the caller is known.
#[derive(Clone, Default)]
pub(crate) enum Proof {
    #[default]
    None,
    /// A token.
    Token(String),
    /// A session: its cookie, and what changing calls show.
    Session { cookie: String, csrf: String },
}

/// Asks the API.
pub(crate) struct Client {
    base: Url,
    way: Way,
    proof: Proof,
    /// What time it was there when it last answered: lengths are told by the clock that set the times.
    now: Mutex<Option<Timestamp>>,
}

impl Client {
    /// Of a running server.
    pub(crate) fn http(base: &str, proof: Proof, ca_file: Option<&Path>) -> Result<Self> {
        let base = address(base)?;
        // Another one may be installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
        if is_here(&base) {
            builder = builder.no_proxy();
        }
        let named = variable("PUNCTUAL_CA_FILE").map(PathBuf::from);
        if let Some(file) = ca_file.map(ToOwned::to_owned).or(named) {
            builder = builder.tls_certs_merge(authorities(&file)?);
        }
        let client = builder.build()?;
        Ok(Self { base, way: Way::Http(client), proof, now: Mutex::default() })
    }

    /// Of a storage, without a server. This process does no work of its own on it.
    pub(crate) fn direct(kind: &str, opened: Opened) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let punctual = punctual::Punctual::builder()
            .app("punctual-cli")
            .stores(opened.storage.clone(), opened.inspect.clone())
            .roles(Roles::NONE)
            .build()?;
        let parts = Parts {
            punctual: Arc::new(punctual),
            storage: opened.storage.clone(),
            inspect: opened.inspect.clone(),
            documents: opened.documents.clone(),
            clock,
        };
        let router = router(App::new(parts).stored_in(kind, opened.clone()));
        let base = address("http://localhost")?;
        let way = Way::Direct(Box::new((router, opened)));
        Ok(Self { base, way, proof: Proof::None, now: Mutex::default() })
    }

    /// Whether there is no server in between.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct(_))
    }

    /// Whether what is sent can be read on the way: neither encrypted nor on this machine.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.way, Way::Http(_)) && self.base.scheme() == "http" && !is_here(&self.base)
    }

    /// The address of the server.
    pub(crate) fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The time where the answers come from.
    pub(crate) fn now(&self) -> Timestamp {
        let told = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        told.unwrap_or_else(|| SystemClock.now())
    }

    /// Asks, and refuses what is no good answer. Null when there is nothing to say.
    pub(crate) async fn ask(&self, call: Call) -> Result<Value> {
        let answer = self.answer(call).await?;
        if !answer.status.is_success() {
            return Err(refusal(&answer, self.base()).into());
        }
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer.body).map_err(|_| {
            let text = format!("{} answers, but not with JSON", self.base());
            Failure::new(Code::Failed, text)
                .hint("check the address: is this a Punctual server, of this version?")
                .into()
        })
    }

    /// Asks, and answers whatever comes back.
    pub(crate) async fn answer(&self, call: Call) -> Result<Answer> {
        let answer = match &self.way {
            Way::Http(client) => self.over_http(client, call).await?,
            Way::Direct(parts) => self.in_process(parts.0.clone(), call).await?,
        };
        let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| punctual::jiff::fmt::rfc2822::parse(date).ok());
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = date.map(|at| at.timestamp());
        Ok(answer)
    }

    fn url(&self, call: &Call) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            // What stands outside the API says so by an empty first part.
            match call.path.split_first() {
                Some((first, rest)) if first.is_empty() => segments.extend(rest),
                _ => segments.extend(["api", "v1"]).extend(&call.path),
            };
        }
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        url
    }

    async fn over_http(&self, client: &reqwest::Client, call: Call) -> Result<Answer> {
        let mut request = client.request(call.method.clone(), self.url(&call));
        match &self.proof {
            Proof::None => {}
            Proof::Token(token) => {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            Proof::Session { cookie, csrf } => {
                request = request.header(COOKIE, cookie).header("X-CSRF-Token", csrf);
            }
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        Ok(Answer { status, headers, body: body.to_vec() })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let why = match error {
            error if error.is_timeout() => "it does not answer in time".to_owned(),
            error if error.is_connect() && !mentions_certificates(error) => {
                "nothing answers there".to_owned()
            }
            error => deepest(error).to_string(),
        };
        Failure::new(Code::Unreachable, format!("cannot reach {}: {why}", self.base())).hint(
            "start it with `punctual serve`, name another with --server URL, or work on its storage with --storage ADDRESS",
        )
    }

    async fn in_process(&self, router: Router, call: Call) -> Result<Answer> {
        let url = self.url(&call);
        let path = url
            .query()
            .map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let mut request = Request::builder().method(call.method).uri(path);
        let body = match call.body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let Ok(response) = router.oneshot(request.body(body)?).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = to_bytes(response.into_body(), ANSWER_MAX).await?.to_vec();
        Ok(Answer { status, headers, body })
    }

    /// Lets go of the storage, when it has one.
    pub(crate) async fn close(&self) -> Result<()> {
        match &self.way {
            Way::Http(_) => Ok(()),
            Way::Direct(parts) => Ok(parts.1.close().await?),
        }
    }
}

/// The cause that an error comes down to.
fn deepest(error: &reqwest::Error) -> &dyn std::error::Error {
    const CAUSES_MAX: usize = 16;
    let mut cause: &dyn std::error::Error = error;
    for _ in 0..CAUSES_MAX {
        match cause.source() {
            Some(deeper) => cause = deeper,
            None => break,
        }
    }
    cause
}

/// Whether TLS is what keeps a connection from being made.
fn mentions_certificates(error: &reqwest::Error) -> bool {
    let text = deepest(error).to_string();
    text.contains("certificate") || text.contains("tls") || text.contains("TLS")
}

/// Reads certificate authorities that are trusted besides the usual ones.
fn authorities(file: &Path) -> Result<Vec<Certificate>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match Certificate::from_pem_bundle(&bytes) {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(Failure::wrong(format!("{} holds no certificates", file.display()))
            .hint("name a file in PEM with --ca-file or PUNCTUAL_CA_FILE")
            .into()),
    }
}

/// Whether an address means this machine, which no proxy can reach.
fn is_here(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let ip: Option<std::net::IpAddr> = host.parse().ok();
    host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
}

/// The address of a server as people write it.
fn address(text: &str) -> Result<Url> {
    let wrong = |why: &str| {
        Failure::wrong(format!("the address of the server {text:?} {why}"))
            .hint("write one such as http://127.0.0.1:8080")
    };
    let url =
        Url::parse(text.trim()).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is not one of http or https").into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        // Not repeated: it holds a password.
        return Err(Failure::wrong("the address of the server holds a name or a password")
            .hint("leave it out; log in with `punctual login`, or give a token in PUNCTUAL_TOKEN")
            .into());
    }
    Ok(url)
}
