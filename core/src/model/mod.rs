//! Model: plain records that every module may import. No I/O, no clock, no runtime. This folder defines
//! everything that Punctual stores.

mod body;
pub(crate) mod duration_text;
mod execution;
mod handler_options;
mod headers;
mod id;
mod job;
mod lease;
mod message;
mod message_pause;
mod name;
mod occurrence;
mod relations;
mod state;

pub(crate) use body::JSON;
pub use body::{Body, CONTENT_TYPE_UNKNOWN, PAYLOAD_MAX_DEFAULT};
pub(crate) use execution::skip_note;
pub use execution::{Ending, Execution, SkipReason};
pub use handler_options::{HandlerOptions, OnTimeout, Recording, Rescue, WhenInterrupted};
pub(crate) use headers::reserved_headers;
pub use headers::{HEADER_VALUE_MAX, HEADERS_MAX, Headers};
pub(crate) use id::mix;
pub use id::{BatchId, ExecutionId, IdSource, Ids, MessageId, ProcessId};
pub use job::{Job, JobCommand, JobPhase, JobRecord, Origin, Overrides, Pause, Retirement};
pub use lease::{Lease, LeaseRef};
pub use message::{Assignment, Correlation, Message, MessageRecord, Progress, Source};
pub use message_pause::{DueTime, END_OF_TIME, MessagePause};
pub use name::{
    IntoTopic, JobName, Key, NAME_LEN_MAX, Priority, Queue, SYSTEM_TOPICS, Topic, TransportName,
};
pub use occurrence::{MisfireFacts, Occurrence};
pub use relations::{
    CHAIN_DEPTH_MAX, CHAIN_MESSAGES_MAX, Limit, Link, LinkOn, Parent, Rate, Relations, Unique,
};
pub use state::{DeadReason, MessageState, Phase, StateChange, TRANSITIONS, render_states};
