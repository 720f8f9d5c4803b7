//! The dashboard and its API as a part of an application's own router.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::http::StatusCode;
use axum::http::request::Parts as RequestParts;
use punctual::documents::DocumentStore;
use punctual::{Inspect, Punctual, Storage};
use tokio::runtime::Handle;

use crate::app::{App, Parts};
use crate::auth::Authenticate;
use crate::background::attend;
use crate::caller::{Caller, Role};
use crate::problem::Problem;
use crate::router::router;

type Rule = dyn Fn(&RequestParts) -> Option<Caller> + Send + Sync;

/// Who may do what with a dashboard that is part of an application. It has no default, because whoever
/// reaches a dashboard can see every payload, and with a larger role stop all work.
#[derive(Clone)]
pub struct Access(Arc<Rule>);

impl Access {
    /// The application says who calls, by what it has put into the request: a header, a cookie, or an
    /// extension that its own layers have set. None is refused.
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

    /// Everybody who gets here has this role. For a router that only people of that role reach.
    pub fn everybody(role: Role) -> Self {
        Self::by(move |_| Some(Caller::new("everybody", role)))
    }

    /// Everybody who gets here sees everything and changes nothing.
    pub fn read_only() -> Self {
        Self::everybody(Role::Viewer)
    }
}

#[async_trait]
impl Authenticate for Access {
    async fn authenticate(&self, request: &RequestParts) -> Result<Option<Caller>, Problem> {
        // Not "somebody else may know": the other ways belong to a server of its own.
        let refused = || {
            let sentence =
                "this application does not let you see its dashboard; log in to it first";
            Problem::new(StatusCode::FORBIDDEN, sentence)
        };
        (self.0)(request).map(Some).ok_or_else(refused)
    }
}

/// The dashboard with its API, to be mounted in an application's own router. `storage` is the one that
/// `punctual` was built with. Mount it with `nest_service`, for its address ends with a slash:
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
/// Within a runtime it also begins what a dashboard lives on, until the process stops: figures for the
/// charts, this process in the list of workers, and pauses of queues that other processes asked for.
pub fn dashboard<S>(punctual: &Arc<Punctual>, storage: &Arc<S>, access: Access) -> Router
where
    S: Storage + Inspect + DocumentStore,
{
    let app = App::new(Parts {
        punctual: punctual.clone(),
        storage: storage.clone(),
        inspect: storage.clone(),
        documents: storage.clone(),
        clock: punctual.clock(),
    })
    .authenticating_with(Arc::new(access));
    match Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn(attend(app.clone()));
        }
        Err(_) => {
            tracing::warn!("the dashboard was made outside of a runtime; its charts stay empty");
        }
    }
    router(app)
}
