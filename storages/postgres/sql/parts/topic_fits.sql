($9::text[] IS NULL OR m.topic = ANY($9::text[]))
          AND ($10::bool IS NOT TRUE OR NOT starts_with(m.topic, 'punctual.'))
