//! Capped options: the options of a handler with a subscription's limit of attempts.

use std::sync::Arc;

use crate::policy::EffectiveHandlerOptions;

/// Cache of handler options with a limit of attempts: a handler's options are the same for every message.
#[derive(Default)]
pub(super) struct CappedOptions {
    last: Option<(Arc<EffectiveHandlerOptions>, Arc<EffectiveHandlerOptions>)>,
}

impl CappedOptions {
    pub(super) fn cap(
        &mut self,
        handler_options: &Arc<EffectiveHandlerOptions>,
        attempts_max: u32,
    ) -> Arc<EffectiveHandlerOptions> {
        if handler_options.retry.attempts_max.is_some_and(|count| count <= attempts_max) {
            return handler_options.clone();
        }
        if let Some((of, capped)) = &self.last
            && Arc::ptr_eq(of, handler_options)
        {
            return capped.clone();
        }
        let mut capped = (**handler_options).clone();
        capped.retry.attempts_max = Some(attempts_max);
        let capped = Arc::new(capped);
        self.last = Some((handler_options.clone(), capped.clone()));
        capped
    }
}
