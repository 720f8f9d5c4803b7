//! Fingerprints of errors: variable parts such as numbers and ids are replaced, so that the same failure of many
//! messages is one group. Pure and stable: the same text has the same fingerprint in every process and version.

use crate::schedule::stable_hash;

/// Number of characters of an error that count; the rest is mostly a stack trace.
const LEN_MAX: usize = 1_000;

/// Returns an error with variable parts replaced: `<n>` for numbers, `<id>` for ids and hashes, `<text>` for quoted
/// texts, `<address>` for hosts, mail addresses, URLs and sockets.
fn normalize(error: &str) -> String {
    let line: String = error.chars().take(LEN_MAX).collect();
    let unquoted = unquoted(&line);
    let words: Vec<String> = unquoted.split_whitespace().map(word).collect();
    words.join(" ")
}

/// Returns the group of a dead letter: sixteen hexadecimal digits.
pub(crate) fn fingerprint(topic: &str, job: Option<&str>, error: Option<&str>) -> String {
    let error = normalize(error.unwrap_or(""));
    let parts = [topic.as_bytes(), job.unwrap_or("").as_bytes(), error.as_bytes()];
    format!("{:016x}", stable_hash(&parts))
}

/// Returns the text with quoted parts replaced. A quote inside a word, as in `can't`, is not an opening quote.
fn unquoted(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(letter) = rest.chars().next() {
        let behind = &rest[letter.len_utf8()..];
        let opens = matches!(letter, '"' | '`') || (letter == '\'' && !before.is_alphanumeric());
        if let Some(end) = behind.find(letter).filter(|_| opens) {
            plain.push_str("<text>");
            rest = &behind[end + letter.len_utf8()..];
        } else {
            plain.push(letter);
            rest = behind;
        }
        before = letter;
    }
    plain
}

/// Returns a word with its punctuation, and its core replaced if it is variable.
fn word(word: &str) -> String {
    let edge = |letter: char| matches!(letter, '(' | ')' | '[' | ']' | ',' | ';' | ':' | '.' | '!');
    // Brackets and colons may belong to an address.
    let whole = word.trim_start_matches('(').trim_end_matches([',', ';', '.', '!', ')']);
    let core = if is_address(whole) { whole } else { word.trim_matches(edge) };
    let Some(start) = word.find(core).filter(|_| !core.is_empty()) else { return word.to_owned() };
    let (front, back) = (&word[..start], &word[start + core.len()..]);
    let replaced = if is_address(core) {
        "<address>".to_owned()
    } else if is_id(core) {
        "<id>".to_owned()
    } else {
        without_numbers(core)
    };
    format!("{front}{replaced}{back}")
}

/// Returns whether a word is a URL, a mail address, an IP address, or a host with a port.
fn is_address(core: &str) -> bool {
    if core.contains("://") {
        return true;
    }
    if let Some((name, host)) = core.split_once('@') {
        return !name.is_empty() && host.contains('.');
    }
    let port = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    match core.rsplit_once(':') {
        Some((host, digits)) if port(digits) && is_host(host.trim_matches(['[', ']'])) => true,
        _ => core.parse::<std::net::IpAddr>().is_ok(),
    }
}

fn is_host(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
        || host == "localhost"
        || (host.contains('.') && host.chars().any(char::is_alphabetic))
}

/// Returns whether a word is a UUID, or a long run of hexadecimal digits with both letters and digits.
fn is_id(core: &str) -> bool {
    let digits = core.strip_prefix("0x").unwrap_or(core);
    let plain: String = digits.chars().filter(|letter| *letter != '-').collect();
    plain.len() >= 8
        && plain.chars().all(|letter| letter.is_ascii_hexdigit())
        && plain.chars().any(|letter| letter.is_ascii_digit())
        && !plain.chars().all(|letter| letter.is_ascii_digit())
}

/// Returns a word with each number replaced; `12.5` and `1,000` are one number.
fn without_numbers(core: &str) -> String {
    let letters: Vec<char> = core.chars().collect();
    let digit = |index: usize| letters.get(index).is_some_and(char::is_ascii_digit);
    let (mut plain, mut index) = (String::with_capacity(core.len()), 0);
    while index < letters.len() {
        if !digit(index) {
            plain.push(letters[index]);
            index += 1;
            continue;
        }
        plain.push_str("<n>");
        while digit(index) || (matches!(letters.get(index), Some('.' | ',')) && digit(index + 1)) {
            index += 1;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_parts_are_replaced() {
        for (error, expected) in [
            ("connection refused", "connection refused"),
            ("timed out after 30s", "timed out after <n>s"),
            ("took 12.5 of 1,000 ms", "took <n> of <n> ms"),
            ("order 4711 is unknown.", "order <n> is unknown."),
            ("no user \"ada lovelace\" here", "no user <text> here"),
            ("no column 'name' in `orders`", "no column <text> in <text>"),
            ("can't reach it, won't try", "can't reach it, won't try"),
            ("an open \" quote", "an open \" quote"),
            ("message 01890a5d-ac96-774b-bcce-b302099a8057 lost", "message <id> lost"),
            ("commit deadbeef01: no", "commit <id>: no"),
            ("pointer 0x7fff5694dc58", "pointer <id>"),
            ("the facade decade", "the facade decade"),
            ("GET https://shop.example/o/7?x=1 failed", "GET <address> failed"),
            ("mail to ada@example.com bounced", "mail to <address> bounced"),
            ("cannot connect to 10.1.2.3:5432", "cannot connect to <address>"),
            ("cannot connect to db.example:5432", "cannot connect to <address>"),
            ("host 192.168.0.1 is down", "host <address> is down"),
            ("[::1]:80 is closed (see ::1).", "<address> is closed (see <address>)."),
            ("status: 503 (attempt 2)", "status: <n> (attempt <n>)"),
            ("a\n  trace   follows", "a trace follows"),
            ("", ""),
        ] {
            assert_eq!(normalize(error), expected, "{error:?}");
        }
    }

    #[test]
    fn a_group_is_topic_job_and_normalized_error() {
        let one = fingerprint("mail", None, Some("order 1 is unknown"));
        assert_eq!(one, fingerprint("mail", None, Some("order 22 is unknown")));
        assert_eq!(one.len(), 16);
        for other in [
            fingerprint("post", None, Some("order 1 is unknown")),
            fingerprint("mail", Some("nightly"), Some("order 1 is unknown")),
            fingerprint("mail", None, Some("order 1 is closed")),
            fingerprint("mail", None, None),
        ] {
            assert_ne!(one, other);
        }
        let long = format!("{}a", "x ".repeat(600));
        let other = format!("{}b", "x ".repeat(600));
        assert_eq!(fingerprint("mail", None, Some(&long)), fingerprint("mail", None, Some(&other)));
    }
}
