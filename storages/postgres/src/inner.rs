//! What all calls share: the pool, the statements, the news, and the way a call is made: on one
//! connection, within a time, and again when somebody else was merely faster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual::clock::{add, within};
use punctual::storage::Line;
use punctual::{Clock, Error, ErrorKind, Result};
use tokio::sync::Mutex;
use tokio_postgres::types::Type;

use crate::commits::Commits;
use crate::failure::Failure;
use crate::marks::Marks;
use crate::migrate::{self, Schema};
use crate::news::{self, News};
use crate::pool::{Held, Pool};
use crate::statements::Statements;

/// The most times a call is made again because of others.
const TRIES_MAX: u32 = 25;
/// How long others wait for the second of two notifications about one line.
const NOTICE_INTERVAL: std::time::Duration = std::time::Duration::from_millis(10);
/// The most notifications in one statement.
const NOTICES_MAX: usize = 1_000;

/// The state behind a storage.
pub(crate) struct Inner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) schema: Schema,
    pub(crate) sql: Statements,
    /// For what may be there already.
    pub(crate) careful: Statements,
    pub(crate) news: News,
    pub(crate) marks: Marks,
    pub(crate) commits: Commits,
    pub(crate) sender: u64,
    pub(crate) channel: String,
    pub(crate) hears: AtomicBool,
    is_ready: AtomicBool,
    becoming_ready: Mutex<()>,
}

/// What one call has behind it.
#[derive(Default)]
pub(crate) struct Tries(pub(crate) u32);

/// Makes a call on a connection, and again when it was merely unlucky. The work may see how often it
/// was tried before.
macro_rules! attempt {
    ($inner:expr, |$held:ident, $tries:ident| $work:expr) => {{
        let inner = &$inner;
        inner.ready().await?;
        let mut tries = $crate::inner::Tries::default();
        loop {
            let mut held = inner.connection().await?;
            let answer = {
                let $held: &mut $crate::session::Session<'_> = &mut held;
                let $tries = tries.0;
                inner.bounded($work).await
            };
            if let Some(answer) = inner.ended(held, answer, &mut tries).await {
                break answer;
            }
        }
    }};
    ($inner:expr, |$held:ident| $work:expr) => {
        attempt!($inner, |$held, _tries| $work)
    };
}
pub(crate) use attempt;

impl Inner {
    pub(crate) fn new(pool: Arc<Pool>, clock: Arc<dyn Clock>, schema: Schema, sender: u64) -> Self {
        Self {
            pool,
            clock,
            sql: Statements::new(&schema.quoted),
            careful: Statements::careful(&schema.quoted),
            channel: format!("punctual {}", schema.name),
            schema,
            news: News::default(),
            marks: Marks::default(),
            commits: Commits::default(),
            sender,
            hears: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            becoming_ready: Mutex::default(),
        }
    }

    /// Makes sure that the tables are there; after the first success it costs nothing.
    pub(crate) async fn ready(&self) -> Result<()> {
        if self.is_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        Box::pin(self.prepare()).await.map_err(later)
    }

    /// Looks at the tables and makes them. Errors keep their kind.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let _turn = self.becoming_ready.lock().await;
        if self.is_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut tries = Tries::default();
        loop {
            let mut held = self.pool.get().await?;
            let answer = self
                .bounded(async {
                    migrate::migrate(&mut held, &self.schema).await?;
                    self.make_days(&mut held).await
                })
                .await;
            if let Some(answer) = self.ended(held, answer, &mut tries).await {
                answer?;
                break;
            }
        }
        self.is_ready.store(true, Ordering::Release);
        Ok(())
    }

    /// A connection for a call; one that cannot be had is had later.
    pub(crate) async fn connection(&self) -> Result<Held> {
        self.pool.get().await.map_err(later)
    }

    /// Waits for a call, but not for ever.
    pub(crate) async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let until = add(self.clock.now(), self.pool.patience());
        within(&*self.clock, until, work).await.unwrap_or_else(|| {
            Err(Failure::Answer(Error::unavailable("PostgreSQL did not answer in time")))
        })
    }

    /// Gives the connection back and says what the call came to; nothing means: again.
    pub(crate) async fn ended<T>(
        &self,
        mut held: Held,
        answer: Result<T, Failure>,
        tries: &mut Tries,
    ) -> Option<Result<T>> {
        let failure = match answer {
            Ok(answer) => {
                held.give_back();
                return Some(Ok(answer));
            }
            Err(failure) => failure,
        };
        if failure.is_connection() {
            // Whatever broke this one has most likely broken those that wait as well.
            self.pool.clear();
        } else if matches!(&failure, Failure::Database(_) | Failure::Raced)
            && (!held.is_open() || self.bounded(held.roll_back()).await.is_ok())
        {
            held.give_back();
        }
        tries.0 += 1;
        if failure.is_pooler() && self.pool.is_auto && tries.0 < TRIES_MAX {
            if !self.pool.unnamed.swap(true, Ordering::Relaxed) {
                tracing::info!(
                    "a pooler gives each transaction another session; statements are not prepared any more"
                );
            }
            return None;
        }
        if failure.is_passing() && tries.0 < TRIES_MAX {
            return None;
        }
        Some(Err(failure.into_error()))
    }

    /// Something of a line is due at an instant: rings here, and for others in a moment.
    pub(crate) fn tell(self: &Arc<Self>, line: Line, due_at: i64) {
        self.heard(Some(&line), due_at);
        if self.news.keep(line, due_at) {
            let inner = Arc::clone(self);
            tokio::spawn(async move { inner.send_news().await });
        }
    }

    /// Something of a line is due at an instant, here or elsewhere.
    pub(crate) fn heard(&self, line: Option<&Line>, due_at: i64) {
        match line {
            None => self.heard_nothing(),
            Some(line) => {
                if let Line::Queue(queue) = line {
                    self.marks.forget(queue, due_at);
                }
                self.news.ring(line, due_at);
            }
        }
    }

    /// Nobody knows what was missed: everybody looks.
    pub(crate) fn heard_nothing(&self) {
        self.marks.forget_all();
        self.news.ring_all();
    }

    /// Tells other processes until there is nothing more to tell: the first at once, then at most one
    /// for each line in a while. What cannot be told is found by those who look.
    async fn send_news(&self) {
        loop {
            let news = self.news.take();
            if news.is_empty() {
                return;
            }
            for some in news.chunks(NOTICES_MAX) {
                let notes: Vec<String> =
                    some.iter().map(|(line, due)| news::written(self.sender, line, *due)).collect();
                if let Err(error) = self.notify(&notes).await {
                    tracing::debug!(%error, "other processes were not told; they will look");
                }
            }
            self.clock.sleep_until(add(self.clock.now(), NOTICE_INTERVAL)).await;
        }
    }

    /// Says something only we listen to.
    pub(crate) async fn call_oneself(&self) -> Result<()> {
        self.notify(&[news::written(self.sender, &Line::Leases, i64::MAX)]).await
    }

    async fn notify(&self, notes: &[String]) -> Result<()> {
        // Nothing is lost that matters when the server falls before this is on its disk.
        let query = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, note) \
                     FROM unnest($2::text[]) AS note";
        attempt!(self, |held| async {
            let params: [crate::value::Param<'_>; 2] =
                [(&self.channel, Type::TEXT), (&notes, Type::TEXT_ARRAY)];
            held.ask(query, &params).await.map(|_| ())
        })
    }
}

/// While the process runs, whatever keeps it from connecting may be mended outside.
fn later(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Unsupported => error,
        _ => Error::unavailable(error.to_string()).caused_by(error),
    }
}
