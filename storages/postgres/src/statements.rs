//! Statements by name, each in a file of its own, with the schema's name inserted once.

use crate::sql_parts::with_parts;

/// Statement: its number in the cache of a connection, and its text.
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
            /// Builds the statements; `id` is the expression for the id of an attempt by its place in a batch.
            fn build(schema: &str, id: &str) -> Self {
                let mut numbers = 0..;
                let mut next = |text: &str| Sql {
                    number: numbers.next().unwrap_or_default(),
                    text: with_parts(text).replace("{id}", id).replace("{schema}", schema),
                };
                let mut statements = Self {
                    $($name: next(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                };
                statements.store_one.text.insert_str(0, &statements.store.text);
                statements
            }
        }
    };
}

impl Statements {
    pub(crate) fn new(schema: &str) -> Self {
        Self::build(schema, ID)
    }

    /// Builds the statements for attempts that may be in the history already; the message of such an attempt is
    /// not.
    pub(crate) fn careful(schema: &str) -> Self {
        let mut careful = Self::build(schema, ID_ONCE);
        for sql in
            [&mut careful.settle_again, &mut careful.settle_dead, &mut careful.settle_finished]
        {
            sql.number += CAREFUL;
        }
        careful
    }
}

const ID: &str = "($3::uuid[])[n]";
const ID_ONCE: &str = "(SELECT ($3::uuid[])[n] WHERE NOT EXISTS (SELECT 1 FROM {schema}.history h \
    WHERE h.id = ($3::uuid[])[n] AND h.ended_at = ($6::timestamptz[])[n]))";

/// First number of the careful statements in the cache of a connection.
const CAREFUL: usize = 100;

statements! {
    alive
    append
    batches_alive
    batches_end
    batches_wait
    heartbeat
    insert_dead
    cancel_pending
    claim
    claim_with_limits
    document_expire
    document_get
    document_list
    document_list_back
    document_put
    document_put_new
    document_put_version
    document_remove
    document_version
    due_jobs
    ended
    extend
    reserved_keys
    reserve_keys
    insert
    job_records
    jobs_alive
    jobs_blocking
    jobs_lock
    update_jobs
    save_progress
    insert_finished
    ended_in_range
    ended_ids
    limited_candidates
    next_due
    next_expiry
    prune_dead
    prune_history
    prune_keys
    prune_processes
    prune_rates
    queue_running
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
