//! Tokens for programs: `pct_ID_SECRET`. Only the hash of the secret is kept.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::between;
use punctual::documents::{DocumentStore, ExpectedVersion};
use punctual::model::{IdSource, Ids};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use utoipa::ToSchema;
use uuid::Uuid;

use super::User;
use super::changes::Changes;
use crate::caller::Role;
use crate::secret::{hashed, random};
use crate::shelf::Shelf;

/// The kind of the documents.
pub(crate) const KIND: &str = "token";

/// The use of a token is noted no more often than this.
const NOTED_EVERY: Duration = Duration::from_secs(60);
/// How many tokens are read at once, and how often, when those of a user are removed.
const PAGE: usize = 200;
const PAGES_MAX: usize = 500;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To see what a viewer sees.
    Read,
    /// To do what an operator does.
    Operate,
    /// To do everything.
    Admin,
    /// To claim and settle work of the queues that the token names. No role allows it.
    Work,
    /// To publish messages.
    Publish,
}

impl Scope {
    /// The role that its owner must have at the moment.
    pub(crate) fn needs(self) -> Role {
        match self {
            Self::Read => Role::Viewer,
            Self::Operate | Self::Work | Self::Publish => Role::Operator,
            Self::Admin => Role::Admin,
        }
    }

    /// The role that may give it to a token of its own. A worker gets the bodies of messages as they are, also those
    /// that are hidden from operators.
    pub(crate) fn given_by(self) -> Role {
        match self {
            Self::Work => Role::Admin,
            other => other.needs(),
        }
    }
}

/// Stands for every queue where queues are named.
pub const EVERY_QUEUE: &str = "*";

/// Who owns a token, which never allows more than its owner may at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Owner {
    /// A user of this server, by id.
    User(String),
    /// Somebody whom a proxy knows, by name.
    Proxied,
    /// Whoever reached a server that asks nobody, or the application around it.
    Local,
}

impl Default for Owner {
    /// Tokens from before users had ids.
    fn default() -> Self {
        Self::User(String::new())
    }
}

/// A token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) scopes: Vec<Scope>,
    /// The queues that the scope `work` is for; `*` is every queue.
    #[serde(default = "every_queue")]
    pub(crate) queues: Vec<String>,
    /// The name of its owner.
    pub(crate) user: String,
    /// Who its owner is.
    #[serde(default)]
    pub(crate) owner: Owner,
    /// The `tokens_generation` that its owner had when it was made; 0 for owners who are no users here.
    #[serde(default)]
    pub(crate) generation: u64,
    pub(crate) hash: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Tokens from before they named queues worked on every queue, and still do.
fn every_queue() -> Vec<String> {
    vec![EVERY_QUEUE.to_owned()]
}

/// A token to be made.
#[derive(Clone, Debug)]
pub(crate) struct TokenDraft {
    /// Its identity, when the repeat of a request has to make the same token.
    pub(crate) id: Option<Uuid>,
    pub(crate) name: String,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) queues: Vec<String>,
    pub(crate) user: String,
    pub(crate) owner: Owner,
    pub(crate) generation: u64,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Token {
    /// Whether a user is its owner. Who was made after the token has only the same name.
    fn was_made_by(&self, user: &User) -> bool {
        self.owner == Owner::User(user.id.clone()) && user.created_at <= self.created_at
    }

    /// Whether a user is its owner and has not been disabled, or ended their tokens, since it was made.
    pub(super) fn is_of(&self, user: &User) -> bool {
        self.was_made_by(user) && self.generation == user.tokens_generation
    }

    /// Whether its owner, by id or as a proxy names them, was disabled or ended their tokens since it was made.
    fn was_ended_by(&self, user: &User) -> bool {
        let is_owner = match &self.owner {
            Owner::User(_) => self.was_made_by(user),
            Owner::Proxied => self.user == user.name,
            Owner::Local => false,
        };
        is_owner && self.generation < user.tokens_generation
    }

    /// The role its scopes come to.
    pub(crate) fn role(&self) -> Role {
        let role = |scope: &Scope| match scope {
            Scope::Admin => Role::Admin,
            Scope::Operate => Role::Operator,
            Scope::Read => Role::Viewer,
            Scope::Work | Scope::Publish => Role::Guest,
        };
        self.scopes.iter().map(role).max().unwrap_or(Role::Guest)
    }
}

