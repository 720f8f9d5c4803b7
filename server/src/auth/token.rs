//! API tokens for programs: `pct_ID_SECRET`. Only the hash of the secret is stored.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{DocumentStore, ExpectedVersion};
use punctual::clock::between;
use punctual::model::{IdSource, Ids};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use utoipa::ToSchema;
use uuid::Uuid;

use super::User;
use super::changes::Changes;
use crate::caller::Role;
use crate::document_store::TypedStore;
use crate::secret::{hashed, random};

/// The kind of the documents.
pub(crate) const KIND: &str = "token";

/// Shortest interval between writes of the last use of a token.
const USE_RECORD_INTERVAL: Duration = Duration::from_secs(60);
/// Page size and largest number of pages when the tokens of a user are removed.
const PAGE: usize = 200;
const PAGES_MAX: usize = 500;

/// A permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read access, as the role viewer.
    Read,
    /// Actions on jobs, queues and messages, as the role operator.
    Operate,
    /// Full access, as the role admin.
    Admin,
    /// Claim and settle messages of the queues of the token. No role includes it.
    Work,
    /// Publish messages.
    Publish,
}

impl Scope {
    /// Returns the role that the owner must currently have.
    pub(crate) fn needs(self) -> Role {
        match self {
            Self::Read => Role::Viewer,
            Self::Operate | Self::Work | Self::Publish => Role::Operator,
            Self::Admin => Role::Admin,
        }
    }

    /// Returns the role that may create a token with this scope. A worker receives unredacted bodies, including those
    /// hidden from operators.
    pub(crate) fn creator_role(self) -> Role {
        match self {
            Self::Work => Role::Admin,
            other => other.needs(),
        }
    }
}

/// Stands for every queue in a list of queues.
pub const EVERY_QUEUE: &str = "*";

/// The owner of a token, whose current role limits the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenOwner {
    /// A user of this server, by id.
    User(String),
    /// A user behind the authenticating proxy, by name.
    Proxied,
    /// A caller without authentication, or the embedding application.
    Local,
}

impl Default for TokenOwner {
    /// The owner of tokens from before users had ids.
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
    /// The queues of the scope `work`; `*` is every queue.
    #[serde(default = "every_queue")]
    pub(crate) queues: Vec<String>,
    /// The name of the owner.
    pub(crate) user: String,
    /// The owner.
    #[serde(default)]
    pub(crate) owner: TokenOwner,
    /// The `tokens_generation` of the owner at creation; 0 for owners who are not users here.
    #[serde(default)]
    pub(crate) generation: u64,
    pub(crate) hash: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Queues of tokens from before tokens named queues.
fn every_queue() -> Vec<String> {
    vec![EVERY_QUEUE.to_owned()]
}

/// A token to be created.
#[derive(Clone, Debug)]
pub(crate) struct TokenDraft {
    /// The id, when a repeated request must create the same token.
    pub(crate) id: Option<Uuid>,
    pub(crate) name: String,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) queues: Vec<String>,
    pub(crate) user: String,
    pub(crate) owner: TokenOwner,
    pub(crate) generation: u64,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Token {
    /// Returns whether a user is the owner. A user created after the token only has the same name.
    fn was_made_by(&self, user: &User) -> bool {
        self.owner == TokenOwner::User(user.id.clone()) && user.created_at <= self.created_at
    }

    /// Returns whether a user is the owner and was not disabled, and did not end their tokens, since it was created.
    pub(super) fn is_of(&self, user: &User) -> bool {
        self.was_made_by(user) && self.generation == user.tokens_generation
    }

    /// Returns whether the owner, by id or proxy name, was disabled or ended their tokens since it was created.
    fn was_ended_by(&self, user: &User) -> bool {
        let is_owner = match &self.owner {
            TokenOwner::User(_) => self.was_made_by(user),
            TokenOwner::Proxied => self.user == user.name,
            TokenOwner::Local => false,
        };
        is_owner && self.generation < user.tokens_generation
    }

    /// Returns the role of its scopes.
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

/// Store of tokens.
#[derive(Clone)]
pub(crate) struct Tokens {
    store: TypedStore<Token>,
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
        let store = TypedStore::new(KIND, documents.clone(), clock.clone());
        let (ids, changes) = (Arc::new(Ids::random()), changes.clone());
        Self { store, clock: clock.clone(), ids, changes }
    }

    /// Creates a token; returns it and its text, which is shown only once.
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
        // A repeated request replaces the token: the first secret was not delivered.
        self.store.put(&id, &token, ExpectedVersion::Any, expires_at).await?;
        Ok((token, format!("pct_{id}_{secret}")))
    }

    /// Returns the token of a text, compared in constant time.
    pub(super) async fn find(&self, text: &str) -> Result<Option<Token>> {
        let Some((id, secret)) = text.strip_prefix("pct_").and_then(|rest| rest.split_once('_'))
        else {
            return Ok(None);
        };
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let Some((token, _)) = self.store.get(id).await? else { return Ok(None) };
        if !bool::from(token.hash.as_bytes().ct_eq(hashed(secret).as_bytes())) {
            return Ok(None);
        }
        self.note_use(&token).await?;
        Ok(Some(token))
    }

    async fn note_use(&self, token: &Token) -> Result<()> {
        let now = self.clock.now();
        if token.last_used_at.is_some_and(|last| between(last, now) < USE_RECORD_INTERVAL) {
            return Ok(());
        }
        // Read again, so that a token that was revoked meanwhile is not restored.
        if let Some((fresh, version)) = self.store.get(&token.id).await? {
            let used = Token { last_used_at: Some(now), ..fresh };
            self.store
                .put(&used.id, &used, ExpectedVersion::Version(version), used.expires_at)
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn list(&self, after: Option<String>, limit: usize) -> Result<Vec<Token>> {
        let tokens = self.store.list(after, limit).await?;
        Ok(tokens.into_iter().map(|(_, token)| token).collect())
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Option<Token>> {
        Ok(self.store.get(id).await?.map(|(token, _)| token))
    }

    pub(crate) async fn revoke(&self, id: &str) -> Result<bool> {
        let existed = self.store.remove(id).await?;
        self.changes.note();
        Ok(existed)
    }

    /// Removes every token of a deleted user. Without the user they are invalid, so one left behind does no harm.
    pub(crate) async fn revoke_all(&self, user: &User) -> Result<()> {
        self.revoke_where(|token| token.was_made_by(user) || token.was_ended_by(user)).await
    }

    /// Removes the tokens that ended when their owner was disabled or ended them. They are invalid since then, so
    /// one left behind does no harm.
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
