//! Storage check: the findings of each storage as rows of one table.

use crate::opened_storage::StorageCheckResult;

#[cfg(feature = "sqlite")]
pub(crate) fn sqlite(check: punctual_sqlite::SqliteCheck) -> StorageCheckResult {
    let kibibytes = |bytes: u64| format!("{} KiB", bytes.div_ceil(1024));
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let integrity = check
        .sound
        .map(|is_sound| ("integrity check", if is_sound { "ok" } else { "failed" }.to_owned()));
    let facts = [
        ("schema", format!("{} of {}", check.schema_version, check.schema_known)),
        ("journal mode", check.journal_mode),
        ("size", kibibytes(check.pages * check.page_bytes)),
        ("free space", kibibytes(check.pages_free * check.page_bytes)),
        ("WAL size", kibibytes(check.journal_bytes)),
        ("locked by another process", yes(check.is_locked)),
    ];
    StorageCheckResult {
        facts: integrity.into_iter().chain(facts).collect(),
        findings: check.findings,
    }
}

#[cfg(feature = "postgres")]
pub(crate) fn postgres(check: punctual_postgres::PostgresCheck) -> StorageCheckResult {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    StorageCheckResult {
        facts: vec![
            ("server", check.server_version),
            ("schema", format!("{} of {}", check.schema_version, check.schema_known)),
            ("claims use their index", yes(check.claim_uses_index)),
            ("long transactions", check.long_transactions.len().to_string()),
            ("dead rows", check.dead_rows.to_string()),
            ("clock offset", format!("{} ms", check.clock_ahead_ms)),
            ("receives notifications", yes(check.is_listening)),
            ("prepared statements", yes(check.is_prepared)),
        ],
        findings: check.findings,
    }
}
