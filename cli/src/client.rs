//! Client of the API: of a running server over HTTP, or of the same endpoints in this process on top of a storage.
//! Commands work the same with both.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, DATE};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use punctual::Roles;
use punctual::clock::{Clock, SystemClock};
use punctual::jiff::Timestamp;
use punctual_backends::OpenedStorage;
use punctual_server::{App, AppParts, router};
use reqwest::{Certificate, Url};
use serde_json::Value;
use tower::ServiceExt;

use crate::api_error::api_error;
use crate::command_context::env_var;
use crate::error::{Code, CommandError};

/// Longest time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to wait for a response; a large redrive takes long.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// Largest size of a response body.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// A call of the API: method, path below `/api/v1`, query and body.
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

    /// Adds a query parameter, when there is a value for it.
    #[must_use]
    pub(crate) fn with<T: ToString>(mut self, name: &str, value: Option<T>) -> Self {
        self.query.extend(value.map(|value| (name.to_owned(), value.to_string())));
        self
    }
}

/// A response of any status.
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Backend of the calls: a server over HTTP, or the endpoints in this process.
enum Backend {
    Http(reqwest::Client),
    Direct(Box<(Router, OpenedStorage)>),
}

/// Credentials of the caller.
#[derive(Clone, Default)]
pub(crate) enum Credentials {
    #[default]
    None,
    /// A token.
    Token(String),
    /// A session: its cookie, and the CSRF token that changing calls send.
    Session { cookie: String, csrf: String },
}

/// Client of the API.
pub(crate) struct Client {
    base: Url,
    backend: Backend,
    credentials: Credentials,
    /// Time of the last response by the server's clock, which also set the times that are shown.
    now: Mutex<Option<Timestamp>>,
}

impl Client {
    /// Creates a client of a running server.
    pub(crate) fn http(
        base: &str,
        credentials: Credentials,
        ca_file: Option<&Path>,
    ) -> Result<Self> {
        let base = address(base)?;
        // An error means that a provider is installed already, which has the same effect.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(RESPONSE_TIMEOUT)
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
        if is_local(&base) {
            builder = builder.no_proxy();
        }
        let from_env = env_var("PUNCTUAL_CA_FILE").map(PathBuf::from);
        if let Some(file) = ca_file.map(ToOwned::to_owned).or(from_env) {
            builder = builder.tls_certs_merge(authorities(&file)?);
        }
        let client = builder.build()?;
        Ok(Self { base, backend: Backend::Http(client), credentials, now: Mutex::default() })
    }

