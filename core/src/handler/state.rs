//! States: values that handlers share, by type. The builder stores each once, and a handler takes it as [`State`].
//! The build of a process fails when a required state is missing.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::codec::Codecs;
use crate::error::{Error, Result};

/// A value of [`Builder::state`](crate::Builder::state) as an argument of a handler.
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

/// The states of a process, at most one of each type.
#[derive(Default)]
pub struct States {
    values: HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
    duplicate: Option<&'static str>,
    codecs: Arc<Codecs>,
}

impl States {
    /// Adds a value. [`States::checked`] reports a second value of the same type.
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        let name = type_name::<T>();
        if self.values.insert(TypeId::of::<T>(), (name, Arc::new(value))).is_some() {
            self.duplicate = Some(name);
        }
    }

    pub(crate) fn checked(self) -> Result<Self> {
        match self.duplicate {
            None => Ok(self),
            Some(name) => Err(Error::conflict(format!(
                "two states of the type {name} were given to the builder; wrap one of them in a type of its own"
            ))),
        }
    }

    /// Sets the codecs that deserialize bodies.
    pub(crate) fn with_codecs(mut self, codecs: Codecs) -> Self {
        self.codecs = Arc::new(codecs);
        self
    }

    pub(crate) fn codecs(&self) -> &Arc<Codecs> {
        &self.codecs
    }

    /// Returns the value of a type.
    pub(crate) fn get<T: Clone + 'static>(&self) -> Option<T> {
        let (_, value) = self.values.get(&TypeId::of::<T>())?;
        value.downcast_ref::<T>().cloned()
    }

    /// Returns the value of a type; fails when it is missing.
    pub(crate) fn require<T: Clone + 'static>(&self) -> Result<T> {
        self.get().ok_or_else(|| missing(type_name::<T>()))
    }

    pub(crate) fn check(&self, needs: &RequiredStates) -> Result<()> {
        match needs.types.iter().find(|(id, _)| !self.values.contains_key(id)) {
            None => Ok(()),
            Some((_, name)) => Err(missing(name)),
        }
    }
}

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.values.values().map(|(name, _)| name)).finish()
    }
}

fn missing(name: &str) -> Error {
    Error::invalid(format!(
        "needs a state of the type {name}, which the builder does not have; add state(value) before build()"
    ))
}

/// The states that an extractor requires.
#[derive(Debug, Default)]
pub struct RequiredStates {
    types: Vec<(TypeId, &'static str)>,
}

impl RequiredStates {
    /// Requires the state of a type, which [`Context::state`](crate::Context::state) then returns.
    pub fn state<T: Clone + Send + Sync + 'static>(&mut self) {
        self.types.push((TypeId::of::<T>(), type_name::<T>()));
    }
}
