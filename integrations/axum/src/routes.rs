//! Routes of a process and their router. A mounted path that cannot work is refused when the router is
//! built.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use punctual::{Error, Punctual, Result};
use tokio::sync::Semaphore;

use crate::{events, health, status};

/// Default number of concurrent listeners to the events of a process.
pub const LISTENERS_MAX_DEFAULT: usize = 100;

/// First segments of the built-in paths.
const BUILT_IN_PATHS: [&str; 3] = ["/health", "/status", "/events"];

/// Builder of the routes of a process.
#[must_use = "routes have no effect until they are built and nested"]
pub struct Routes {
    punctual: Arc<Punctual>,
    only_health: bool,
    listeners_max: usize,
    mounted: Vec<(String, Router<Arc<Punctual>>)>,
}

/// State of the built-in routes.
#[derive(Clone)]
pub(crate) struct RouteState {
    pub(crate) punctual: Arc<Punctual>,
    pub(crate) listeners: Arc<Semaphore>,
}

/// Returns all routes of a process, for nesting under a path of the application.
///
/// Fails for a process that was built without a storage, because it has nothing to show.
pub fn router<S: Clone + Send + Sync + 'static>(punctual: &Arc<Punctual>) -> Result<Router<S>> {
    Routes::new(punctual).build()
}

impl Routes {
    /// Creates the routes for health, status and events.
    pub fn new(punctual: &Arc<Punctual>) -> Self {
        Self {
            punctual: punctual.clone(),
            only_health: false,
            listeners_max: LISTENERS_MAX_DEFAULT,
            mounted: Vec::new(),
        }
    }

    /// Keeps the health routes only, for a public port.
    pub fn only_health(mut self) -> Self {
        self.only_health = true;
        self
    }

    /// Limits the concurrent listeners to events; a further one gets 503 with `Retry-After`.
    pub fn listeners_max(mut self, count: usize) -> Self {
        self.listeners_max = count;
        self
    }

    /// Adds a router of the application under a path. Its state is the process, so its handlers can use
    /// [`Client`](crate::Client).
    pub fn mount(mut self, path: impl Into<String>, router: Router<Arc<Punctual>>) -> Self {
        self.mounted.push((path.into(), router));
        self
    }

    /// Builds the router, for an application with any state.
    pub fn build<S: Clone + Send + Sync + 'static>(self) -> Result<Router<S>> {
        if !self.punctual.has_storage() {
            return Err(Error::unsupported(
                "health, status and events read the storage, and this process was built without_storage(); omit the routes",
            ));
        }
        check(&self.mounted)?;
        let mut router = Router::new()
            .route("/health", get(health::health))
            .route("/health/live", get(health::live))
            .route("/health/ready", get(health::ready));
        if !self.only_health {
            router =
                router.route("/status", get(status::status)).route("/events", get(events::events));
        }
        let listeners = Arc::new(Semaphore::new(self.listeners_max.min(Semaphore::MAX_PERMITS)));
        let shared = RouteState { punctual: self.punctual.clone(), listeners };
        // Responses describe this moment and must not be cached.
        let mut router = router.layer(map_response(uncached)).with_state(shared);
        for (path, mounted) in self.mounted {
            router = router.nest(&path, mounted.with_state(self.punctual.clone()));
        }
        Ok(router)
    }
}

async fn uncached(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Fails for paths that the router would not accept, and for overlapping ones.
fn check(mounted: &[(String, Router<Arc<Punctual>>)]) -> Result<()> {
    let paths: Vec<&str> = mounted.iter().map(|(path, _)| path.as_str()).collect();
    for (index, path) in paths.iter().enumerate() {
        let is_plain = path.len() > 1
            && path.starts_with('/')
            && !path.ends_with('/')
            && !path.contains(['{', '}', '*', ':', '?', '#']);
        if !is_plain {
            return Err(Error::invalid(format!(
                "nothing can be mounted at {path:?}; give a plain path such as \"/dashboard\""
            )));
        }
        let others = BUILT_IN_PATHS.iter().chain(&paths[..index]);
        if let Some(other) = others.into_iter().find(|other| overlap(path, other)) {
            return Err(Error::conflict(format!(
                "{path:?} cannot be mounted beside {other:?}; give it a path of its own"
            )));
        }
    }
    Ok(())
}

/// Returns whether one path equals the other or is below it.
fn overlap(one: &str, other: &str) -> bool {
    let under = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    under(one, other) || under(other, one)
}
