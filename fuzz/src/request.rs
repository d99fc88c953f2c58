//! A client's request, written for every provider.

use crate::protocols::json::is_too_deep;
use crate::protocols::{Protocol, To};
use crate::assert_json;

/// Providers and models that requests are written for differently.
const TO: [(Protocol, &str, &str); 12] = [
    (Protocol::Chat, "openai", "gpt-5"),
    (Protocol::Chat, "groq", "llama"),
    (Protocol::Messages, "anthropic", "claude-sonnet-4-5"),
    (Protocol::Responses, "openai", "gpt-5"),
    (Protocol::Generate, "gemini", "gemini-2.5-pro"),
    (Protocol::Generate, "gemini", "gemini-3-flash"),
    (Protocol::Generate, "gemini", "gemini-2.0-flash"),
    (Protocol::Converse, "bedrock", "anthropic.claude-sonnet-4"),
    (Protocol::Converse, "bedrock", "openai.gpt-oss-120b"),
    (Protocol::Converse, "bedrock", "amazon.nova-pro"),
    (Protocol::Cohere, "cohere", "command-a"),
    (Protocol::Chat, "mistral", "large"),
];

/// What must hold of these bytes as a client's request: they are refused by a field's name, or become a
/// body for each provider that is JSON, is about as long, and can be read by who speaks its protocol.
pub fn check(client: Protocol, body: &[u8]) {
    // Refused before, whatever the protocol.
    if is_too_deep(body) {
        return;
    }
    let spoken = client.spoken();
    let request = match spoken.read_request(body) {
        Ok(request) => request,
        Err(malformed) => {
            assert!(!malformed.path.is_empty() && !malformed.message.is_empty());
            return;
        }
    };
    assert!(request.unplaced.iter().all(|path| !path.is_empty()));
    for (n, (protocol, provider, model)) in TO.into_iter().enumerate() {
        if protocol == client {
            continue;
        }
        let to = To {
            model,
            stream: n % 2 == 0,
            provider,
        };
        match protocol.spoken().write_request(&request, to) {
            Ok(written) => {
                assert_json(&written.body);
                let longest = 32 * body.len() + 8_192;
                assert!(written.body.len() <= longest, "{}", written.body.len());
                for field in written.dropped {
                    assert!(!spoken.name_of(field).is_empty());
                }
                let again = protocol.spoken().read_request(&written.body);
                let text = String::from_utf8_lossy(&written.body);
                let is_read = match &again {
                    Ok(_) => true,
                    // Two results of one call, types that there are not: the client's own mistakes, which
                    // only some protocols find. An address that Bedrock alone can read: none is converted
                    // from there.
                    Err(malformed) => ["belongs to no", "is of a kind", "can be read by"]
                        .iter()
                        .any(|known| malformed.message.starts_with(known)),
                };
                assert!(is_read, "{protocol:?}: {again:?}: {text}");
            }
            Err(unsupported) => {
                assert!(!spoken.name_of(unsupported.field).is_empty());
                assert!(!unsupported.message.is_empty());
            }
        }
    }
}
