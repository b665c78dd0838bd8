//! Takes whatever may be a key out of a text. Pure.

/// What stands in the place of a key.
pub const REMOVED: &str = "[removed]";
/// Keys of a cluster have 64 hexadecimal digits; half of one is too much already.
const HEX_MIN: usize = 32;
/// Private keys are 32 bytes in Base64: 43 characters and a `=`.
const BASE64_MIN: usize = 42;

/// The text without runs of characters that may be keys, and without `secrets`, which are known to be some.
pub fn scrub(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret.as_str(), REMOVED);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(begin) = rest.find(is_base64) {
        out.push_str(&rest[..begin]);
        rest = &rest[begin..];
        let end = rest.find(|c| !is_base64(c)).unwrap_or(rest.len());
        out.push_str(
            without_keys(&rest[..end])
                .as_deref()
                .unwrap_or(&rest[..end]),
        );
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

const fn is_base64(c: char) -> bool {
    matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '+' | '/' | '=' | '_' | '-')
}

/// A run of such characters, if there may be a key in it.
fn without_keys(run: &str) -> Option<String> {
    // A path is no key. A key may stand in one, and none of its parts is as long by chance.
    let parts = run.split('/');
    let is_key = |part: &str| part.len() >= BASE64_MIN && part.bytes().any(|b| b.is_ascii_digit());
    if parts.clone().any(is_key) || looks_like_base64(run) || has_hex(run) {
        return Some(REMOVED.to_owned());
    }
    None
}

/// Whether a run with slashes is Base64 rather than a path: 32 bytes of it have capitals, small letters and digits.
fn looks_like_base64(run: &str) -> bool {
    let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
    let is_mixed =
        has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    run.len() >= BASE64_MIN && is_mixed
}

/// Whether as many digits follow each other as half a key has.
fn has_hex(run: &str) -> bool {
    let mut digits = 0;
    run.bytes().any(|b| {
        digits = if b.is_ascii_hexdigit() { digits + 1 } else { 0 };
        digits >= HEX_MIN
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    const BASE64: &str = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=";
    const WITH_SLASHES: &str = "q83v/jRWeJCrze8SN/Z4kKvN7xI0VniQq83/EjRW+JA=";

    #[test]
    fn whatever_may_be_a_key_is_taken_out() {
        for key in [
            HEX,
            &HEX[..63],
            &HEX[..32],
            BASE64,
            &BASE64[..43],
            WITH_SLASHES,
        ] {
            for (before, behind) in [
                ("", ""),
                ("key=\"", "\"\n"),
                ("a ", "."),
                ("TABANE_KEY=", " x"),
                ("x/", "/y"),
            ] {
                let shown = scrub(&format!("{before}{key}{behind}"), &[]);
                assert!(!shown.contains(&key[4..20]), "{shown}");
                assert!(shown.contains(REMOVED), "{shown}");
            }
        }
    }

    #[test]
    fn what_is_known_to_be_a_secret_is_taken_out_however_short() {
        let secrets = ["hunter2".to_owned(), String::new()];
        assert_eq!(
            scrub("say hunter2 twice: hunter2", &secrets),
            "say [removed] twice: [removed]"
        );
    }

    #[test]
    fn what_helps_stays() {
        for text in [
            "10.77.0.1:7577 fd77:1::2/64 02:ab:cd:ef:00:01",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "2026-11-29T11:32:50.123Z link 0 to n1 failed: Größe – ok",
            "\"alone_out_mbps\":941.5,\"buffer_dropped_packets\":0",
            "",
        ] {
            assert_eq!(scrub(text, &[]), text);
        }
    }
}
