//! Storage transfer: the kinds of documents that are copied to another storage. Documents that a server
//! recomputes are not copied.

use crate::{api, audit, auth, idempotency, queues, webhooks};

/// A kind of documents, and its names in singular and plural.
#[derive(Clone, Copy, Debug)]
pub struct TransferKind {
    /// The kind in the storage.
    pub kind: &'static str,
    /// The name of one document.
    pub one: &'static str,
    /// The name of several documents.
    pub many: &'static str,
}

/// The copied kinds, in this order: users before the tokens that belong to them.
pub const TRANSFER_KINDS: [TransferKind; 8] = [
    TransferKind { kind: auth::USER_KIND, one: "user", many: "users" },
    TransferKind { kind: auth::TOKEN_KIND, one: "token", many: "tokens" },
    TransferKind { kind: webhooks::KIND, one: "webhook", many: "webhooks" },
    TransferKind { kind: api::VIEW_KIND, one: "saved view", many: "saved views" },
    TransferKind { kind: queues::KIND, one: "queue setting", many: "queue settings" },
    TransferKind { kind: audit::KIND, one: "audit entry", many: "audit entries" },
    TransferKind {
        kind: idempotency::KIND,
        one: "remembered request",
        many: "remembered requests",
    },
    TransferKind {
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

    use super::TRANSFER_KINDS;

    /// Sessions and browsers end with a transfer, and users sign in again. The rest is recomputed.
    const NOT_COPIED: [&str; 8] = [
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
    fn every_kind_of_document_is_copied_or_listed_as_not_copied() {
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
        let copied = TRANSFER_KINDS.iter().map(|copied| copied.kind);
        let decided: BTreeSet<String> = copied.chain(NOT_COPIED).map(ToOwned::to_owned).collect();
        assert_eq!(kinds, decided);
    }
}