    /// Creates a client of a storage without a server. This process runs none of its jobs and messages.
    pub(crate) fn direct(kind: &str, opened: OpenedStorage) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let punctual = punctual::Punctual::builder()
            .app("punctual-cli")
            .stores(opened.storage.clone(), opened.inspect.clone())
            .roles(Roles::NONE)
            .build()?;
        let parts = AppParts {
            punctual: Arc::new(punctual),
            storage: opened.storage.clone(),
            inspect: opened.inspect.clone(),
            documents: opened.documents.clone(),
            clock,
        };
        let router = router(App::new(parts).stored_in(kind, opened.clone()));
        let base = address("http://localhost")?;
        let backend = Backend::Direct(Box::new((router, opened)));
        Ok(Self { base, backend, credentials: Credentials::None, now: Mutex::default() })
    }

    /// Returns whether the calls work on a storage without a server.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.backend, Backend::Direct(_))
    }

    /// Returns whether requests cross a network without encryption.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.backend, Backend::Http(_))
            && self.base.scheme() == "http"
            && !is_local(&self.base)
    }

    /// Returns the address of the server.
    pub(crate) fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Returns the current time of the server: its last `Date` header, else this machine's clock.
    pub(crate) fn now(&self) -> Timestamp {
        let last = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        last.unwrap_or_else(|| SystemClock.now())
    }

    /// Sends a call and returns the body; null when it is empty. Fails when the status is not a success.
    pub(crate) async fn send(&self, call: Call) -> Result<Value> {
        let response = self.send_raw(call).await?;
        if !response.status.is_success() {
            return Err(api_error(&response, self.base()).into());
        }
        if response.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&response.body).map_err(|_| {
            let text = format!("the response of {} is not JSON", self.base());
            CommandError::new(Code::Failed, text)
                .hint("check the address: is this a Punctual server, of this version?")
                .into()
        })
    }

    /// Sends a call and returns the response of any status.
    pub(crate) async fn send_raw(&self, call: Call) -> Result<ApiResponse> {
        let response = match &self.backend {
            Backend::Http(client) => self.over_http(client, call).await?,
            Backend::Direct(parts) => self.in_process(parts.0.clone(), call).await?,
        };
        let date = response.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| punctual::jiff::fmt::rfc2822::parse(date).ok());
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = date.map(|at| at.timestamp());
        Ok(response)
    }

    fn url(&self, call: &Call) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            // A path outside the API begins with an empty part.
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

    async fn over_http(&self, client: &reqwest::Client, call: Call) -> Result<ApiResponse> {
        let mut request = client.request(call.method.clone(), self.url(&call));
        match &self.credentials {
            Credentials::None => {}
            Credentials::Token(token) => {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            Credentials::Session { cookie, csrf } => {
                request = request.header(COOKIE, cookie).header("X-CSRF-Token", csrf);
            }
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        Ok(ApiResponse { status, headers, body: body.to_vec() })
    }

    fn unreachable(&self, error: &reqwest::Error) -> CommandError {
        let why = match error {
            error if error.is_timeout() => "the request timed out".to_owned(),
            error if error.is_connect() && !mentions_certificates(error) => {
                "no server listens there".to_owned()
            }
            error => deepest(error).to_string(),
        };
        CommandError::new(Code::Unreachable, format!("cannot reach {}: {why}", self.base())).hint(
            "start it with `punctual serve`, choose another server with --server URL, or use its storage with --storage ADDRESS",
        )
    }

    async fn in_process(&self, router: Router, call: Call) -> Result<ApiResponse> {
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
        let body = to_bytes(response.into_body(), RESPONSE_BYTES_MAX).await?.to_vec();
        Ok(ApiResponse { status, headers, body })
    }

    /// Closes the storage, when the client opened one.
    pub(crate) async fn close(&self) -> Result<()> {
        match &self.backend {
            Backend::Http(_) => Ok(()),
            Backend::Direct(parts) => Ok(parts.1.close().await?),
        }
    }
}

/// Returns the innermost cause of an error.
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

/// Returns whether TLS prevented the connection.
fn mentions_certificates(error: &reqwest::Error) -> bool {
    let text = deepest(error).to_string();
    text.contains("certificate") || text.contains("tls") || text.contains("TLS")
}

/// Reads certificate authorities that are trusted in addition to those of the system.
fn authorities(file: &Path) -> Result<Vec<Certificate>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match Certificate::from_pem_bundle(&bytes) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(CommandError::invalid_input(format!("{} holds no certificates", file.display()))
            .hint("name a file in PEM with --ca-file or PUNCTUAL_CA_FILE")
            .into()),
    }
}

/// Returns whether an address means this machine, for which no proxy is used.
fn is_local(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let ip: Option<std::net::IpAddr> = host.parse().ok();
    host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
}

/// Parses the address of a server.
fn address(text: &str) -> Result<Url> {
    let wrong = |why: &str| {
        CommandError::invalid_input(format!("the server address {text:?} {why}"))
            .hint("write one such as http://127.0.0.1:8080")
    };
    let url =
        Url::parse(text.trim()).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is not one of http or https").into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The address is not repeated, because it contains a password.
        return Err(CommandError::invalid_input(
            "the server address contains a user name or a password",
        )
        .hint("remove it; log in with `punctual login`, or pass a token in PUNCTUAL_TOKEN")
        .into());
    }
    Ok(url)
}
