//! Attribute names: those of the semantic conventions for messaging, then our own.

pub(crate) const SYSTEM: &str = "messaging.system";
pub(crate) const OPERATION_NAME: &str = "messaging.operation.name";
pub(crate) const OPERATION_TYPE: &str = "messaging.operation.type";
pub(crate) const DESTINATION: &str = "messaging.destination.name";
pub(crate) const MESSAGE_ID: &str = "messaging.message.id";
pub(crate) const CONVERSATION_ID: &str = "messaging.message.conversation_id";
pub(crate) const ERROR_TYPE: &str = "error.type";

pub(crate) const ATTEMPT: &str = "punctual.attempt";
pub(crate) const EXECUTION_ID: &str = "punctual.execution.id";
pub(crate) const JOB_NAME: &str = "punctual.job.name";
pub(crate) const JOB_NOMINAL: &str = "punctual.job.nominal";
pub(crate) const OUTCOME: &str = "punctual.outcome";
pub(crate) const SUCCESS: &str = "punctual.success";
