//! Examples of values by key name.

use serde_json::Value;

/// Key names with an example value as JSON. A key with several kinds of values has several lines.
const EXAMPLES: [(&str, &str); 78] = [
    ("name", "\"nightly-report\""),
    ("description", "\"Sends the nightly report\""),
    ("tags", "[\"report\"]"),
    ("cron", "\"0 2 * * *\""),
    ("every", "\"5m\""),
    ("anchor", "\"2026-01-01T00:00:00Z\""),
    ("at", "\"2030-01-01T12:00:00Z\""),
    ("since", "\"2026-01-01T00:00:00Z\""),
    ("until", "\"2030-01-01T12:00:00Z\""),
    ("zone", "\"Europe/Warsaw\""),
    ("misfire", "\"fire_now\""),
    ("policy", "\"fire_now\""),
    ("threshold", "\"10s\""),
    ("window", "\"1h\""),
    ("catch_up_max", "3"),
    ("overlap", "\"skip\""),
    ("retry", "3"),
    ("retries", "3"),
    ("waits", "[\"10s\",\"1m\"]"),
    ("first", "\"10s\""),
    ("factor", "2"),
    ("cap", "\"1h\""),
    ("jitter", "\"10%\""),
    ("jitter", "0.2"),
    ("timeout", "\"30s\""),
    ("drain_timeout", "\"30s\""),
    ("when_interrupted", "\"lost\""),
    ("delay", "\"5m\""),
    ("expires_after", "\"1h\""),
    ("queue", "\"reports\""),
    ("queues", "[\"reports\"]"),
    ("priority", "5"),
    ("http", "{\"url\":\"https://example.com/hook\"}"),
    ("url", "\"https://example.com/hook\""),
    ("method", "\"POST\""),
    ("headers", "{\"X-Kind\":\"report\"}"),
    ("header", "\"Punctual-Signature\""),
    ("signature", "{\"secret\":{\"env\":\"KEY\"}}"),
    ("secret", "{\"env\":\"KEY\"}"),
    ("redirects_max", "3"),
    ("response_bytes_max", "65536"),
    ("command", "{\"program\":\"/usr/local/bin/backup\"}"),
    ("program", "\"/usr/local/bin/backup\""),
    ("programs", "[\"/usr/local/bin/backup\"]"),
    ("args", "[\"--all\"]"),
    ("directory", "\"/var/lib/backup\""),
    ("env", "{\"KIND\":\"daily\"}"),
    ("env", "[\"PATH\"]"),
    ("env", "\"NAME\""),
    ("job_env", "[\"REPORT_*\"]"),
    ("expect", "[0]"),
    ("publish", "{\"topic\":\"report\"}"),
    ("topic", "\"report\""),
    ("topics", "[\"orders.*\"]"),
    ("content_type", "\"text/plain\""),
    ("concurrency", "10"),
    ("rate", "\"10/1m\""),
    ("roles", "[\"scheduler\",\"worker\"]"),
    ("role", "\"viewer\""),
    ("listen", "\"127.0.0.1:8080\""),
    ("url_prefix", "\"/punctual\""),
    ("public_url", "\"https://punctual.example.com\""),
    ("address", "\"sqlite:punctual.db\""),
    ("mode", "\"password\""),
    ("format", "\"json\""),
    ("level", "\"info\""),
    ("certificate", "\"/etc/punctual/certificate.pem\""),
    ("key", "\"customer-7\""),
    ("hosts", "[\"*.example.com\"]"),
    ("jobs", "[\"invoice-*\"]"),
    ("allow", "[\"10.0.0.0/8\"]"),
    ("deny", "[\"10.0.0.0/8\"]"),
    ("names", "[\"password\"]"),
    ("limit", "50"),
    ("outcome", "\"done\""),
    ("otlp", "\"http://127.0.0.1:4318\""),
    ("filter", "{\"state\":\"dead\"}"),
    ("secrets", "{\"NAME\":{\"env\":\"NAME\",\"jobs\":[\"invoice-*\"]}}"),
];

/// Returns the example of the last key of a path, or a part of the example of the key around it.
pub(super) fn example(path: &[&str], fits: impl Fn(&Value) -> bool) -> Option<Value> {
    // The name of a secret is free and may equal that of a key.
    let path = match path {
        ["secrets", _] => &["secrets", "NAME"],
        path => path,
    };
    let keys = path.iter().rev().filter(|part| part.parse::<usize>().is_err()).take(2);
    for (distance, key) in keys.enumerate() {
        let is_part = distance > 0 || path.last().is_some_and(|last| last != key);
        let found = EXAMPLES.iter().filter(|(name, _)| name == key).find_map(|(_, json)| {
            let value: Value = serde_json::from_str(json).ok()?;
            if !is_part {
                return fits(&value).then_some(value);
            }
            let part = match &value {
                Value::Array(items) => items.first().cloned(),
                Value::Object(members) => members.values().next().cloned(),
                _ => None,
            };
            part.filter(|part| fits(part))
        });
        if found.is_some() {
            return found;
        }
    }
    None
}
