//! What each storage says about itself, in words for one table.

use crate::opened::Checkup;

#[cfg(feature = "sqlite")]
pub(crate) fn sqlite(check: punctual_sqlite::Check) -> Checkup {
    let kibibytes = |bytes: u64| format!("{} KiB", bytes.div_ceil(1024));
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let sound = check.sound.map(|sound| ("sound", yes(sound)));
    let facts = [
        ("schema", format!("{} of {}", check.schema_version, check.schema_known)),
        ("journal mode", check.journal_mode),
        ("size", kibibytes(check.pages * check.page_bytes)),
        ("of it free", kibibytes(check.pages_free * check.page_bytes)),
        ("in the journal", kibibytes(check.journal_bytes)),
        ("locked by others", yes(check.is_locked)),
    ];
    Checkup { facts: sound.into_iter().chain(facts).collect(), findings: check.findings }
}

#[cfg(feature = "postgres")]
pub(crate) fn postgres(check: punctual_postgres::Check) -> Checkup {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    Checkup {
        facts: vec![
            ("server", check.server_version),
            ("schema", format!("{} of {}", check.schema_version, check.schema_known)),
            ("claims walk their index", yes(check.claim_uses_index)),
            ("long transactions", check.long_transactions.len().to_string()),
            ("dead rows", check.dead_rows.to_string()),
            ("clock ahead of ours", format!("{} ms", check.clock_ahead_ms)),
            ("hears other processes", yes(check.is_listening)),
            ("prepares statements", yes(check.is_prepared)),
        ],
        findings: check.findings,
    }
}
