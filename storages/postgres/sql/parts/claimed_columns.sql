m.id, m.topic, m.priority, m.planned_at, m.created_at, m.source, m.key, m.dedupe,
    m.exclusive, m.body, m.extra, m.due_at, m.attempt, m.crashes, m.snoozes, m.token,
    m.cancel_requested, m.checkpoint
