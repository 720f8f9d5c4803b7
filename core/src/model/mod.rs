//! Model: plain records that every module may import. No I/O, no clock, no runtime. This folder defines
//! everything that Punctual stores.

mod body;
mod capabilities;
pub(crate) mod duration_text;
mod execution;
mod handler_options;
mod headers;
mod id;
mod job;
mod lease;
mod message;
mod message_pause;
mod misfire;
mod name;
mod occurrence;
mod overlap;
mod relations;
mod retry;
mod route;
mod spelling;
mod state;
pub(crate) mod time;

pub(crate) use body::JSON;
pub use body::{Body, CONTENT_TYPE_UNKNOWN, PAYLOAD_MAX_DEFAULT};
pub use capabilities::{AcknowledgeMode, AttemptCount, Capabilities, Delay, Ordering};
pub(crate) use execution::skip_note;
pub use execution::{Ending, Execution, SkipReason};
pub use handler_options::{HandlerOptions, OnTimeout, Recording, Rescue, WhenInterrupted};
pub(crate) use headers::reserved_headers;
pub use headers::{HEADER_VALUE_MAX, HEADERS_MAX, Headers};
pub(crate) use id::mix;
pub use id::{BatchId, ExecutionId, IdSource, Ids, MessageId, ProcessId};
pub use job::{Job, JobCommand, JobPhase, JobRecord, Origin, Overrides, Pause, Retirement};
pub use lease::{Lease, LeaseRef};
pub(crate) use message::INTERRUPTED_ERROR;
pub use message::{Assignment, Correlation, Message, MessageKind, MessageRecord, Progress, Source};
pub use message_pause::{DueTime, END_OF_TIME, MessagePause};
pub(crate) use misfire::{CATCH_UP_LIMIT, THRESHOLD_DEFAULT};
pub use misfire::{Misfire, MisfirePolicy, Threshold, ThresholdOrigin};
pub use name::{
    GROUP_DEFAULT, IntoTopic, JobName, Key, NAME_LEN_MAX, Priority, Queue, SYSTEM_TOPICS, Topic,
    TransportName,
};
pub use occurrence::{MisfireFacts, Occurrence};
pub use overlap::Overlap;
pub use relations::{Limit, Link, LinkOn, Parent, Rate, Relations, Unique};
pub use retry::{BackOffKind, Retry, RetryFacts};
pub use route::Route;
pub(crate) use spelling::normalized;
#[doc(hidden)]
pub use state::render_states;
pub use state::{DeadReason, MessageState, Phase, StateChange};
