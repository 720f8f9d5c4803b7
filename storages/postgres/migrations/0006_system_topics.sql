-- Topics that begin with `punctual.` belong to Punctual: their handlers run programs and call addresses with
-- secrets, so `enqueue` refuses them as the library does.
CREATE OR REPLACE FUNCTION {schema}.checked_name(what text, name text) RETURNS text
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
    ELSIF what = 'topic' AND starts_with(trimmed, 'punctual.') THEN
        RAISE EXCEPTION 'the topic "%" begins with "punctual.", which Punctual keeps for itself; choose another name',
            trimmed
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN trimmed;
END
$function$;
