//! Secrets that were hidden from whoever edits a definition. Sent back as they were shown, they mean the
//! stored ones, so that a definition can be changed by people who never see its secrets.

use std::collections::BTreeMap;

use punctual::model::JobRecord;
use serde_json::Value;

use crate::problem::{Answer, Problem};
use crate::redact::{HIDDEN, Redaction, holds_hidden};
use crate::spec::{JobSpec, Secret, Target, Work};

/// Puts what is stored where something hidden came back; refuses what nobody has stored, which for a new job
/// is everything.
pub(super) fn restore(
    spec: &mut JobSpec,
    record: Option<&JobRecord>,
    rules: &Redaction,
) -> Answer<()> {
    let declared = record.map(|record| &record.declared);
    let work = declared.map(|job| Work::of(job.topic.as_str(), &job.body.bytes));
    let (stored, payload) = work.map_or((None, None), |work| (Some(work.target), work.payload));
    let mut lost = Lost { hidden: Secret::from("").hidden(), fields: Vec::new() };
    if let Some(http) = &mut spec.http {
        let known = if let Some(Target::Http(known)) = &stored { Some(known) } else { None };
        lost.each("http.headers", &mut http.headers, known.map(|known| &known.headers));
        if let Some(signature) = &mut http.signature {
            let known = known.and_then(|known| known.signature.as_ref());
            lost.one("http.signature.secret", &mut signature.secret, known.map(|one| &one.secret));
        }
    }
    if let Some(command) = &mut spec.command {
        let known =
            if let Some(Target::Command(known)) = &stored { Some(&known.env) } else { None };
        lost.each("command.env", &mut command.env, known);
    }
    lost.value(rules, "payload", &mut spec.payload, payload.as_ref());
    let (called, published) = match &stored {
        Some(Target::Http(known)) => (known.body.as_ref(), None),
        Some(Target::Publish(known)) => (None, known.body.as_ref()),
        _ => (None, None),
    };
    if let Some(http) = &mut spec.http {
        lost.value(rules, "http.body", &mut http.body, called);
    }
    if let Some(publish) = &mut spec.publish {
        lost.value(rules, "publish.body", &mut publish.body, published);
    }
    lost.answer()
}

struct Lost {
    hidden: Secret,
    fields: Vec<String>,
}

impl Lost {
    fn each(
        &mut self,
        place: &str,
        secrets: &mut BTreeMap<String, Secret>,
        known: Option<&BTreeMap<String, Secret>>,
    ) {
        for (name, secret) in secrets {
            let known = known.and_then(|known| known.get(name));
            self.one(&format!("{place}.{name}"), secret, known);
        }
    }

    fn one(&mut self, field: &str, secret: &mut Secret, known: Option<&Secret>) {
        match known {
            _ if *secret != self.hidden => {}
            Some(known) => *secret = known.clone(),
            None => self.fields.push(field.to_owned()),
        }
    }

    /// A value in which something was hidden means the stored one when it is as it was shown.
    fn value(
        &mut self,
        rules: &Redaction,
        field: &str,
        given: &mut Option<Value>,
        known: Option<&Value>,
    ) {
        let Some(value) = given.as_ref().filter(|value| holds_hidden(value)) else { return };
        let shown = known.cloned().map(|mut shown| {
            rules.hide(&mut shown);
            shown
        });
        match known {
            Some(known) if *value == *HIDDEN || shown.as_ref() == Some(value) => {
                *given = Some(known.clone());
            }
            _ => self.fields.push(field.to_owned()),
        }
    }

    fn answer(self) -> Answer<()> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "nothing is stored for {}, which was hidden; write it out, or say where a secret is with env or file",
            self.fields.join(", ")
        );
        let add = |problem: Problem, field: String| problem.field(field, "nothing is stored here");
        Err(self.fields.into_iter().fold(Problem::refused(detail), add))
    }
}
