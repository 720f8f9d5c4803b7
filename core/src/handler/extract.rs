//! Extractors: what a handler asks for by the types of its arguments. The first argument that can be
//! read from a body is the payload; everything else comes from the context.

use std::future::Future;

use serde::de::DeserializeOwned;

use super::payload::{fact, read};
use super::state::{RequiredStates, State, States};
use super::{Cancellation, Context, HandlerError};
use crate::client::Publisher;
use crate::codec::Codecs;
use crate::error::Result;
use crate::model::{
    ExecutionId, Headers, JobName, Key, Message, MessageId, Occurrence, Source, Topic,
};

/// Something a handler may take as an argument after its payload, or instead of one.
///
/// It is made anew for every attempt and dropped with it. When it cannot be made the attempt fails,
/// with the text of the error.
///
/// ```
/// use punctual::handler::RequiredStates;
/// use punctual::{Context, FromContext, HandlerError, Punctual};
///
/// struct Tenant(String);
///
/// impl FromContext for Tenant {
///     async fn from_context(context: &Context) -> Result<Self, HandlerError> {
///         let name = context.headers().get("tenant").ok_or("the header `tenant` is missing")?;
///         Ok(Self(name.to_owned()))
///     }
/// }
///
/// async fn charge(order: u64, tenant: Tenant) {
///     println!("{} pays order {order}", tenant.0);
/// }
///
/// let punctual = Punctual::builder().handler("charge", charge).build();
/// assert!(punctual.is_ok());
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` from its context",
    label = "not an extractor",
    note = "behind the payload stand `Context`, `State<T>`, `Publisher`, `MessageId`, `ExecutionId`, `Topic`, `Source`, `Headers`, `Key`, `JobName`, `Occurrence` (the last three also as `Option`), `Cancellation`, and what implements `punctual::FromContext`",
    note = "to share a value, give it to the builder with `state` and take `State<{Self}>`"
)]
pub trait FromContext: Sized + Send + 'static {
    /// Makes it for one attempt.
    fn from_context(
        context: &Context,
    ) -> impl Future<Output = std::result::Result<Self, HandlerError>> + Send;

    /// Says which states it asks the context for, so that a missing one fails when the process is
    /// built.
    fn needs(_: &mut RequiredStates) {}
}

/// How an argument is come by: read from the body.
#[derive(Debug)]
pub struct ViaPayload;
/// How an argument is come by: made from the context.
#[derive(Debug)]
pub struct ViaContext;
/// How an argument is come by: given to the builder.
#[derive(Debug)]
pub struct ViaState;
/// How an argument is come by: a fact of the message. Not [`ViaContext`], because these types can
/// also be read from a body, and as a first argument they are.
#[derive(Debug)]
pub struct ViaFact;

/// The first argument of a handler: the payload, or an extractor. `Via` is inferred.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` as its first argument",
    label = "neither a payload nor an extractor",
    note = "a payload implements `serde::Deserialize` and is taken by value; an extractor implements `punctual::FromContext`; what is shared is `State<T>`",
    note = "a type that is both a payload and an extractor may only stand behind the payload"
)]
pub trait FirstArgument<Via>: Sized + Send + 'static {
    /// What is known before anything runs.
    type Ready: Send + Sync + 'static;
    /// What is read from the message before the context exists.
    type Read: Send + 'static;

    /// Takes what it needs from the states, once.
    fn ready(states: &States) -> Result<Self::Ready>;
    /// Reads the message; fails when it does not fit.
    fn read(message: &Message, codecs: &Codecs) -> Result<Self::Read>;
    /// The argument for one attempt.
    fn take(
        read: Self::Read,
        ready: &Self::Ready,
        context: &Context,
    ) -> impl Future<Output = std::result::Result<Self, HandlerError>> + Send;
}

