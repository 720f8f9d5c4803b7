//! Functions as handlers. Function, arguments and returned type are three separate traits, so that a compiler error
//! names what is wrong: an argument, or the returned type.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::arguments::{Arguments, WholeContext};
use super::state::States;
use super::{AnyHandler, Context, Handler, HandlerResult, IntoOutcome, Outcome, Prepared};
use crate::codec::Codecs;
use crate::error::Result;
use crate::model::Message;

/// A callable with a list of arguments: a function, a closure, or a type that implements [`Handler`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a function with up to nine arguments, and no type that implements `Handler`",
    note = "a handler is an `async fn` whose arguments are taken by value: the payload, then up to eight extractors",
    note = "name the types of a closure's arguments; wrap a plain `fn` in `punctual::blocking`"
)]
pub trait Function<A> {
    /// The returned future, whose output implements [`IntoOutcome`].
    type Future;

    /// Calls it.
    fn call(this: &Arc<Self>, arguments: A) -> Self::Future;

    /// Returns whether a handler that returns without a report has failed.
    fn must_report(&self) -> bool {
        false
    }
}

macro_rules! functions {
    ($($Type:ident),*) => {
        impl<Call, Returned, $($Type),*> Function<($($Type,)*)> for Call
        where
            Call: Fn($($Type),*) -> Returned,
        {
            type Future = Returned;

            #[allow(non_snake_case)] // a variable per type, named like it
            fn call(this: &Arc<Self>, ($($Type,)*): ($($Type,)*)) -> Returned {
                this($($Type),*)
            }
        }
    };
}

functions!();
functions!(A);
functions!(A, B);
functions!(A, B, C);
functions!(A, B, C, D);
functions!(A, B, C, D, E);
functions!(A, B, C, D, E, F);
functions!(A, B, C, D, E, F, G);
functions!(A, B, C, D, E, F, G, H);
functions!(A, B, C, D, E, F, G, H, I);

impl<M: Send + 'static, H: Handler<M>> Function<WholeContext<M>> for H {
    type Future = BoxFuture<'static, HandlerResult>;

    fn call(this: &Arc<Self>, WholeContext { message, context }: WholeContext<M>) -> Self::Future {
        let this = this.clone();
        Box::pin(async move { this.handle(message, context).await })
    }
}

/// A handler that a builder accepts. Not meant to be implemented: write an `async fn`, a closure, or a type that
/// implements [`Handler`]. `A` and `Via` are inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is an `async fn`, a closure that returns a future, or a type that implements `punctual::Handler`"
)]
pub trait IntoHandler<A, Via> {
    /// Returns the handler, not yet bound to its states.
    fn into_handler(self) -> UnboundHandler;
}

impl<H, A, Via> IntoHandler<A, Via> for H
where
    H: Function<A> + Send + Sync + 'static,
    H::Future: Future + Send + 'static,
    <H::Future as Future>::Output: IntoOutcome,
    A: Arguments<Via>,
    Via: 'static,
{
    fn into_handler(self) -> UnboundHandler {
        let must_report = self.must_report();
        let bind = move |states: &States| {
            let ready = A::ready(states)?;
            let (function, codecs) = (Arc::new(self), states.codecs().clone());
            let bound = Bound { function, ready, codecs, arguments: PhantomData };
            Ok(Arc::new(bound) as Arc<dyn AnyHandler>)
        };
        UnboundHandler { bind: Box::new(bind), must_report }
    }
}

/// Binds a handler to its states.
type Bind = Box<dyn FnOnce(&States) -> Result<Arc<dyn AnyHandler>> + Send + Sync>;

/// A handler that is not yet bound to its states.
pub struct UnboundHandler {
    bind: Bind,
    must_report: bool,
}

impl UnboundHandler {
    /// Binds the handler to its states; returns it and whether it must report.
    pub(crate) fn bind(self, states: &States) -> Result<(Arc<dyn AnyHandler>, bool)> {
        Ok(((self.bind)(states)?, self.must_report))
    }

    /// Requires the handler to report.
    pub(crate) fn reporting(mut self, must_report: bool) -> Self {
        self.must_report |= must_report;
        self
    }
}

impl std::fmt::Debug for UnboundHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnboundHandler")
            .field("must_report", &self.must_report)
            .finish_non_exhaustive()
    }
}

/// A function with the bound states of its arguments.
struct Bound<H, A: Arguments<Via>, Via> {
    function: Arc<H>,
    ready: A::Ready,
    codecs: Arc<Codecs>,
    arguments: PhantomData<fn(Via) -> A>,
}

impl<H, A, Via> AnyHandler for Bound<H, A, Via>
where
    H: Function<A> + Send + Sync + 'static,
    H::Future: Future + Send + 'static,
    <H::Future as Future>::Output: IntoOutcome,
    A: Arguments<Via>,
    Via: 'static,
{
    fn prepare(&self, message: &Message) -> Result<Prepared<'_>> {
        let read = A::read(message, &self.codecs)?;
        Ok(Box::new(move |context| {
            Box::pin(async move {
                let arguments = A::take(read, &self.ready, &context).await?;
                let request = Some(context).filter(Context::expects_reply);
                let outcome = H::call(&self.function, arguments).await.into_outcome()?;
                if let (Outcome::Done, Some(context)) = (&outcome, request) {
                    context.reply_with_result().await?;
                }
                Ok(outcome)
            })
        }))
    }
}
