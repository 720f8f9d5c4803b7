//! Which routes there are, and putting them together. What was mounted and cannot work is refused when
//! the router is built, by its path.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use punctual::{Error, Punctual, Result};
use tokio::sync::Semaphore;

use crate::{events, health, status};

/// How many may listen to the events of a process at once, unless told otherwise.
pub const LISTENERS_MAX_DEFAULT: usize = 100;

/// What begins the paths of our own.
const OWN: [&str; 3] = ["/health", "/status", "/events"];

/// The routes of a process, on their way into a router.
#[must_use = "routes are nowhere until they are built and nested"]
pub struct Routes {
    punctual: Arc<Punctual>,
    only_health: bool,
    listeners_max: usize,
    mounted: Vec<(String, Router<Arc<Punctual>>)>,
}

/// What every route knows.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) punctual: Arc<Punctual>,
    pub(crate) listeners: Arc<Semaphore>,
}

/// All routes of a process, for nesting under a path of the application: one call, and they are there.
///
/// Refused for a process that was built without a storage, because there is nothing it could tell.
pub fn router<S: Clone + Send + Sync + 'static>(punctual: &Arc<Punctual>) -> Result<Router<S>> {
    Routes::new(punctual).build()
}

impl Routes {
    /// Health, status and events.
    pub fn new(punctual: &Arc<Punctual>) -> Self {
        Self {
            punctual: punctual.clone(),
            only_health: false,
            listeners_max: LISTENERS_MAX_DEFAULT,
            mounted: Vec::new(),
        }
    }

    /// Health alone, for a port that everybody reaches.
    pub fn only_health(mut self) -> Self {
        self.only_health = true;
        self
    }

    /// How many may listen to events at once; the next one is told to come again later.
    pub fn listeners_max(mut self, count: usize) -> Self {
        self.listeners_max = count;
        self
    }

    /// Something else beside them, under a path: views and commands that are made of the clients of this
    /// process, which they find as their state, also by [`Client`](crate::Client).
    pub fn mount(mut self, path: impl Into<String>, router: Router<Arc<Punctual>>) -> Self {
        self.mounted.push((path.into(), router));
        self
    }

    /// The router, for an application with whatever state.
    pub fn build<S: Clone + Send + Sync + 'static>(self) -> Result<Router<S>> {
        if !self.punctual.has_storage() {
            return Err(Error::unsupported(
                "health, status and events are about what is stored, and this process was built without_storage(); leave the routes out",
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
        let shared = Shared { punctual: self.punctual.clone(), listeners };
        // Answers about this moment are of no use in the next.
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

/// Refuses paths that the router would not take, and those that hide each other.
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
        let others = OWN.iter().chain(&paths[..index]);
        if let Some(other) = others.into_iter().find(|other| overlap(path, other)) {
            return Err(Error::conflict(format!(
                "{path:?} cannot be mounted beside {other:?}; give it a path of its own"
            )));
        }
    }
    Ok(())
}

/// Whether one path is the other, or lies under it.
fn overlap(one: &str, other: &str) -> bool {
    let under = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    under(one, other) || under(other, one)
}
