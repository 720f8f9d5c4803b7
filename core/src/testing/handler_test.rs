//! Handler test: one attempt of a handler in a unit test, without a queue and with a storage in memory. Arguments,
//! states, middleware, panic guard and the reporting contract are those of a real attempt; the clock does not advance.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde::Serialize;

use crate::builtin::ManualClock;
use crate::declared::{Declare, DeclaredJob};
use crate::engine::{Process, handle};
use crate::error::Result;
use crate::handler::{AttemptReports, Context, ContextParts, IntoHandler, Signal, UnboundHandler};
use crate::model::{
    Body, Correlation, HandlerOptions, Headers, Ids, JobName, Key, Message, Occurrence, Priority,
    Queue, Source, Topic,
};
use crate::policy::AttemptEnd;
use crate::punctual::{Builder, Punctual};
use crate::sending::Publisher;

const TOPIC: &str = "handler-test";

/// Unit test of a handler: builds the message and the context of one attempt and runs it.
///
/// ```
/// use punctual::testing::HandlerTest;
/// use punctual::policy::AttemptEnd;
/// use punctual::{Context, State};
///
/// async fn charge(order: u64, State(limit): State<u64>, context: Context) -> Result<(), String> {
///     if order > limit {
///         return Err(format!("order {order} is too large"));
///     }
///     context.report_success("charged");
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> punctual::Result<()> {
/// let result = HandlerTest::new().state(100_u64).payload(&7).run(charge).await?;
/// assert_eq!(result.report, AttemptEnd::Done);
/// assert_eq!(result.note(), Some("charged".into()));
///
/// let result = HandlerTest::new().state(100_u64).payload(&700).run(charge).await?;
/// assert_eq!(result.report, AttemptEnd::Failed { error: "order 700 is too large".into() });
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens until it is run"]
pub struct HandlerTest {
    builder: Builder,
    at: Timestamp,
    body: Result<Body>,
    key: Option<Result<Key>>,
    job: Option<Result<JobName>>,
    headers: Result<Headers>,
    attempt: u32,
    handler_options: HandlerOptions,
}

/// The result of a handler test.
#[derive(Clone, Debug)]
pub struct HandlerTestResult {
    /// The end of the attempt.
    pub report: AttemptEnd,
    /// The context of the attempt, with its progress, log lines and reports.
    pub context: Context,
}

impl HandlerTestResult {
    /// Returns the note of the history: the error, or the message of a reported success.
    pub fn note(&self) -> Option<Arc<str>> {
        match (&self.report, self.context.reported()) {
            (
                AttemptEnd::Failed { error }
                | AttemptEnd::Panicked { error }
                | AttemptEnd::Poison { error },
                _,
            ) => Some(error.clone()),
            (AttemptEnd::Discard { reason }, _) => Some(reason.clone()),
            (AttemptEnd::Done, Some(crate::handler::SelfReport::Success(text)))
                if !text.is_empty() =>
            {
                Some(text)
            }
            _ => None,
        }
    }
}

impl Default for HandlerTest {
    fn default() -> Self {
        Self {
            builder: Punctual::builder(),
            at: Timestamp::UNIX_EPOCH,
            body: Ok(Body::empty()),
            key: None,
            job: None,
            headers: Ok(Headers::new()),
            attempt: 1,
            handler_options: HandlerOptions::default(),
        }
    }
}

impl HandlerTest {
    /// Creates a first attempt at the epoch, without a payload.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a state; see [`Builder::state`].
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.builder = self.builder.state(value);
        self
    }

    /// Changes the builder of the process, as for middleware.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Sets the payload.
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Self {
        self.body = Body::json(payload);
        self
    }

    /// Sets the key of the message.
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        self.key = Some(Key::new(key));
        self
    }

    /// Adds a header to the message.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Ok(headers) = &mut self.headers
            && let Err(error) = headers.insert(name, value)
        {
            self.headers = Err(error);
        }
        self
    }

    /// Makes the message a run of this job, with the time of the test as its nominal time.
    pub fn job(mut self, name: impl AsRef<str>) -> Self {
        self.job = Some(JobName::new(name));
        self
    }

    /// Sets the time of the test.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = now;
        self
    }

    /// Sets the number of the attempt, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Sets the options of the message, such as its retries.
    pub fn handler_options(mut self, handler_options: HandlerOptions) -> Self {
        self.handler_options = handler_options;
        self
    }

    /// Runs a handler once.
    pub async fn run<A, Via>(self, handler: impl IntoHandler<A, Via>) -> Result<HandlerTestResult> {
        self.run_unbound(handler.into_handler()).await
    }

    /// Runs the handler of a declared job once.
    pub async fn run_declared<D: Declare>(mut self) -> Result<HandlerTestResult> {
        let DeclaredJob { job, handler } = D::declared();
        if self.job.is_none() {
            self.job = Some(JobName::new(job.name()));
        }
        let handler = handler.reporting(job.reports());
        self.run_unbound(handler).await
    }

    /// Returns the context alone, to call a function directly.
    pub fn context(mut self) -> Result<Context> {
        let builder = std::mem::take(&mut self.builder);
        let process = self.process(builder)?;
        let message = Arc::new(self.message(&process)?);
        Ok(context(&process, message, &self))
    }

    async fn run_unbound(mut self, handler: UnboundHandler) -> Result<HandlerTestResult> {
        let builder = std::mem::take(&mut self.builder).unbound(TOPIC, handler);
        let process = self.process(builder)?;
        let message = Arc::new(self.message(&process)?);
        let context = context(&process, message.clone(), &self);
        let handler_options = process.runner.option_layers.effective(&message, None);
        let report = handle(&process, &message, &handler_options, &context).await;
        // `None` only when a lease is lost, and a test has no lease.
        Ok(HandlerTestResult { report: report.unwrap_or(AttemptEnd::Interrupted), context })
    }

    fn process(&self, builder: Builder) -> Result<Arc<Process>> {
        let builder = builder.clock(Arc::new(ManualClock::new(self.at)));
        Ok(builder.ids(Arc::new(Ids::seeded(1))).build()?.process().clone())
    }

    fn message(&mut self, process: &Process) -> Result<Message> {
        let job = self.job.take().transpose()?;
        let source = if job.is_some() { Source::Scheduled } else { Source::Published };
        let nominal = self.at;
        Ok(Message {
            id: process.env.message_id(self.at),
            topic: Topic::new(TOPIC)?,
            queue: Queue::default(),
            priority: Priority::default(),
            due_at: self.at,
            created_at: self.at,
            source,
            key: self.key.take().transpose()?,
            dedupe: None,
            exclusive: false,
            body: std::mem::replace(&mut self.body, Ok(Body::empty()))?,
            headers: std::mem::replace(&mut self.headers, Ok(Headers::new()))?,
            correlation: Correlation::default(),
            occurrence: job.map(|job| Occurrence { job, nominal, schedule: None, misfire: None }),
            handler_options: Some(Arc::new(self.handler_options.clone())),
            relations: None,
            route: None,
        })
    }
}

impl std::fmt::Debug for HandlerTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerTest").field("at", &self.at).finish_non_exhaustive()
    }
}

fn context(process: &Arc<Process>, message: Arc<Message>, test: &HandlerTest) -> Context {
    let handler_options = process.runner.option_layers.effective(&message, None);
    Context::new(ContextParts {
        message,
        execution: process.env.execution_id(test.at),
        attempt: test.attempt,
        attempts_max: handler_options.retry.attempts_max,
        crashes: 0,
        started_at: test.at,
        due_at: test.at,
        process: process.env.id,
        lease: None,
        lease_until: Mutex::new(None),
        recording: handler_options.recording,
        settles: AtomicBool::new(false),
        cancellation: Signal::default(),
        publisher: Publisher::new(process.sender.clone()),
        events: process.env.events.clone(),
        published: AtomicU32::new(0),
        reports: AttemptReports::default(),
        slots: None,
        checkpoint: None,
        result: Mutex::new(None),
    })
}
