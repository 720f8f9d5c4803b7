//! COPY: stores many messages at once by binary COPY, the fastest way into a table.

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt as _;
use punctual::backend::storage::Entry;
use punctual::model::Message;
use punctual_columns::code::Code;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::extra;
use tokio_postgres::Client;

use crate::error::StorageError;
use crate::operations::relations::{self, MessageRelations, has_relations};
use crate::row::job_of;
use crate::value::Micros;

/// Header of a binary COPY: signature, flags, no extension.
const BEGINNING: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Bytes that are sent at once.
const PIECE: usize = 128 * 1024;
const COLUMNS: i16 = 14;
/// Number of additional columns when messages have relations.
const RELATION_COLUMNS: i16 = 5;

/// Copies every entry into the hot table, inside the open transaction.
pub(crate) async fn copy(
    client: &Client,
    schema: &str,
    entries: &[Entry],
) -> Result<(), StorageError> {
    let have_relations = entries.iter().any(|entry| has_relations(&entry.message));
    let more = if have_relations { format!(", {}", relations::COLUMNS) } else { String::new() };
    let statement = format!(
        "COPY {schema}.message (id, queue, topic, priority, source, exclusive, due_at, planned_at, \
         created_at, key, dedupe, job, body, extra{more}) FROM STDIN BINARY"
    );
    let mut sink = Box::pin(client.copy_in::<_, Bytes>(&statement).await?);
    let mut piece = BytesMut::with_capacity(PIECE * 2);
    piece.put_slice(BEGINNING);
    for entry in entries {
        piece.put_i16(if have_relations { COLUMNS + RELATION_COLUMNS } else { COLUMNS });
        write(&mut piece, &entry.message)?;
        if have_relations {
            write_relations(&mut piece, MessageRelations::of(&entry.message));
        }
        if piece.len() >= PIECE {
            sink.feed(piece.split().freeze()).await?;
        }
    }
    piece.put_i16(-1);
    sink.feed(piece.freeze()).await?;
    sink.as_mut().finish().await?;
    Ok(())
}

fn write(out: &mut BytesMut, message: &Message) -> punctual::Result<()> {
    field(out, message.id.as_uuid().as_bytes());
    field(out, message.queue.as_str().as_bytes());
    field(out, message.topic.as_str().as_bytes());
    field(out, &i16::from(message.priority.level()).to_be_bytes());
    field(out, &message.source.code().to_be_bytes());
    field(out, &[u8::from(message.exclusive)]);
    field(out, &Micros(micros_up(message.due_at)).wire().to_be_bytes());
    field(out, &Micros(micros(message.due_at)).wire().to_be_bytes());
    field(out, &Micros(micros(message.created_at)).wire().to_be_bytes());
    optional(out, message.key.as_ref().map(|key| key.as_str().as_bytes()));
    optional(out, message.dedupe.as_ref().map(|key| key.as_str().as_bytes()));
    optional(out, job_of(message).map(str::as_bytes));
    field(out, &message.body.bytes);
    optional(out, extra(message)?.as_deref().map(str::as_bytes));
    Ok(())
}

fn write_relations(out: &mut BytesMut, relations: MessageRelations<'_>) {
    optional(out, relations.lane.map(|(name, _)| name.as_bytes()));
    optional(out, relations.lane.map(|(_, most)| most.to_be_bytes()));
    optional(out, relations.batch.map(uuid::Uuid::into_bytes));
    optional(out, relations.waits_for.map(uuid::Uuid::into_bytes));
    optional(out, relations.released.map(|released| [u8::from(released)]));
}

fn field(out: &mut BytesMut, bytes: &[u8]) {
    out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.put_slice(bytes);
}

fn optional(out: &mut BytesMut, bytes: Option<impl AsRef<[u8]>>) {
    match bytes {
        None => out.put_i32(-1),
        Some(bytes) => field(out, bytes.as_ref()),
    }
}
