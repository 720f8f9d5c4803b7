//! Arguments of a handler as one list. States are bound once, when the process is built; the payload is
//! deserialized before the attempt begins, and the extractors run when it does.

use std::future::Future;

use super::extract::{Argument, FirstArgument, ViaPayload};
use super::state::States;
use super::{Context, HandlerError};
use crate::codec::Codecs;
use crate::error::Result;
use crate::model::Message;

/// A list of up to nine arguments. `Via` is inferred.
pub trait Arguments<Via>: Sized + Send + 'static {
    /// Values that are bound when the process is built.
    type Ready: Send + Sync + 'static;
    /// Values that are deserialized from the message before the attempt begins.
    type Read: Send + 'static;

    /// Binds the required states, once.
    fn ready(states: &States) -> Result<Self::Ready>;
    /// Deserializes the message; fails when it does not match.
    fn read(message: &Message, codecs: &Codecs) -> Result<Self::Read>;
    /// Returns the arguments for one attempt.
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
                    name_argument::<$First>($First::take(read, $First, context).await)?,
                    $(name_argument::<$Rest>($Rest::take($Rest, context).await)?,)*
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

/// Adds the type of the argument to an error of its extraction.
fn name_argument<T>(
    argument: std::result::Result<T, HandlerError>,
) -> std::result::Result<T, HandlerError> {
    argument.map_err(|error| {
        let name = std::any::type_name::<T>();
        HandlerError::new(format!("the handler's argument {name} could not be extracted: {error}"))
    })
}

/// The arguments of a type that implements [`Handler`](super::Handler).
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

/// The arguments of a function in a wrapper that changes how it is called, such as
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
