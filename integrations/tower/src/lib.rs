//! Layers of [tower](https://docs.rs/tower) around attempts: a timeout, a limit, load shedding, or one of
//! your own, given to the builder as middleware.
//!
//! ```
//! use std::time::Duration;
//! use punctual::{Outcome, Punctual};
//! use punctual_tower::layered;
//! use tower::ServiceBuilder;
//! use tower::load_shed::error::Overloaded;
//!
//! let layers = ServiceBuilder::new()
//!     .load_shed()
//!     .concurrency_limit(4)
//!     .timeout(Duration::from_secs(30));
//! let punctual = Punctual::builder()
//!     .middleware(layered(layers))
//!     // Overload is no failure: retried in a second, and no attempt is spent.
//!     .on_error(|_: &Overloaded| Some(Outcome::Snooze(Duration::from_secs(1))))
//!     .handler("mail", async |to: String| println!("to {to}"))
//!     .build();
//! assert!(punctual.is_ok());
//! ```
//!
//! A layer receives an [`Attempt`], which has the context, and returns an
//! [`Outcome`](punctual::Outcome) or an error. Errors of layers are failures like any other, and
//! [`Builder::on_error`](punctual::Builder::on_error) finds them by their type.
//!
//! # What not to do with a layer
//!
//! **Retries.** An attempt cannot be cloned, so a layer cannot run it twice, and should not: it would
//! wait in a slot of the queue, lose its state with the process, and count attempts that are not
//! stored. A failed attempt makes the message due again, by its
//! [`Retry`](punctual::Retry) policy, and the slot is free meanwhile.
//!
//! **Limits of the cluster.** A layer limits one process, and an attempt that waits in it occupies a slot.
//! [`Publish::limit`](punctual::client::Publish::limit) and `rate` are for all processes, and messages above
//! them are not claimed.
//!
//! **The timeout of a message.** A layer that times out drops the handler immediately. A timeout of the
//! handler's options cancels it first, and is in the history as a timeout.

mod attempt;
mod middleware;

pub use attempt::{Attempt, AttemptError, BoxError, InnerService};
pub use middleware::{TowerMiddleware, layered};
