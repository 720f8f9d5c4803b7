//! Address parts: percent-decoding for transports whose client library does not parse addresses.

/// Decodes percent-encoding such as `%40`; returns `None` for an incomplete code and for bytes that are not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_decoded_and_broken_ones_are_refused() {
        assert_eq!(percent_decode("s%40c@ret%C3%A9").as_deref(), Some("s@c@reté"));
        for broken in ["%", "%4", "%4@", "%zz", "%ff"] {
            assert_eq!(percent_decode(broken), None, "{broken}");
        }
    }
}
