//! Declared jobs: what `#[job]` makes of a function, and how discovery finds all of them.

use crate::client::JobBuilder;
use crate::handler::{IntoHandler, UnboundHandler};

/// A job with its handler, as `#[job]` on a function declares it.
#[derive(Debug)]
pub struct DeclaredJob {
    pub(crate) job: JobBuilder,
    pub(crate) handler: UnboundHandler,
}

impl DeclaredJob {
    /// Creates a declared job from a job and its handler. `#[job]` calls this; by hand use
    /// [`Builder::job`](crate::Builder::job).
    pub fn new<A, Via>(job: JobBuilder, handler: impl IntoHandler<A, Via>) -> Self {
        Self { job, handler: handler.into_handler() }
    }
}

/// A job that was declared by [`#[job]`](crate::job) on a function. The attribute makes a type of the
/// function's name that implements this; the function itself stays what it was.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a declared job",
    note = "put `#[punctual::job(name = \"...\", cron = \"...\")]` on the function and import it by its name"
)]
pub trait Declare: 'static {
    /// The job and its handler.
    fn declared() -> DeclaredJob;
}

/// A declaration that discovery finds.
#[cfg(feature = "discovery")]
#[derive(Debug)]
#[doc(hidden)]
pub struct DiscoveredJob {
    pub(crate) identity: fn() -> std::any::TypeId,
    pub(crate) declared: fn() -> DeclaredJob,
}

#[cfg(feature = "discovery")]
impl DiscoveredJob {
    /// The declaration of a type.
    #[must_use]
    pub const fn of<D: Declare>() -> Self {
        Self { identity: std::any::TypeId::of::<D>, declared: D::declared }
    }
}

#[cfg(feature = "discovery")]
inventory::collect!(DiscoveredJob);

/// Returns every declaration of the program, ordered by name, which is the same in every build.
#[cfg(feature = "discovery")]
pub(crate) fn found() -> Vec<&'static DiscoveredJob> {
    let mut found: Vec<&'static DiscoveredJob> = inventory::iter::<DiscoveredJob>().collect();
    found.sort_by_cached_key(|found| (found.declared)().job.name().to_owned());
    found
}

#[cfg(feature = "discovery")]
#[doc(hidden)]
pub use inventory;

/// Registers a declaration for discovery. For `#[job]`.
#[cfg(feature = "discovery")]
#[doc(hidden)]
#[macro_export]
macro_rules! __discoverable {
    ($type:ty) => {
        $crate::declared::inventory::submit! { $crate::declared::DiscoveredJob::of::<$type>() }
    };
}

/// Does nothing: without the feature `discover` a declaration has to be registered by hand.
#[cfg(not(feature = "discovery"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __discoverable {
    ($type:ty) => {};
}
