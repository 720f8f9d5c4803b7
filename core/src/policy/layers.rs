//! Layers: shows, from a job's record, for each field of its definition what the code declares, what the
//! configuration sets, what an operator overrides, which of them is in force and why. The operator wins over
//! the configuration, the configuration over the code. A pause is stored in the storage alone, so that no
//! deploy resumes a job that an operator paused.

use serde::Serialize;

use super::edit::Field;
use crate::model::{BackOffKind, JobRecord, Misfire, Origin, Retirement, Retry};
use crate::schedule::{Schedule, format_duration};

/// Layer whose value is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectiveLayer {
    /// The code's declaration.
    Code,
    /// The configuration.
    Configuration,
    /// An operator's edit.
    Operator,
}

/// One field, layer by layer. Values are texts for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The field.
    pub field: Field,
    /// Value that the code declares.
    pub declared: String,
    /// Value that the configuration sets, if any.
    pub configured: Option<String>,
    /// Value that an operator set, if any.
    pub overridden: Option<String>,
    /// Value in force.
    pub in_force: String,
    /// Layer of the value in force.
    pub winner: EffectiveLayer,
    /// Reason, as a sentence.
    pub why: String,
}

/// Returns every field with its layers, always in the same order.
pub fn layers(record: &JobRecord) -> Vec<Layer> {
    let (declared, overrides) = (&record.declared, &record.overrides);
    let (configured, operator) = (record.configured.as_ref(), overrides.schedule.as_ref());
    let schedule = Values {
        declared: rule_text(&declared.schedule),
        configured: configured.map(rule_text),
        overridden: operator.map(rule_text),
        in_force: rule_text(&record.job.schedule),
    };
    let zone = Values {
        declared: zone_text(&declared.schedule),
        // Only the cron text can be configured; an operator's schedule has its own zone.
        configured: None,
        overridden: operator.map(zone_text),
        in_force: zone_text(&record.job.schedule),
    };
    let retry = Values {
        declared: retry_layer(declared.handler_options.retry.as_ref()),
        configured: None,
        overridden: overrides.retry.as_ref().map(retry_text),
        in_force: retry_layer(record.job.handler_options.retry.as_ref()),
    };
    let timeout = Values {
        declared: timeout_text(declared.handler_options.timeout),
        configured: None,
        overridden: overrides
            .timeout
            .map(|timeout| timeout_text(Some(timeout.unwrap_or_default()))),
        in_force: timeout_text(record.job.handler_options.timeout),
    };
    let misfire = Values {
        declared: misfire_text(&declared.misfire),
        configured: None,
        overridden: overrides.misfire.as_ref().map(misfire_text),
        in_force: misfire_text(&record.job.misfire),
    };
    let fields = [
        (Field::Schedule, schedule),
        (Field::Zone, zone),
        (Field::Retry, retry),
        (Field::Timeout, timeout),
        (Field::Misfire, misfire),
    ];
    let layers = fields.into_iter().map(|(field, values)| values.layer(field, record.origin));
    layers.chain([enabled(record)]).collect()
}

/// Values of one field.
struct Values {
    declared: String,
    configured: Option<String>,
    overridden: Option<String>,
    in_force: String,
}

impl Values {
    fn layer(self, field: Field, origin: Origin) -> Layer {
        let below = match origin {
            Origin::Declared => "the code",
            Origin::Seeded => "the seeded definition",
            Origin::Runtime => "the definition made at run time",
        };
        let (winner, why) = match (&self.overridden, &self.configured) {
            (Some(_), Some(_)) => (
                EffectiveLayer::Operator,
                format!("an operator changed it, which wins over the configuration and {below}"),
            ),
            (Some(_), None) => (
                EffectiveLayer::Operator,
                format!("an operator changed it, which wins over {below}"),
            ),
            (None, Some(_)) => (
                EffectiveLayer::Configuration,
                format!(
                    "the configuration sets it, which wins over {below}; no operator changed it"
                ),
            ),
            (None, None) => (
                EffectiveLayer::Code,
                format!("set by {below}; neither configuration nor operator changed it"),
            ),
        };
        let Self { declared, configured, overridden, in_force } = self;
        Layer { field, declared, configured, overridden, in_force, winner, why }
    }
}

