-- The latest starts under a rate, so that no window holds more of them; used_until says when they count no more.
ALTER TABLE {schema}.rate ADD COLUMN starts text;
