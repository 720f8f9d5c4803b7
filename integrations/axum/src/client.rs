//! Client extractors: handlers of the web application take a client of Punctual as an argument.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use punctual::{Admin, Jobs, Publisher, Punctual};

/// A client of the process as an argument of a handler: `Client<Publisher>`, `Client<Jobs>` or
/// `Client<Admin>`.
///
/// The state of the router is an `Arc<Punctual>`, or implements `FromRef` for it:
///
/// ```
/// use std::sync::Arc;
/// use axum::Router;
/// use axum::extract::FromRef;
/// use axum::routing::get;
/// use punctual::{Admin, Punctual};
/// use punctual_axum::Client;
///
/// #[derive(Clone)]
/// struct Shop {
///     punctual: Arc<Punctual>,
///     name: &'static str,
/// }
///
/// impl FromRef<Shop> for Arc<Punctual> {
///     fn from_ref(shop: &Shop) -> Self {
///         shop.punctual.clone()
///     }
/// }
///
/// async fn depth(Client(admin): Client<Admin>) -> String {
///     admin.health().await.queue_depth.to_string()
/// }
///
/// # fn main() -> punctual::Result<()> {
/// let shop = Shop { punctual: Arc::new(Punctual::builder().build()?), name: "corner" };
/// let app: Router = Router::new().route("/depth", get(depth)).with_state(shop);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Client<T>(pub T);

/// A client that a process provides: [`Admin`], [`Jobs`] or [`Publisher`].
pub trait ProcessClient: sealed::Sealed + Sized {
    /// Returns the client of a process.
    fn of(punctual: &Punctual) -> Self;
}

macro_rules! clients {
    ($($client:ty, $method:ident;)*) => {
        $(impl sealed::Sealed for $client {}

        impl ProcessClient for $client {
            fn of(punctual: &Punctual) -> Self {
                punctual.$method()
            }
        })*
    };
}

clients! {
    Admin, admin;
    Jobs, jobs;
    Publisher, publisher;
}

mod sealed {
    pub trait Sealed {}
}

impl<S, T> FromRequestParts<S> for Client<T>
where
    S: Send + Sync,
    T: ProcessClient,
    Arc<Punctual>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(T::of(&Arc::<Punctual>::from_ref(state))))
    }
}