/// An argument of a handler behind the first. `Via` is inferred.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` as an argument",
    label = "not an extractor",
    note = "the payload comes first; behind it stand extractors such as `Context` and `State<T>`, see `punctual::handler`"
)]
pub trait Argument<Via>: Sized + Send + 'static {
    /// What is known before anything runs.
    type Ready: Send + Sync + 'static;

    /// Takes what it needs from the states, once.
    fn ready(states: &States) -> Result<Self::Ready>;
    /// The argument for one attempt.
    fn take(
        ready: &Self::Ready,
        context: &Context,
    ) -> impl Future<Output = std::result::Result<Self, HandlerError>> + Send;
}

impl<T: DeserializeOwned + Send + 'static> FirstArgument<ViaPayload> for T {
    type Ready = ();
    type Read = T;

    fn ready(_: &States) -> Result<()> {
        Ok(())
    }

    fn read(message: &Message, codecs: &Codecs) -> Result<T> {
        read(message, codecs)
    }

    async fn take(read: T, (): &(), _: &Context) -> std::result::Result<Self, HandlerError> {
        Ok(read)
    }
}

impl<T: FromContext> FirstArgument<ViaContext> for T {
    type Ready = ();
    type Read = ();

    fn ready(states: &States) -> Result<()> {
        <T as Argument<ViaContext>>::ready(states)
    }

    fn read(_: &Message, _: &Codecs) -> Result<()> {
        Ok(())
    }

    async fn take((): (), (): &(), context: &Context) -> std::result::Result<Self, HandlerError> {
        T::from_context(context).await
    }
}

impl<T: Clone + Send + Sync + 'static> FirstArgument<ViaState> for State<T> {
    type Ready = T;
    type Read = ();

    fn ready(states: &States) -> Result<T> {
        states.need()
    }

    fn read(_: &Message, _: &Codecs) -> Result<()> {
        Ok(())
    }

    async fn take((): (), ready: &T, _: &Context) -> std::result::Result<Self, HandlerError> {
        Ok(Self(ready.clone()))
    }
}

impl<T: FromContext> Argument<ViaContext> for T {
    type Ready = ();

    fn ready(states: &States) -> Result<()> {
        let mut needs = RequiredStates::default();
        T::needs(&mut needs);
        states.check(&needs)
    }

    async fn take((): &(), context: &Context) -> std::result::Result<Self, HandlerError> {
        T::from_context(context).await
    }
}

impl<T: Clone + Send + Sync + 'static> Argument<ViaState> for State<T> {
    type Ready = T;

    fn ready(states: &States) -> Result<T> {
        states.need()
    }

    async fn take(ready: &T, _: &Context) -> std::result::Result<Self, HandlerError> {
        Ok(Self(ready.clone()))
    }
}

impl FromContext for Context {
    async fn from_context(context: &Context) -> std::result::Result<Self, HandlerError> {
        Ok(context.clone())
    }
}

impl FromContext for Publisher {
    async fn from_context(context: &Context) -> std::result::Result<Self, HandlerError> {
        Ok(context.publisher())
    }
}

impl FromContext for Cancellation {
    async fn from_context(context: &Context) -> std::result::Result<Self, HandlerError> {
        Ok(context.cancellation())
    }
}

macro_rules! facts {
    ($($type:ty),* $(,)?) => {$(
        impl Argument<ViaFact> for $type {
            type Ready = ();

            fn ready(_: &States) -> Result<()> {
                Ok(())
            }

            async fn take((): &(), context: &Context) -> std::result::Result<Self, HandlerError> {
                let message = &context.parts().message;
                fact::<$type>(message).ok_or_else(|| missing::<$type>(message))
            }
        }
    )*};
}

facts!(
    MessageId,
    Topic,
    Source,
    Headers,
    Key,
    Option<Key>,
    JobName,
    Option<JobName>,
    Occurrence,
    Option<Occurrence>,
);

impl Argument<ViaFact> for ExecutionId {
    type Ready = ();

    fn ready(_: &States) -> Result<()> {
        Ok(())
    }

    async fn take((): &(), context: &Context) -> std::result::Result<Self, HandlerError> {
        Ok(context.execution_id())
    }
}

fn missing<T>(message: &Message) -> HandlerError {
    let name = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    HandlerError::new(format!(
        "the message {} has no {name}; take Option<{name}> where it may be missing",
        message.id
    ))
}
