-- Enqueueing by SQL, for triggers, psql and other languages: in the caller's own transaction, with the
-- rules of the library. It returns the id of the message, or of the one that makes it a duplicate.

-- Validates the name of a topic, a queue or a key by the rules of Punctual.
CREATE FUNCTION {schema}.checked_name(what text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $function$
DECLARE
    trimmed text := btrim(name, E' \t\n\r\f\x0b');
BEGIN
    IF trimmed IS NULL OR trimmed = '' THEN
        RAISE EXCEPTION 'a % must not be empty; give it at least one character', what
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF char_length(trimmed) > 200 THEN
        RAISE EXCEPTION 'the % "%..." has % characters; at most 200 are allowed',
            what, left(trimmed, 20), char_length(trimmed)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF trimmed ~ E'[\x01-\x1f\x7f\u0080-\u009f]' THEN
        RAISE EXCEPTION 'the % % holds a control character; use printable characters',
            what, quote_literal(trimmed)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF left(trimmed, 1) = '~' THEN
        RAISE EXCEPTION 'the % "%" starts with ''~'', which Punctual keeps for itself; choose another first character',
            what, trimmed
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN trimmed;
END
$function$;

-- Validates headers: a JSON object of texts, within the limits of the library.
CREATE FUNCTION {schema}.checked_headers(headers jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $function$
DECLARE
    bad text;
BEGIN
    IF headers IS NULL OR headers = '{}'::jsonb THEN
        RETURN NULL;
    ELSIF jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'headers must be a JSON object of texts'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF (SELECT count(*) FROM jsonb_object_keys(headers)) > 64 THEN
        RAISE EXCEPTION 'a message may have 64 headers' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT h.key INTO bad FROM jsonb_each(headers) h
    WHERE jsonb_typeof(h.value) <> 'string' OR h.key = '' OR octet_length(h.key) > 200
       OR h.key ~ E'[\x01-\x1f\x7f\u0080-\u009f]' OR h.key LIKE 'punctual-%'
       OR octet_length(h.value #>> '{}') > 8192 OR h.value #>> '{}' ~ E'[\x01-\x1f\x7f\u0080-\u009f]'
    LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'the header "%" must be a printable text of at most 8192 bytes, and its name must not start with "punctual-"', bad
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN headers;
END
$function$;

-- An id of version 7: the time in milliseconds, then randomness.
CREATE FUNCTION {schema}.new_id() RETURNS uuid
LANGUAGE sql VOLATILE AS $function$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$function$;

-- SELECT {schema}.enqueue('mail', '{"to": "ada"}', due_at => now() + interval '1 hour');
--
-- `body` is JSON; for other bytes give `bytes` and `content_type` instead. With `notify`, waiting processes are woken
-- at the commit. Commits of a busy database are then serialized, so the default is off; polling finds the message
-- within a second.
CREATE FUNCTION {schema}.enqueue(
    topic text,
    body jsonb DEFAULT NULL,
    queue text DEFAULT 'default',
    due_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL,
    dedupe text DEFAULT NULL,
    priority integer DEFAULT 5,
    headers jsonb DEFAULT NULL,
    id uuid DEFAULT NULL,
    notify boolean DEFAULT false,
    bytes bytea DEFAULT NULL,
    content_type text DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $function$
#variable_conflict use_column
DECLARE
    made timestamptz := clock_timestamp();
    due timestamptz := coalesce(enqueue.due_at, made);
    new_topic text := {schema}.checked_name('topic', enqueue.topic);
    new_queue text := {schema}.checked_name('queue', enqueue.queue);
    new_key text := CASE WHEN enqueue.key IS NOT NULL THEN {schema}.checked_name('key', enqueue.key) END;
    new_dedupe text := CASE WHEN enqueue.dedupe IS NOT NULL
        THEN {schema}.checked_name('key', enqueue.dedupe) END;
    new_id uuid := coalesce(enqueue.id, {schema}.new_id());
    new_extra jsonb := jsonb_strip_nulls(jsonb_build_object(
        'content_type', nullif(enqueue.content_type, 'application/json'),
        'headers', {schema}.checked_headers(enqueue.headers)));
    twin uuid;
BEGIN
    IF enqueue.priority NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'the priority % must be from 0 (lowest) to 9 (highest)', enqueue.priority
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.body IS NOT NULL AND enqueue.bytes IS NOT NULL THEN
        RAISE EXCEPTION 'a message has one body: give body or bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR attempt IN 1..10 LOOP
        -- Only an id that was given can be known already.
        IF enqueue.id IS NOT NULL AND (
            EXISTS (SELECT 1 FROM {schema}.message m WHERE m.id = new_id)
            OR EXISTS (SELECT 1 FROM {schema}.dead d WHERE d.id = new_id)
            OR EXISTS (SELECT 1 FROM {schema}.history h WHERE h.message = new_id AND h.state IS NOT NULL)
        ) THEN
            RETURN new_id;
        END IF;
        IF new_dedupe IS NOT NULL THEN
            SELECT m.id INTO twin FROM {schema}.message m
            WHERE m.dedupe = new_dedupe AND m.released IS NOT TRUE;
            IF NOT FOUND THEN
                SELECT h.message INTO twin FROM {schema}.held_key h
                WHERE h.key = new_dedupe AND h.until > made AND h.message <> new_id;
            END IF;
            IF FOUND THEN
                RETURN twin;
            END IF;
        END IF;
        INSERT INTO {schema}.message (id, queue, topic, priority, source, due_at, planned_at, created_at,
            key, dedupe, body, extra)
        VALUES (new_id, new_queue, new_topic, enqueue.priority, 0, due, due, made, new_key, new_dedupe,
            coalesce(enqueue.bytes, convert_to(enqueue.body::text, 'UTF8'), ''),
            nullif(new_extra, '{}'::jsonb)::text)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            IF enqueue.notify THEN
                PERFORM pg_notify('punctual ' || btrim('{schema}', '"'), '0 '
                    || (floor(extract(epoch FROM due) * 1000000)::int8)::text || ' q' || new_queue);
            END IF;
            RETURN new_id;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'others changed the same messages at the same time; try again'
        USING ERRCODE = 'serialization_failure';
END
$function$;
