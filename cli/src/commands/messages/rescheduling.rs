//! Making pending messages due at another time: those that are named, or all that match.

use anyhow::Result;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::{Value, json};

use super::Filter;
use crate::client::Call;
use crate::commands::given::instant;
use crate::desk::Desk;
use crate::failure::{Code, Failure};
use crate::render::counted;

/// Messages that are looked at in one call.
const PAGE: u32 = 500;

/// Which messages, and when instead.
#[derive(Debug, Args)]
pub(super) struct Reschedule {
    /// The messages; without any, all pending ones that match the filter.
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// At this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, required_unless_present = "delay", conflicts_with = "delay")]
    at: Option<Timestamp>,
    /// So long from now, such as 5m.
    #[arg(long, value_name = "LENGTH")]
    delay: Option<String>,
    /// At most so many of those that match, newest first; 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Only say how many it would be about.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

impl Reschedule {
    fn body(&self) -> Value {
        let mut body = json!({});
        if let Some(at) = self.at {
            body["due_at"] = at.to_string().into();
        }
        if let Some(delay) = &self.delay {
            body["delay"] = delay.as_str().into();
        }
        if let Some(reason) = &self.reason {
            body["reason"] = reason.as_str().into();
        }
        body
    }

    fn when(&self) -> String {
        match (&self.at, &self.delay) {
            (Some(at), _) => format!("at {}", at.strftime("%Y-%m-%d %H:%M:%SZ")),
            (None, delay) => format!("in {}", delay.as_deref().unwrap_or_default()),
        }
    }

    /// What it is about, when that was said in one way and can be.
    fn scope(&self) -> Result<Filter, Failure> {
        match (self.ids.is_empty(), self.filter.is_empty()) {
            (true, true) => {
                return Err(Failure::wrong("nothing says which messages to reschedule")
                    .hint("name ids, or give a filter such as --topic or --state pending"));
            }
            (false, false) => {
                return Err(
                    Failure::wrong("there are both ids and a filter").hint("leave one of them out")
                );
            }
            _ => {}
        }
        let named = self.filter.state.as_deref();
        if named.is_some_and(|states| !states.split(',').any(|state| state.trim() == "pending")) {
            return Err(Failure::wrong("only a pending message has a time to come")
                .hint("leave --state out, or redrive messages that ended"));
        }
        Ok(Filter { state: Some("pending".to_owned()), ..self.filter.clone() })
    }
}

pub(super) async fn reschedule(desk: &Desk, wanted: &Reschedule) -> Result<()> {
    let filter = wanted.scope()?;
    let ids = if wanted.ids.is_empty() {
        matching(desk, &filter, wanted.limit).await?
    } else {
        wanted.ids.clone()
    };
    let count = ids.len() as u64;
    if wanted.dry_run || count == 0 {
        return desk.print(&json!({ "count": count, "dry_run": true }), |_| {
            format!("This would reschedule {}. Nothing was changed.", counted(count, "message"))
        });
    }
    if count > 1 {
        desk.confirm(&format!("Reschedule {}", counted(count, "message")))?;
    }
    let refused = each(desk, &ids, wanted).await?;
    let applied = count - refused;
    desk.print(&json!({ "applied": applied, "refused": refused }), |_| {
        let when = wanted.when();
        match (ids.as_slice(), refused) {
            ([id], _) => format!("{id} is due {when}."),
            (_, 0) => format!("{} due {when}.", counted(applied, "message")),
            _ => format!(
                "{} due {when}. {} changed in the meantime and stayed.",
                counted(applied, "message"),
                counted(refused, "message")
            ),
        }
    })
}

/// The ids of all that match, page by page.
async fn matching(desk: &Desk, filter: &Filter, limit: u32) -> Result<Vec<String>> {
    let limit = usize::try_from(limit)?;
    let mut ids: Vec<String> = Vec::new();
    let mut after: Option<String> = None;
    while ids.len() < limit {
        let call = filter.on(Call::get(&["messages"])).with("limit", Some(PAGE));
        let page = desk.ask(call.with("after", after.as_ref())).await?;
        let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        ids.extend(items.iter().filter_map(|one| one["id"].as_str().map(ToOwned::to_owned)));
        match page["next"].as_str() {
            Some(next) if !items.is_empty() => after = Some(next.to_owned()),
            _ => break,
        }
    }
    ids.truncate(limit);
    Ok(ids)
}

/// One after the other; how many had changed in the meantime. Of a single one the refusal is the answer.
async fn each(desk: &Desk, ids: &[String], wanted: &Reschedule) -> Result<u64> {
    let mut refused = 0;
    for id in ids {
        let call = Call::post(&["messages", id, "reschedule"], wanted.body());
        match desk.ask(call).await {
            Ok(_) => {}
            Err(error) if ids.len() > 1 && is_refusal(&error) => refused += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

fn is_refusal(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(|failure| matches!(failure.code, Code::Refused | Code::Missing))
}
