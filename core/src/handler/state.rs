//! What handlers share, by type: given to the builder once, taken as [`State`]. What a handler needs is
//! known before anything runs, so a missing one fails when the process is built.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::codec::Codecs;
use crate::error::{Error, Result};

/// A value that was given to [`Builder::state`](crate::Builder::state), as an argument of a handler.
///
/// ```
/// use punctual::{Punctual, State};
///
/// #[derive(Clone)]
/// struct Database;
///
/// async fn charge(order: u64, State(database): State<Database>) { /* ... */ }
///
/// let punctual = Punctual::builder().state(Database).handler("charge", charge).build();
/// assert!(punctual.is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Every state of a process, at most one of a type.
#[derive(Default)]
pub struct States {
    kept: HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
    doubled: Option<&'static str>,
    codecs: Arc<Codecs>,
}

impl States {
    /// Keeps a value; a second one of the same type is a mistake that [`States::checked`] reports.
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        let name = type_name::<T>();
        if self.kept.insert(TypeId::of::<T>(), (name, Arc::new(value))).is_some() {
            self.doubled = Some(name);
        }
    }

    pub(crate) fn checked(self) -> Result<Self> {
        match self.doubled {
            None => Ok(self),
            Some(name) => Err(Error::conflict(format!(
                "two states of the type {name} were given to the builder; wrap one of them in a type of its own"
            ))),
        }
    }

    /// What bodies are read with.
    pub(crate) fn reading_with(mut self, codecs: Codecs) -> Self {
        self.codecs = Arc::new(codecs);
        self
    }

    pub(crate) fn codecs(&self) -> &Arc<Codecs> {
        &self.codecs
    }

    /// The value of a type.
    pub(crate) fn get<T: Clone + 'static>(&self) -> Option<T> {
        let (_, value) = self.kept.get(&TypeId::of::<T>())?;
        value.downcast_ref::<T>().cloned()
    }

    /// The same where it must be there.
    pub(crate) fn need<T: Clone + 'static>(&self) -> Result<T> {
        self.get().ok_or_else(|| missing(type_name::<T>()))
    }

    pub(crate) fn check(&self, needs: &RequiredStates) -> Result<()> {
        match needs.types.iter().find(|(id, _)| !self.kept.contains_key(id)) {
            None => Ok(()),
            Some((_, name)) => Err(missing(name)),
        }
    }
}

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.kept.values().map(|(name, _)| name)).finish()
    }
}

fn missing(name: &str) -> Error {
    Error::invalid(format!(
        "needs a state of the type {name}, and the builder was given none; add state(value) before build()"
    ))
}

/// The states an extractor asks for.
#[derive(Debug, Default)]
pub struct RequiredStates {
    types: Vec<(TypeId, &'static str)>,
}

impl RequiredStates {
    /// Asks for the state of a type, which [`Context::state`](crate::Context::state) then gives.
    pub fn state<T: Clone + Send + Sync + 'static>(&mut self) {
        self.types.push((TypeId::of::<T>(), type_name::<T>()));
    }
}
