-- The latest starts under a rate, so that no window contains more of them; after used_until they no longer count.
ALTER TABLE punctual_rate ADD COLUMN starts TEXT;
