//! The statements by name, each in a file of its own, with the schema's name put in once.

/// A statement: its place in the cache of a connection, and its text.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) number: usize,
    pub(crate) text: String,
}

macro_rules! statements {
    ($($name:ident)*) => {
        /// Every statement for one schema.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: Sql,)*
        }

        impl Statements {
            /// `once` is what an execution that may be there already needs, and costs.
            fn made(schema: &str, once: &str) -> Self {
                let mut numbers = 0..;
                let mut next = |text: &str| Sql {
                    number: numbers.next().unwrap_or_default(),
                    text: text.replace("{schema}", schema).replace("{once}", once),
                };
                let mut made = Self {
                    $($name: next(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                };
                made.store_one.text.insert_str(0, &made.store.text);
                made
            }
        }
    };
}

impl Statements {
    pub(crate) fn new(schema: &str) -> Self {
        Self::made(schema, "")
    }

    /// The same for executions that may be there already.
    pub(crate) fn careful(schema: &str) -> Self {
        let mut careful = Self::made(schema, "ON CONFLICT DO NOTHING");
        for sql in
            [&mut careful.settle_again, &mut careful.settle_dead, &mut careful.settle_finished]
        {
            sql.number += CAREFUL;
        }
        careful
    }
}

/// Where the careful statements begin in the cache of a connection.
const CAREFUL: usize = 100;

statements! {
    alive
    append
    beat
    bury
    cancel_pending
    claim
    due_jobs
    ended
    extend
    insert
    job_records
    jobs_alive
    jobs_lock
    jobs_move
    keep_finished
    known
    known_exactly
    next_due
    prune_dead
    prune_executions
    prune_finished
    prune_processes
    reclaim
    remove_alive
    remove_ended
    settle_again
    settle_dead
    settle_finished
    store
    store_one
    waiting_queues
}
