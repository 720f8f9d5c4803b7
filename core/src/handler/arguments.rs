//! The arguments of a handler as one list: what they need is taken once, when the process is built;
//! the payload is read before the attempt begins, and the rest is made when it does.

use std::future::Future;

use super::extract::{Argument, FirstArgument};
use super::state::States;
use super::{Context, HandlerError, ViaPayload};
use crate::codec::Codecs;
use crate::error::Result;
use crate::model::Message;

/// A list of arguments: nothing, or a first one and up to eight more. `Via` is inferred.
pub trait Arguments<Via>: Sized + Send + 'static {
    /// What is known before anything runs.
    type Ready: Send + Sync + 'static;
    /// What is read from the message before the attempt begins.
    type Read: Send + 'static;

    /// Takes what they need from the states, once.
    fn ready(states: &States) -> Result<Self::Ready>;
    /// Reads the message; fails when it does not fit.
    fn read(message: &Message, codecs: &Codecs) -> Result<Self::Read>;
    /// The arguments for one attempt.
    fn take(
        read: Self::Read,
        ready: &Self::Ready,
        context: &Context,
    ) -> impl Future<Output = std::result::Result<Self, HandlerError>> + Send;
}

impl Arguments<()> for () {
    type Ready = ();
    type Read = ();

    fn ready(_: &States) -> Result<()> {
        Ok(())
    }

    fn read(_: &Message, _: &Codecs) -> Result<()> {
        Ok(())
    }

    async fn take((): (), (): &(), _: &Context) -> std::result::Result<(), HandlerError> {
        Ok(())
    }
}

macro_rules! arguments {
    ($First:ident $FirstVia:ident $(, $Rest:ident $RestVia:ident)*) => {
        impl<$First, $FirstVia $(, $Rest, $RestVia)*> Arguments<($FirstVia, $($RestVia,)*)>
            for ($First, $($Rest,)*)
        where
            $First: FirstArgument<$FirstVia>,
            $($Rest: Argument<$RestVia>,)*
        {
            type Ready = ($First::Ready, $($Rest::Ready,)*);
            type Read = $First::Read;

            fn ready(states: &States) -> Result<Self::Ready> {
                Ok(($First::ready(states)?, $($Rest::ready(states)?,)*))
            }

            fn read(message: &Message, codecs: &Codecs) -> Result<Self::Read> {
                $First::read(message, codecs)
            }

            #[allow(non_snake_case)] // a variable per type, named like it
            async fn take(
                read: Self::Read,
                ($First, $($Rest,)*): &Self::Ready,
                context: &Context,
            ) -> std::result::Result<Self, HandlerError> {
                Ok((
                    named::<$First>($First::take(read, $First, context).await)?,
                    $(named::<$Rest>($Rest::take($Rest, context).await)?,)*
                ))
            }
        }
    };
}

arguments!(A VA);
arguments!(A VA, B VB);
arguments!(A VA, B VB, C VC);
arguments!(A VA, B VB, C VC, D VD);
arguments!(A VA, B VB, C VC, D VD, E VE);
arguments!(A VA, B VB, C VC, D VD, E VE, F VF);
arguments!(A VA, B VB, C VC, D VD, E VE, F VF, G VG);
arguments!(A VA, B VB, C VC, D VD, E VE, F VF, G VG, H VH);
arguments!(A VA, B VB, C VC, D VD, E VE, F VF, G VG, H VH, I VI);

/// Says which argument could not be had.
fn named<T>(taken: std::result::Result<T, HandlerError>) -> std::result::Result<T, HandlerError> {
    taken.map_err(|error| {
        let name = std::any::type_name::<T>();
        HandlerError::new(format!("the handler's argument {name} could not be had: {error}"))
    })
}

/// What a type that implements [`Handler`](super::Handler) is called with.
#[derive(Debug)]
pub struct WholeContext<M> {
    pub(super) message: M,
    pub(super) context: Context,
}

impl<M: FirstArgument<ViaPayload>> Arguments<ViaPayload> for WholeContext<M> {
    type Ready = M::Ready;
    type Read = M::Read;

    fn ready(states: &States) -> Result<Self::Ready> {
        M::ready(states)
    }

    fn read(message: &Message, codecs: &Codecs) -> Result<Self::Read> {
        M::read(message, codecs)
    }

    async fn take(
        read: Self::Read,
        ready: &Self::Ready,
        context: &Context,
    ) -> std::result::Result<Self, HandlerError> {
        let message = M::take(read, ready, context).await?;
        Ok(Self { message, context: context.clone() })
    }
}

/// The arguments of a function inside something that changes how it is called, such as
/// [`blocking`](super::blocking).
#[derive(Debug)]
pub struct WrappedArguments<A> {
    pub(super) arguments: A,
    pub(super) context: Context,
}

impl<A: Arguments<V>, V> Arguments<V> for WrappedArguments<A> {
    type Ready = A::Ready;
    type Read = A::Read;

    fn ready(states: &States) -> Result<Self::Ready> {
        A::ready(states)
    }

    fn read(message: &Message, codecs: &Codecs) -> Result<Self::Read> {
        A::read(message, codecs)
    }

    async fn take(
        read: Self::Read,
        ready: &Self::Ready,
        context: &Context,
    ) -> std::result::Result<Self, HandlerError> {
        let arguments = A::take(read, ready, context).await?;
        Ok(Self { arguments, context: context.clone() })
    }
}
