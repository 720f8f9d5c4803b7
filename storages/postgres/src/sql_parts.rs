//! Parts of statements that several of them share, each in a file of its own and inserted by its name.

/// Parts in the order they are inserted: one may contain those after it.
const PARTS: [(&str, &str); 9] = [
    ("{append_attempts}", include_str!("../sql/parts/append_attempts.sql")),
    ("{delete_running}", include_str!("../sql/parts/delete_running.sql")),
    ("{due_unlimited}", include_str!("../sql/parts/due_unlimited.sql")),
    ("{grant_leases}", include_str!("../sql/parts/grant_leases.sql")),
    ("{claimed_columns}", include_str!("../sql/parts/claimed_columns.sql")),
    ("{not_blocked}", include_str!("../sql/parts/not_blocked.sql")),
    ("{first_exclusive}", include_str!("../sql/parts/first_exclusive.sql")),
    ("{exclusive_order}", include_str!("../sql/parts/exclusive_order.sql")),
    ("{in_topics}", include_str!("../sql/parts/in_topics.sql")),
];
/// Condition on the topic of a message `m`, which is also inserted for a message `e`.
const TOPIC_FITS: &str = include_str!("../sql/parts/topic_fits.sql");

/// Inserts the parts into a statement.
pub(crate) fn with_parts(text: &str) -> String {
    let mut whole = text.to_owned();
    for (name, part) in PARTS {
        whole = whole.replace(name, part.trim_end());
    }
    let fits = TOPIC_FITS.trim_end();
    whole
        .replace("{other_topic_fits}", &fits.replace("m.topic", "e.topic"))
        .replace("{topic_fits}", fits)
}
