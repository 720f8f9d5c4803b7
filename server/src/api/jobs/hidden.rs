//! Secrets that were hidden from whoever edits a definition. Sent back as they were shown, they mean the
//! stored ones, so that a definition can be changed by people who never see its secrets.

use std::collections::BTreeMap;

use punctual::model::JobRecord;

use crate::problem::{Answer, Problem};
use crate::spec::{JobSpec, Secret, Target, Work};

/// Puts the stored secrets where hidden ones came back; refuses those that nobody has stored.
pub(super) fn restore(spec: &mut JobSpec, record: &JobRecord) -> Answer<()> {
    let declared = &record.declared;
    let stored = Work::of(declared.topic.as_str(), &declared.body.bytes).target;
    let mut lost = Lost { hidden: Secret::from("").hidden(), fields: Vec::new() };
    if let Some(http) = &mut spec.http {
        let known = if let Target::Http(known) = &stored { Some(known) } else { None };
        lost.each("http.headers", &mut http.headers, known.map(|known| &known.headers));
        if let Some(signature) = &mut http.signature {
            let known = known.and_then(|known| known.signature.as_ref());
            lost.one("http.signature.secret", &mut signature.secret, known.map(|one| &one.secret));
        }
    }
    if let Some(command) = &mut spec.command {
        let known = if let Target::Command(known) = &stored { Some(&known.env) } else { None };
        lost.each("command.env", &mut command.env, known);
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

    fn answer(self) -> Answer<()> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "there is no stored secret for {}; write it out, or say where it is with env or file",
            self.fields.join(", ")
        );
        let add =
            |problem: Problem, field: String| problem.field(field, "no secret is stored here");
        Err(self.fields.into_iter().fold(Problem::refused(detail), add))
    }
}
