//! Redacted secrets in definitions: a redacted value in a request stands for the stored secret, so that users who
//! cannot see the secrets can change a definition.

use std::collections::BTreeMap;

use punctual::model::JobRecord;
use serde_json::Value;

use crate::problem::{ApiResult, Problem};
use crate::redact::{HIDDEN, Redaction, holds_hidden};
use crate::spec::{JobSpec, Secret, Target, Work};

/// Replaces redacted values by the stored ones. Fails for values that are not stored, which for a new job are all.
pub(super) fn restore(
    spec: &mut JobSpec,
    record: Option<&JobRecord>,
    rules: &Redaction,
) -> ApiResult<()> {
    let declared = record.map(|record| &record.declared);
    let work = declared.map(|job| Work::of(job.topic.as_str(), &job.body.bytes));
    let (stored, payload) = work.map_or((None, None), |work| (Some(work.target), work.payload));
    let mut missing = MissingSecrets { hidden: Secret::from("").hidden(), fields: Vec::new() };
    if let Some(http) = &mut spec.http {
        let known = if let Some(Target::Http(known)) = &stored { Some(known) } else { None };
        missing.restore_map("http.headers", &mut http.headers, known.map(|known| &known.headers));
        if let Some(signature) = &mut http.signature {
            let known = known.and_then(|known| known.signature.as_ref());
            missing.restore_secret(
                "http.signature.secret",
                &mut signature.secret,
                known.map(|one| &one.secret),
            );
        }
    }
    if let Some(command) = &mut spec.command {
        let known =
            if let Some(Target::Command(known)) = &stored { Some(&known.env) } else { None };
        missing.restore_map("command.env", &mut command.env, known);
    }
    missing.restore_value(rules, "payload", &mut spec.payload, payload.as_ref());
    let (http_body, publish_body) = match &stored {
        Some(Target::Http(known)) => (known.body.as_ref(), None),
        Some(Target::Publish(known)) => (None, known.body.as_ref()),
        _ => (None, None),
    };
    if let Some(http) = &mut spec.http {
        missing.restore_value(rules, "http.body", &mut http.body, http_body);
    }
    if let Some(publish) = &mut spec.publish {
        missing.restore_value(rules, "publish.body", &mut publish.body, publish_body);
    }
    missing.into_result()
}

struct MissingSecrets {
    hidden: Secret,
    fields: Vec<String>,
}

impl MissingSecrets {
    fn restore_map(
        &mut self,
        prefix: &str,
        secrets: &mut BTreeMap<String, Secret>,
        known: Option<&BTreeMap<String, Secret>>,
    ) {
        for (name, secret) in secrets {
            let known = known.and_then(|known| known.get(name));
            self.restore_secret(&format!("{prefix}.{name}"), secret, known);
        }
    }

    fn restore_secret(&mut self, field: &str, secret: &mut Secret, known: Option<&Secret>) {
        match known {
            _ if *secret != self.hidden => {}
            Some(known) => *secret = known.clone(),
            None => self.fields.push(field.to_owned()),
        }
    }

    /// Replaces a value with redacted parts by the stored one when it is unchanged otherwise.
    fn restore_value(
        &mut self,
        rules: &Redaction,
        field: &str,
        value: &mut Option<Value>,
        known: Option<&Value>,
    ) {
        let Some(sent) = value.as_ref().filter(|value| holds_hidden(value)) else { return };
        let shown = known.cloned().map(|mut shown| {
            rules.hide(&mut shown);
            shown
        });
        match known {
            Some(known) if *sent == *HIDDEN || shown.as_ref() == Some(sent) => {
                *value = Some(known.clone());
            }
            _ => self.fields.push(field.to_owned()),
        }
    }

    fn into_result(self) -> ApiResult<()> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "no value is stored for {}, which is redacted; give the value, or refer to a secret with env or file",
            self.fields.join(", ")
        );
        let add = |problem: Problem, field: String| problem.field(field, "no value is stored here");
        Err(self.fields.into_iter().fold(Problem::refused(detail), add))
    }
}
