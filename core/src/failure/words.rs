//! The provider's own words, fit to be kept and shown: no secret, no control character, short.

use super::class::FailureClass;
use super::facts::Facts;

/// The most characters that are kept.
pub const MAX_CHARS: usize = 256;

/// What stands where a secret stood.
const REDACTED: &str = "[redacted]";

/// A token this long that mixes letters and digits is taken for a key.
const KEY_SHAPED: usize = 20;

/// A token with a known prefix this long is taken for a key, whatever is in it.
const PREFIXED: usize = 8;

/// How the keys of well-known providers begin, in lower case.
const PREFIXES: [&str; 14] = [
    "sk-", "sk_", "pk-", "pk_", "rk_", "aiza", "akia", "asia", "gsk_", "xai-", "hf_", "ghp_",
    "eyj", "vk-",
];

/// A sent secret shorter than this would blank out plain words.
const SHORTEST_SECRET: usize = 4;

/// The provider's words, without the secrets that were sent (`secrets`) and without anything that
/// looks like one.
#[must_use]
pub fn words(facts: &Facts, secrets: &[&str]) -> String {
    scrub(&facts.message, secrets)
}

/// Any text, scrubbed like [`words`].
#[must_use]
pub fn scrub(text: &str, secrets: &[&str]) -> String {
    let spaced: String = text
        .chars()
        .map(|c| {
            if c.is_control() || is_invisible(c) {
                ' '
            } else {
                c
            }
        })
        .collect();
    let without_sent = redact_sent(spaced, secrets);
    let mut out = String::with_capacity(without_sent.len());
    let mut after_scheme = false;
    for piece in without_sent.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        if after_scheme && !piece.starts_with(REDACTED) {
            out.push_str(REDACTED);
        } else {
            redact_tokens(piece, secrets, &mut out);
        }
        after_scheme = names_scheme(piece);
    }
    let scrubbed = redact_sent(out, secrets);
    scrubbed.chars().take(MAX_CHARS).collect()
}

/// The failure's type for trails and logs: fixed for the classes that hold a key, else the provider's
/// own where it is a bare identifier.
#[must_use]
pub fn label(class: FailureClass, facts: Option<&Facts>) -> String {
    let own = || {
        facts
            .and_then(|facts| facts.kind.as_deref())
            .filter(|kind| is_bare_identifier(kind))
    };
    let label = match class {
        FailureClass::Credential => "authentication_error",
        FailureClass::Quota => "billing_error",
        FailureClass::ModelAccess => "model_access_error",
        FailureClass::ModelGone => "model_retired_error",
        FailureClass::RegionBlocked => "region_blocked_error",
        FailureClass::RateLimit => "rate_limit_error",
        FailureClass::Transient => own().unwrap_or("server_error"),
        FailureClass::CallerFault => own().unwrap_or("invalid_request_error"),
        FailureClass::Unknown => own().unwrap_or("unknown_error"),
        FailureClass::Timeout => "request_timed_out",
        FailureClass::Cancelled => "request_cancelled",
    };
    label.to_owned()
}

/// Letters joined by `_`, `.` or `-`, short: nothing that could be a secret or a sentence.
fn is_bare_identifier(text: &str) -> bool {
    const LONGEST: usize = 48;
    !text.is_empty()
        && text.len() <= LONGEST
        && text
            .bytes()
            .all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.' | b'-'))
        && !PREFIXES
            .iter()
            .any(|prefix| text.to_ascii_lowercase().starts_with(prefix))
}

fn redact_sent(mut text: String, secrets: &[&str]) -> String {
    for secret in secrets {
        if secret.len() >= SHORTEST_SECRET {
            text = text.replace(secret, REDACTED);
        }
    }
    text
}

/// Characters that hide in a text and could split a key in two.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// The next token is a credential.
fn names_scheme(piece: &str) -> bool {
    let word = piece.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// Copies a piece without white space, with its key-shaped tokens redacted.
fn redact_tokens(piece: &str, secrets: &[&str], out: &mut String) {
    let mut rest = piece;
    while !rest.is_empty() {
        let start = rest.find(is_token_char).unwrap_or(rest.len());
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_token_char(c)).unwrap_or(rest.len());
        let token = &rest[..end];
        let secret = is_key_shaped(token) || secrets.iter().any(|sent| begin_alike(token, sent));
        out.push_str(if secret { REDACTED } else { token });
        rest = &rest[end..];
    }
}

/// What keys are made of. Masks (`sk-abc***xyz`) belong to the token they hide.
const fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '+' | '~' | '.' | '/' | '…')
}

fn is_key_shaped(token: &str) -> bool {
    let lower = token.to_ascii_lowercase();
    let known = PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
    if known && token.len() >= PREFIXED {
        return true;
    }
    token
        .split(['/', '.'])
        .any(|part| part.len() >= KEY_SHAPED && is_mixed(part) && !is_name(part))
}

/// Providers like to repeat the beginning of a key, and to mask or cut the rest.
fn begin_alike(token: &str, secret: &str) -> bool {
    let alike = token
        .bytes()
        .zip(secret.bytes())
        .take_while(|(a, b)| a == b);
    alike.count() >= PREFIXED
}

fn is_mixed(part: &str) -> bool {
    part.bytes().any(|b| b.is_ascii_digit()) && part.bytes().any(|b| b.is_ascii_alphabetic())
}

/// `claude-3-5-sonnet-20241022`: words, numbers up to a date, and short mixtures such as `4o` or `70b`.
fn is_name(part: &str) -> bool {
    const DATE: usize = 8;
    const MIXTURE: usize = 4;
    part.split('-').all(|word| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        digits == 0 || (digits == word.len() && digits <= DATE) || word.len() <= MIXTURE
    })
}

#[cfg(test)]
mod tests;
