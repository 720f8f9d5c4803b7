//! A trial: one attempt of a handler in a unit test, without a queue, and without a storage that
//! outlives it. Arguments, states, timeout guard and panic guard are those of a real attempt.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde::Serialize;

use super::{Context, ContextParts, IntoHandler, Said, Signal, State, States, Unbound};
use crate::builtin::ManualClock;
use crate::clock::Clock;
use crate::engine::{Registration, handle};
use crate::error::Result;
use crate::model::{
    Body, ExecutionId, Headers, JobName, Key, Message, MessageId, Occurrence, Priority, Queue,
    Recording, Source, Terms, Topic, Trail,
};
use crate::policy::Report;
use crate::punctual::Builder;
