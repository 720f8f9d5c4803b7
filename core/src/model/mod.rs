//! Plain records that everything may import. No I/O, no clock, no runtime: a reader who knows this
//! folder knows what Punctual remembers.

mod body;
mod execution;
mod headers;
mod id;
mod job;
mod lease;
pub(crate) mod length;
mod message;
mod name;
mod occurrence;
mod state;
mod terms;
mod ties;

pub(crate) use body::JSON;
pub use body::{Body, CONTENT_TYPE_UNKNOWN, PAYLOAD_MAX_DEFAULT};
pub(crate) use execution::folded;
pub use execution::{Ending, Execution, SkipReason};
pub(crate) use headers::noted;
pub use headers::{HEADER_VALUE_MAX, HEADERS_MAX, Headers};
pub(crate) use id::mix;
pub use id::{BatchId, ExecutionId, IdSource, Ids, MessageId, ProcessId};
pub use job::{Job, JobPhase, JobRecord, Origin, Overrides, Pause, Retirement, Steer};
pub use lease::{Lease, LeaseRef};
pub use message::{Assignment, Message, MessageRecord, Progress, Source, Trail};
pub use name::{
    IntoTopic, JobName, Key, NAME_LENGTH_MAX, Priority, Queue, SYSTEM_TOPICS, Topic, TransportName,
};
pub use occurrence::{MisfireFacts, Occurrence};
pub use state::{DeadReason, Phase, State, StateChange, TRANSITIONS, render_states};
pub use terms::{OnTimeout, Recording, Rescue, Terms};
pub use ties::{
    CHAIN_DEPTH_MAX, CHAIN_LENGTH_MAX, Limit, Link, LinkOn, Parent, Rate, Ties, Unique,
};