/// All tokens.
#[derive(Clone)]
pub(crate) struct Tokens {
    shelf: Shelf<Token>,
    clock: Arc<dyn Clock>,
    ids: Arc<Ids>,
    changes: Changes,
}

impl Tokens {
    pub(super) fn new(
        documents: &Arc<dyn DocumentStore>,
        clock: &Arc<dyn Clock>,
        changes: &Changes,
    ) -> Self {
        let shelf = Shelf::new(KIND, documents.clone(), clock.clone());
        let (ids, changes) = (Arc::new(Ids::random()), changes.clone());
        Self { shelf, clock: clock.clone(), ids, changes }
    }

    /// Makes one; answers it and the text that is shown once.
    pub(crate) async fn create(&self, draft: TokenDraft) -> Result<(Token, String)> {
        let now = self.clock.now();
        let TokenDraft { id, name, scopes, queues, user, owner, generation, expires_at } = draft;
        let id = id.unwrap_or_else(|| self.ids.next(now)).simple().to_string();
        let secret = random();
        let token = Token {
            id: id.clone(),
            name,
            scopes,
            queues,
            user,
            owner,
            generation,
            hash: hashed(&secret),
            created_at: now,
            last_used_at: None,
            expires_at,
        };
        // The repeat of a request makes the same token once more: nobody has the secret of the first.
        self.shelf.put(&id, &token, ExpectedVersion::Any, expires_at).await?;
        Ok((token, format!("pct_{id}_{secret}")))
    }

    /// The token of a text, compared in the same time whatever is wrong.
    pub(super) async fn find(&self, text: &str) -> Result<Option<Token>> {
        let Some((id, secret)) = text.strip_prefix("pct_").and_then(|rest| rest.split_once('_'))
        else {
            return Ok(None);
        };
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let Some((token, _)) = self.shelf.get(id).await? else { return Ok(None) };
        if !bool::from(token.hash.as_bytes().ct_eq(hashed(secret).as_bytes())) {
            return Ok(None);
        }
        self.note_use(&token).await?;
        Ok(Some(token))
    }

    async fn note_use(&self, token: &Token) -> Result<()> {
        let now = self.clock.now();
        if token.last_used_at.is_some_and(|last| between(last, now) < NOTED_EVERY) {
            return Ok(());
        }
        // Read again, so that one that was revoked meanwhile does not come back.
        if let Some((fresh, version)) = self.shelf.get(&token.id).await? {
            let used = Token { last_used_at: Some(now), ..fresh };
            self.shelf
                .put(&used.id, &used, ExpectedVersion::Version(version), used.expires_at)
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn list(&self, after: Option<String>, limit: usize) -> Result<Vec<Token>> {
        let tokens = self.shelf.list(after, limit).await?;
        Ok(tokens.into_iter().map(|(_, token)| token).collect())
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Option<Token>> {
        Ok(self.shelf.get(id).await?.map(|(token, _)| token))
    }

    pub(crate) async fn revoke(&self, id: &str) -> Result<bool> {
        let was_there = self.shelf.remove(id).await?;
        self.changes.note();
        Ok(was_there)
    }

    /// Removes every token of a user who is gone. They let nobody in without their user, so one that is left
    /// behind does no harm.
    pub(crate) async fn revoke_all(&self, user: &User) -> Result<()> {
        self.revoke_where(|token| token.was_made_by(user) || token.was_ended_by(user)).await
    }

    /// Removes the tokens that ended when their owner was disabled or ended them. They let nobody in since then, so
    /// one that is left behind does no harm.
    pub(crate) async fn revoke_ended(&self, user: &User) -> Result<()> {
        self.revoke_where(|token| token.was_ended_by(user)).await
    }

    async fn revoke_where(&self, ends: impl Fn(&Token) -> bool) -> Result<()> {
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let tokens = self.list(after, PAGE).await?;
            for token in tokens.iter().filter(|token| ends(token)) {
                self.revoke(&token.id).await?;
            }
            match tokens.last() {
                Some(last) if tokens.len() == PAGE => after = Some(last.id.clone()),
                _ => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_from_before_they_named_queues_works_on_every_queue() {
        let stored = serde_json::json!({ "id": "1", "name": "ci", "scopes": ["work"], "user": "ada",
            "hash": "h", "created_at": "2026-01-01T00:00:00Z" });
        let token: Token = serde_json::from_value(stored).unwrap();
        assert_eq!(token.queues, [EVERY_QUEUE]);
    }
}
