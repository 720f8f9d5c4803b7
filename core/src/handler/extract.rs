//! Extractors: arguments of a handler by type. A first argument that can be deserialized from a body is the payload;
//! all others are created from the context.

use std::future::Future;

use serde::de::DeserializeOwned;

use super::payload::{fact, read};
use super::state::{RequiredStates, State, States};
use super::{Cancellation, Context, HandlerError};
use crate::codec::Codecs;
use crate::error::Result;
use crate::model::{
    ExecutionId, Headers, JobName, Key, Message, MessageId, Occurrence, Source, Topic,
};
use crate::sending::Publisher;

/// A type that a handler may take as an argument after its payload, or instead of one.
///
/// It is created for every attempt and dropped with it. When it cannot be created the attempt fails with the text
/// of the error.
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
    /// Creates it for one attempt.
    fn from_context(
        context: &Context,
    ) -> impl Future<Output = std::result::Result<Self, HandlerError>> + Send;

    /// Declares the states that it reads from the context, so that the build of a process fails when one is
    /// missing.
    fn needs(_: &mut RequiredStates) {}
}

/// Marker: the argument is deserialized from the message body.
#[derive(Debug)]
pub struct ViaPayload;
/// Marker: the argument is created from the context.
#[derive(Debug)]
pub struct ViaContext;
/// Marker: the argument is a state of the builder.
#[derive(Debug)]
pub struct ViaState;
/// Marker: the argument is a property of the message. Not [`ViaContext`], because these types can also be
/// deserialized from a body, and are when they are the first argument.
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
    /// Value that is bound when the process is built.
    type Ready: Send + Sync + 'static;
    /// Value that is deserialized from the message before the context exists.
    type Read: Send + 'static;

    /// Binds the required states, once.
    fn ready(states: &States) -> Result<Self::Ready>;
    /// Deserializes the message; fails when it does not match.
    fn read(message: &Message, codecs: &Codecs) -> Result<Self::Read>;
    /// Returns the argument for one attempt.
    fn take(
        read: Self::Read,
        ready: &Self::Ready,
        context: &Context,
    ) -> impl Future<Output = std::result::Result<Self, HandlerError>> + Send;
}

/// An argument of a handler after the first. `Via` is inferred.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` as an argument",
    label = "not an extractor",
    note = "the payload comes first; it is followed by extractors such as `Context` and `State<T>`, see `punctual::handler`"
)]
pub trait Argument<Via>: Sized + Send + 'static {
    /// Value that is bound when the process is built.
    type Ready: Send + Sync + 'static;

    /// Binds the required states, once.
    fn ready(states: &States) -> Result<Self::Ready>;
    /// Returns the argument for one attempt.
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
        states.require()
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
        states.require()
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
