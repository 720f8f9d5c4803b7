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
            /// `id` is how the id of an attempt is found by its place in a batch.
            fn made(schema: &str, id: &str) -> Self {
                let mut numbers = 0..;
                let mut next = |text: &str| Sql {
                    number: numbers.next().unwrap_or_default(),
                    text: with_parts(text).replace("{id}", id).replace("{schema}", schema),
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

/// Puts in what several statements say of a message `m`.
fn with_parts(text: &str) -> String {
    let fits = include_str!("../sql/parts/fits.sql").trim_end();
    text.replace("{turn}", include_str!("../sql/parts/turn.sql").trim_end())
        .replace("{first}", include_str!("../sql/parts/first.sql").trim_end())
        .replace("{alone}", include_str!("../sql/parts/alone.sql").trim_end())
        .replace("{others}", &fits.replace("m.topic", "e.topic"))
        .replace("{fits}", fits)
        .replace("{among}", include_str!("../sql/parts/among.sql").trim_end())
}

impl Statements {
    pub(crate) fn new(schema: &str) -> Self {
        Self::made(schema, ID)
    }

    /// The same for attempts that may be in the history already; what ends with them is not.
    pub(crate) fn careful(schema: &str) -> Self {
        let mut careful = Self::made(schema, ID_ONCE);
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

/// Where the careful statements begin in the cache of a connection.
const CAREFUL: usize = 100;

statements! {
    alive
    append
    batches_alive
    batches_end
    batches_wait
    beat
    bury
    cancel_pending
    claim
    claim_in_turn
    document_expire
    document_get
    document_list
    document_list_back
    document_put
    document_put_new
    document_put_seen
    document_remove
    document_version
    due_jobs
    ended
    extend
    held_keys
    hold_keys
    insert
    job_records
    jobs_alive
    jobs_in_the_way
    jobs_lock
    jobs_move
    keep
    keep_finished
    known
    known_exactly
    limited
    next_due
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
