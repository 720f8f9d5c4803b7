//! Documents that a move to another storage takes along: what people set up and what must not be forgotten. What a
//! server finds out again by itself stays behind.

use crate::{api, audit, auth, idempotency, queues, webhooks};

/// A kind of documents, and what people call one and many of them.
#[derive(Clone, Copy, Debug)]
pub struct MovedKind {
    /// The kind in the storage.
    pub kind: &'static str,
    /// One of them.
    pub one: &'static str,
    /// Several of them.
    pub many: &'static str,
}

/// What is taken along, in this order: users come before the tokens that belong to them.
pub const MOVED_KINDS: [MovedKind; 8] = [
    MovedKind { kind: auth::USER_KIND, one: "user", many: "users" },
    MovedKind { kind: auth::TOKEN_KIND, one: "token", many: "tokens" },
    MovedKind { kind: webhooks::KIND, one: "webhook", many: "webhooks" },
    MovedKind { kind: api::VIEW_KIND, one: "saved view", many: "saved views" },
    MovedKind { kind: queues::KIND, one: "queue setting", many: "queue settings" },
    MovedKind { kind: audit::KIND, one: "audit entry", many: "audit entries" },
    MovedKind { kind: idempotency::KIND, one: "remembered request", many: "remembered requests" },
    MovedKind {
        kind: idempotency::REMOVED_KIND,
        one: "removed message of a remembered request",
        many: "removed messages of remembered requests",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::MOVED_KINDS;

    /// Sessions and browsers end with a move, and people sign in again. The rest is found out again.
    const LEFT: [&str; 8] = [
        "alert",
        "browser",
        "figures",
        "last_admin",
        "proxied",
        "refused_configuration",
        "session",
        "worker",
    ];

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_kind_of_document_is_moved_or_left_on_purpose() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let declaration = ["const ", "KIND: &str = \""].concat();
        let mut kinds = BTreeSet::new();
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
            let text = fs::read_to_string(file).unwrap();
            for rest in text.split(&declaration).skip(1) {
                kinds.insert(rest.split('"').next().unwrap().to_owned());
            }
        }
        let moved = MOVED_KINDS.iter().map(|moved| moved.kind);
        let decided: BTreeSet<String> = moved.chain(LEFT).map(ToOwned::to_owned).collect();
        assert_eq!(kinds, decided);
    }
}
