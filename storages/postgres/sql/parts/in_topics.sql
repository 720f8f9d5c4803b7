(l.topics IS NULL OR l.topics ? m.topic)
          AND (NOT l.own OR NOT starts_with(m.topic, 'punctual.'))
