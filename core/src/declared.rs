//! Declared jobs: the declarations that `#[job]` generates for functions, and their discovery.

use crate::client::JobBuilder;
use crate::handler::{IntoHandler, UnboundHandler};

/// A job and its handler, declared by `#[job]` on a function.
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

/// A job that was declared by [`#[job]`](crate::job) on a function. The attribute generates a type with the
/// function's name that implements this trait; the function itself is unchanged.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a declared job",
    note = "put `#[punctual::job(name = \"...\", cron = \"...\")]` on the function and import it by its name"
)]
pub trait Declare: 'static {
    /// Returns the job and its handler.
    fn declared() -> DeclaredJob;
}

/// A declaration that is registered for discovery.
#[cfg(feature = "discovery")]
#[derive(Debug)]
#[doc(hidden)]
pub struct DiscoveredJob {
    pub(crate) identity: fn() -> std::any::TypeId,
    pub(crate) declared: fn() -> DeclaredJob,
}

#[cfg(feature = "discovery")]
impl DiscoveredJob {
    /// Creates the declaration of a type.
    #[must_use]
    pub const fn of<D: Declare>() -> Self {
        Self { identity: std::any::TypeId::of::<D>, declared: D::declared }
    }
}

#[cfg(feature = "discovery")]
inventory::collect!(DiscoveredJob);

/// Returns every declaration of the program, ordered by name so that the order is the same in every build.
#[cfg(feature = "discovery")]
pub(crate) fn discovered_jobs() -> Vec<&'static DiscoveredJob> {
    let mut jobs: Vec<&'static DiscoveredJob> = inventory::iter::<DiscoveredJob>().collect();
    jobs.sort_by_cached_key(|job| (job.declared)().job.name().to_owned());
    jobs
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

/// Does nothing: without the feature `discovery` a declaration has to be registered explicitly.
#[cfg(not(feature = "discovery"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __discoverable {
    ($type:ty) => {};
}
