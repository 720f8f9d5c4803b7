//! Migrations: the tables and their version. Numbered files are applied in order under a lock, in one
//! transaction, in a schema of our own. A schema that is up to date is only read, so a role without the right
//! to create tables can use one that another role has created. A newer schema is refused.

use std::fmt::Write as _;

use punctual::{Error, ErrorKind};
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::session::Session;

/// Every migration, in order; the number is the version after it.
const MIGRATIONS: [(i32, &str, &str); 8] = [
    (1, "tables", include_str!("../migrations/0001_tables.sql")),
    (2, "enqueue", include_str!("../migrations/0002_enqueue.sql")),
    (3, "views", include_str!("../migrations/0003_views.sql")),
    (4, "documents", include_str!("../migrations/0004_documents.sql")),
    (5, "lists", include_str!("../migrations/0005_lists.sql")),
    (6, "system topics", include_str!("../migrations/0006_system_topics.sql")),
    (7, "rates", include_str!("../migrations/0007_rates.sql")),
    (8, "views of jobs", include_str!("../migrations/0008_job_views.sql")),
];

/// Version of the tables that this crate needs.
pub const SCHEMA_VERSION: i32 = 8;

/// Name of a schema: plain for errors, quoted for statements.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) name: String,
    pub(crate) quoted: String,
}

impl Schema {
    /// Checks a name; any name that PostgreSQL accepts is valid, because it is always quoted.
    pub(crate) fn new(name: &str) -> punctual::Result<Self> {
        let refused = |why: &str| {
            Err(Error::invalid(format!(
                "the schema name {name:?} {why}; choose a short name such as \"punctual\""
            )))
        };
        if name.is_empty() {
            return refused("is empty");
        }
        if name.len() > 40 {
            return refused("is longer than 40 bytes");
        }
        if name.chars().any(|c| c.is_control() || c == '"' || c == '\'' || c == '{' || c == '}') {
            return refused("holds a quote, a brace or a control character");
        }
        if name.starts_with("pg_") || name == "information_schema" {
            return refused("belongs to PostgreSQL itself");
        }
        Ok(Self { name: name.to_owned(), quoted: format!("\"{name}\"") })
    }

    fn text(&self, sql: &str) -> String {
        sql.replace("{schema}", &self.quoted)
    }
}

/// Returns the SQL of every migration, to read it or to run it by hand.
pub(crate) fn sql(schema: &Schema) -> String {
    let mut text = format!(
        "BEGIN;\nCREATE SCHEMA IF NOT EXISTS {0};\n{1};\n",
        schema.quoted,
        schema.text(TABLE)
    );
    for (version, name, sql) in MIGRATIONS {
        text.push_str(&schema.text(sql));
        let quoted = &schema.quoted;
        let _ = writeln!(
            text,
            "
INSERT INTO {quoted}.migration (version, name) VALUES ({version}, '{name}');"
        );
    }
    text.push_str("COMMIT;\n");
    text
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS {schema}.migration (\n    version    integer PRIMARY KEY,\n    name       text NOT NULL,\n    applied_at timestamptz NOT NULL DEFAULT now()\n)";

/// Migrates the schema to the current version, or returns why it cannot be used.
pub(crate) async fn migrate(
    session: &mut Session<'_>,
    schema: &Schema,
) -> Result<(), StorageError> {
    let found = version(session, schema).await?;
    if found == Some(SCHEMA_VERSION) {
        return Ok(());
    }
    refuse_newer(schema, found)?;
    session.begin().await?;
    let key = format!("punctual migration of {}", schema.name);
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    session.query_text(lock, &[(&key, Type::TEXT)]).await?;
    let found = version(session, schema).await?;
    refuse_newer(schema, found)?;
    if !exists(session, schema).await? {
        let create = format!("CREATE SCHEMA {}", schema.quoted);
        session.client().batch_execute(&create).await.map_err(|error| denied(error, schema))?;
    }
    apply(session, schema, found).await?;
    session.commit().await
}

async fn apply(
    session: &Session<'_>,
    schema: &Schema,
    found: Option<i32>,
) -> Result<(), StorageError> {
    let client = session.client();
    let denied = |error| denied(error, schema);
    if found.is_none() {
        client.batch_execute(&schema.text(TABLE)).await.map_err(denied)?;
    }
    for (version, name, sql) in MIGRATIONS {
        if found.is_some_and(|found| version <= found) {
            continue;
        }
        client.batch_execute(&schema.text(sql)).await.map_err(denied)?;
        let insert =
            format!("INSERT INTO {}.migration (version, name) VALUES ($1, $2)", schema.quoted);
        session.execute_text(&insert, &[(&version, Type::INT4), (&name, Type::TEXT)]).await?;
    }
    Ok(())
}

/// Returns the version of the stored tables; none when there are none.
pub(crate) async fn version(
    session: &Session<'_>,
    schema: &Schema,
) -> Result<Option<i32>, StorageError> {
    // Read from the catalogue itself: to_regclass may return an entry of a cache that is older than the lock we
    // waited for.
    let exists = "SELECT 1 FROM pg_catalog.pg_class c \
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = $1 AND c.relname = 'migration'";
    if session.query_text(exists, &[(&schema.name, Type::TEXT)]).await?.is_empty() {
        return Ok(None);
    }
    let query = format!("SELECT max(version) FROM {}.migration", schema.quoted);
    let rows = session.query_text(&query, &[]).await?;
    Ok(rows.first().map(|row| row.try_get::<_, Option<i32>>(0)).transpose()?.flatten())
}

async fn exists(session: &Session<'_>, schema: &Schema) -> Result<bool, StorageError> {
    let query = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
    Ok(!session.query_text(query, &[(&schema.name, Type::TEXT)]).await?.is_empty())
}

fn refuse_newer(schema: &Schema, found: Option<i32>) -> punctual::Result<()> {
    match found {
        Some(found) if found > SCHEMA_VERSION => Err(Error::unsupported(format!(
            "the schema {:?} has version {found} and this program supports up to version {SCHEMA_VERSION}; \
             deploy the newer program, or give this one a schema of its own",
            schema.name
        ))),
        _ => Ok(()),
    }
}

fn denied(error: tokio_postgres::Error, schema: &Schema) -> StorageError {
    if error.code() != Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE) {
        return StorageError::Database(error);
    }
    StorageError::Mapped(
        Error::new(
            ErrorKind::Invalid,
            format!(
                "the role may not create the schema {:?} or its tables; grant it CREATE on the \
                 database, or have an administrator run the output of migration_sql()",
                schema.name
            ),
        )
        .caused_by(error),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_escape_quoting_or_belong_to_the_server_are_refused() {
        for name in ["", "a\"b", "a'b", "{schema}", "pg_temp", "information_schema", "a\nb"] {
            let error = Schema::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
        }
        assert!(Schema::new(&"x".repeat(41)).is_err());
        assert_eq!(Schema::new("Odd name, ü; --").unwrap().quoted, "\"Odd name, ü; --\"");
    }

    #[test]
    fn versions_are_numbered_without_gaps_up_to_the_current_one() {
        let versions: Vec<i32> = MIGRATIONS.iter().map(|(version, ..)| *version).collect();
        assert_eq!(versions, (1..=SCHEMA_VERSION).collect::<Vec<_>>());
    }
}
