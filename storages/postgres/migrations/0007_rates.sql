-- The latest starts under a rate, so that no window contains more of them; after used_until they no longer count.
ALTER TABLE {schema}.rate ADD COLUMN starts text;