/// Returns the layer of [`Field::Enabled`]: the code declares that a job exists, the storage whether it fires.
fn enabled(record: &JobRecord) -> Layer {
    let overridden = record.paused.as_ref().map(|_| "no".to_owned());
    let (in_force, winner, why) = match (&record.retired, &record.paused) {
        (Some(Retirement::Removed), _) => (
            "no",
            EffectiveLayer::Code,
            "it is no longer declared; declared again it comes back".to_owned(),
        ),
        (Some(Retirement::Finished), _) => {
            ("no", EffectiveLayer::Code, "its schedule is over".to_owned())
        }
        (None, Some(pause)) => {
            let until = pause.until.map(|until| format!(" until {until}")).unwrap_or_default();
            let (by, at, reason) = (&pause.by, pause.at, &pause.reason);
            let why = format!(
                "{by} paused it at {at}{until} ({reason}); a pause is stored and survives every deploy"
            );
            ("no", EffectiveLayer::Operator, why)
        }
        (None, None) => ("yes", EffectiveLayer::Code, "not paused".to_owned()),
    };
    let declared = if record.retired == Some(Retirement::Removed) { "no" } else { "yes" };
    Layer {
        field: Field::Enabled,
        declared: declared.to_owned(),
        configured: None,
        overridden,
        in_force: in_force.to_owned(),
        winner,
        why,
    }
}

fn rule_text(schedule: &Schedule) -> String {
    schedule.as_cron().map_or_else(|| schedule.to_string(), |cron| cron.source().to_owned())
}

fn zone_text(schedule: &Schedule) -> String {
    schedule.as_cron().map_or_else(|| "none".to_owned(), |_| schedule.zone().to_string())
}

fn timeout_text(timeout: Option<std::time::Duration>) -> String {
    match timeout {
        None => "the handler's, else the process's default".to_owned(),
        Some(timeout) if timeout.is_zero() => "the process's default".to_owned(),
        Some(timeout) => format_duration(timeout),
    }
}

fn retry_layer(retry: Option<&Retry>) -> String {
    retry.map_or_else(|| "the handler's, else none".to_owned(), retry_text)
}

fn retry_text(retry: &Retry) -> String {
    let times = match retry.attempts_max.map(|attempts| attempts.saturating_sub(1)) {
        Some(0) => return "none".to_owned(),
        Some(1) => "1 retry".to_owned(),
        Some(retries) => format!("{retries} retries"),
        None => "retries without a limit".to_owned(),
    };
    let waits = match &retry.backoff {
        BackOffKind::Intervals(waits) => {
            let waits: Vec<String> =
                waits.iter().take(5).map(|wait| format_duration(*wait)).collect();
            format!("after {}", waits.join(", "))
        }
        BackOffKind::Exponential { first, factor, cap, .. } => format!(
            "after {}, then {factor} times longer each, at most {}",
            format_duration(*first),
            format_duration(*cap)
        ),
        BackOffKind::Proportional { ratio, cap, .. } => format!(
            "after {ratio} of the original delay and as much again each time, at most {}",
            format_duration(*cap)
        ),
    };
    format!("{times} {waits}")
}

fn misfire_text(misfire: &Misfire) -> String {
    let mut text = misfire.policy_in_force().as_str().to_owned();
    for (what, limit) in [("later than", misfire.threshold), ("not older than", misfire.window)] {
        if let Some(limit) = limit {
            text = format!("{text}, {what} {}", format_duration(limit));
        }
    }
    text
}

#[cfg(test)]
mod tests;
