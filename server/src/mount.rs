//! Embedding: the dashboard and its API as a part of an application's own router.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::http::StatusCode;
use axum::http::request::Parts as RequestParts;
use punctual::backend::documents::DocumentStore;
use punctual::{Inspect, Punctual, Storage};
use tokio::runtime::Handle;

use crate::app::{App, AppParts};
use crate::auth::Authenticate;
use crate::background::run_background;
use crate::caller::{Caller, Role};
use crate::problem::Problem;
use crate::router::router;

type Rule = dyn Fn(&RequestParts) -> Option<Caller> + Send + Sync;

/// Access to an embedded dashboard. It has no default, because a caller of a dashboard sees every payload, and with a
/// higher role can stop all work.
#[derive(Clone)]
pub struct Access(Arc<Rule>);

impl Access {
    /// Authenticates callers by a function of the request: a header, a cookie, or an extension set by a layer of the
    /// application. None is refused.
    ///
    /// ```
    /// use punctual_server::{Access, Caller, Role};
    ///
    /// let access = Access::by(|request| {
    ///     let user = request.headers.get("x-user")?.to_str().ok()?;
    ///     Some(Caller::new(user, if user == "ada" { Role::Admin } else { Role::Viewer }))
    /// });
    /// ```
    pub fn by(rule: impl Fn(&RequestParts) -> Option<Caller> + Send + Sync + 'static) -> Self {
        Self(Arc::new(rule))
    }

    /// Gives every caller this role. For a router that only users of that role can reach.
    pub fn for_all(role: Role) -> Self {
        Self::by(move |_| Some(Caller::new("everybody", role)))
    }

    /// Gives every caller read access.
    pub fn read_only() -> Self {
        Self::for_all(Role::Viewer)
    }
}

#[async_trait]
impl Authenticate for Access {
    async fn authenticate(&self, request: &RequestParts) -> Result<Option<Caller>, Problem> {
        // Refused, not `None`: the other ways of authentication belong to a standalone server.
        let refused = || {
            let sentence = "this application does not allow access to its dashboard; log in to the application first";
            Problem::new(StatusCode::FORBIDDEN, sentence)
        };
        (self.0)(request).map(Some).ok_or_else(refused)
    }
}

/// Returns the dashboard with its API, to be mounted in an application's own router. `storage` is the one that
/// `punctual` was built with. Mount it with `nest_service`, because its address ends with a slash:
///
/// ```
/// # use std::sync::Arc;
/// # use punctual::{MemoryStorage, Punctual, SystemClock};
/// use axum::Router;
/// use punctual_server::{Access, dashboard};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> punctual::Result<()> {
/// # let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
/// # let punctual = Arc::new(Punctual::builder().storage(storage.clone()).build()?);
/// let app: Router =
///     Router::new().nest_service("/punctual", dashboard(&punctual, &storage, Access::read_only()));
/// # Ok(())
/// # }
/// ```
///
/// Within a runtime it also starts the background tasks of a dashboard until the process stops: figures for the
/// charts, this process in the list of workers, and pauses of queues requested on other processes.
pub fn dashboard<S>(punctual: &Arc<Punctual>, storage: &Arc<S>, access: Access) -> Router
where
    S: Storage + Inspect + DocumentStore,
{
    let app = App::new(AppParts {
        punctual: punctual.clone(),
        storage: storage.clone(),
        inspect: storage.clone(),
        documents: storage.clone(),
        clock: punctual.clock(),
    })
    .authenticating_with(Arc::new(access));
    match Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(run_background(app.clone()));
        }
        Err(_) => {
            tracing::warn!(
                "the dashboard was created outside of a tokio runtime; its charts stay empty"
            );
        }
    }
    router(app)
}
