//! The only place that knows how messages become bytes: a version byte, then bincode.
//!
//! Decoding is bounded, refuses trailing bytes and other versions, and never panics.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Raised when a message or record changes its shape.
const VERSION: u8 = 1;

/// The largest RPC message: a table of some 100,000 records.
pub(crate) const MESSAGE_LIMIT: usize = 64 << 20;

/// The largest value in gossip. Records are under 600 bytes.
pub(crate) const GOSSIP_LIMIT: usize = 4 << 10;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("the message is empty or too large")]
    Size,
    #[error("the message has version {0}, not {VERSION}")]
    Version(u8),
    #[error("the message makes no sense")]
    Malformed,
    #[error("the message goes on after its end")]
    Trailing,
}

/// Bytes for the wire, at most `LIMIT` of them.
pub(crate) fn encode<const LIMIT: usize>(message: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    let mut bytes = vec![VERSION];
    let mut body =
        bincode::serde::encode_to_vec(message, config::<LIMIT>()).map_err(|_| CodecError::Size)?;
    bytes.append(&mut body);
    if bytes.len() > LIMIT {
        return Err(CodecError::Size);
    }
    Ok(bytes)
}

/// The message in these bytes, all of them.
pub(crate) fn decode<M: DeserializeOwned, const LIMIT: usize>(
    bytes: &[u8],
) -> Result<M, CodecError> {
    if bytes.len() > LIMIT {
        return Err(CodecError::Size);
    }
    let (&version, body) = bytes.split_first().ok_or(CodecError::Size)?;
    if version != VERSION {
        return Err(CodecError::Version(version));
    }
    let (message, read) = bincode::serde::decode_from_slice(body, config::<LIMIT>())
        .map_err(|_| CodecError::Malformed)?;
    if read < body.len() {
        return Err(CodecError::Trailing);
    }
    Ok(message)
}

const fn config<const LIMIT: usize>() -> Configuration<LittleEndian, Varint, Limit<LIMIT>> {
    bincode::config::standard().with_limit::<LIMIT>()
}

#[cfg(test)]
mod tests {
    use holdline_core::failure::Reason;
    use holdline_core::holds::{
        Body, Details, Record, Register, RouteKey, Selector, Subject, SubjectScope, Wait,
    };
    use holdline_core::ids::Fingerprint;
    use holdline_core::replica::Document;
    use holdline_core::time::{Hlc, WallMs};
    use holdline_core::tpm::{Backoff, Signal};
    use proptest::prelude::*;

    use super::*;
    use crate::gossip::keyspace::{Notice, Posted, from_value, record_key, signal_key, to_value};
    use crate::rpc::message::{Aged, Answer, AnswerBody, Blob, Hello, Request, Tables};

    fn hlc() -> impl Strategy<Value = Hlc> {
        (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(ms, counter, node)| Hlc {
            ms,
            counter,
            node,
        })
    }

    fn body() -> impl Strategy<Value = Body> {
        let reason = || prop_oneof![Just(Reason::Credential), Just(Reason::RateLimit)];
        let memory = prop::option::of((reason(), any::<u8>()));
        prop_oneof![
            memory.prop_map(|memory| Body::Free { memory }),
            (
                any::<bool>(),
                any::<u8>(),
                reason(),
                any::<u64>(),
                any::<bool>()
            )
                .prop_map(|(refused, rung, reason, ms, stated)| Body::Held {
                    refused,
                    rung,
                    reason,
                    wait: Wait { ms, stated },
                }),
        ]
    }

    fn record() -> impl Strategy<Value = Record> {
        let names = (
            ".{0,40}",
            ".{0,40}",
            any::<u64>(),
            prop::option::of(".{0,60}"),
        );
        (names, hlc(), any::<u32>(), body(), hlc(), ".{0,256}").prop_map(
            |((provider, key, print, model), release, seq, body, stamp, words)| Record {
                subject: Subject {
                    provider: provider.into(),
                    key: key.into(),
                    fingerprint: Fingerprint(print),
                    scope: model.map_or(SubjectScope::Key, |m| SubjectScope::Model(m.into())),
                },
                register: Register {
                    release,
                    seq,
                    body,
                    stamp,
                },
                details: Details {
                    words,
                    status: 401,
                    origin: "n1".to_owned(),
                    ..Details::default()
                },
            },
        )
    }

    fn signal() -> impl Strategy<Value = Signal> {
        let names = (".{0,40}", ".{0,40}", ".{0,60}");
        let backoff = (names, any::<u64>(), hlc(), any::<u64>()).prop_map(
            |((provider, key, model), print, stamp, wait_ms)| {
                let route = RouteKey {
                    provider: provider.into(),
                    key: key.into(),
                    fingerprint: Fingerprint(print),
                    model: model.into(),
                };
                Signal::Backoff(Backoff {
                    route,
                    stamp,
                    wait_ms,
                })
            },
        );
        let what = prop_oneof![
            Just(Selector::All),
            ".{0,40}".prop_map(|provider| Selector::Provider(provider.into())),
            (".{0,40}", ".{0,40}").prop_map(|(p, k)| Selector::Key(p.into(), k.into())),
            (".{0,40}", ".{0,40}", ".{0,60}").prop_map(|(p, k, m)| Selector::Model(
                p.into(),
                k.into(),
                m.into()
            )),
        ];
        let clear = (what, hlc()).prop_map(|(what, stamp)| Signal::Clear { what, stamp });
        prop_oneof![backoff, clear]
    }

    fn document() -> impl Strategy<Value = Document> {
        (".{0,40}", hlc(), prop::option::of(".{0,200}")).prop_map(|(name, stamp, body)| Document {
            name,
            stamp,
            body,
        })
    }

    fn tables() -> impl Strategy<Value = Tables> {
        let aged = (any::<u64>(), record()).prop_map(|(age_ms, record)| Aged { age_ms, record });
        let records = prop::option::of(prop::collection::vec(aged, 0..5));
        let documents = prop::option::of(prop::collection::vec(document(), 0..5));
        (records, documents).prop_map(|(records, documents)| Tables { records, documents })
    }

    proptest! {
        #[test]
        fn questions_come_back(tables in tables(), to in any::<u64>(), message: Vec<u8>) {
            for request in [Request::Exchange(tables), Request::Raft { to, message: Blob(message) }] {
                let bytes = encode::<MESSAGE_LIMIT>(&request).unwrap();
                let back: Request = decode::<Request, MESSAGE_LIMIT>(&bytes).unwrap();
                prop_assert!(back == request);
                let mut longer = bytes.clone();
                longer.push(0);
                let refused = decode::<Request, MESSAGE_LIMIT>(&longer);
                prop_assert!(refused.err() == Some(CodecError::Trailing));
                let cut = decode::<Request, MESSAGE_LIMIT>(&bytes[..bytes.len() - 1]);
                prop_assert!(cut.is_err());
            }
        }

        #[test]
        fn answers_come_back(tables in tables(), wall in any::<u64>()) {
            let answer = Answer { wall: WallMs(wall), body: AnswerBody::Tables(tables) };
            let bytes = encode::<MESSAGE_LIMIT>(&answer).unwrap();
            prop_assert!(decode::<Answer, MESSAGE_LIMIT>(&bytes).unwrap() == answer);
        }

        #[test]
        fn gossip_values_come_back_and_fit(record in record(), settled_at in any::<u64>()) {
            let posted = Posted { settled_at: WallMs(settled_at), record };
            let value = to_value(&posted).unwrap();
            prop_assert!(value.len() < 4_000, "{} bytes", value.len());
            prop_assert_eq!(from_value::<Posted>(&value).unwrap(), posted);
        }

        #[test]
        fn signals_come_back(signal in signal(), made_at in any::<u64>()) {
            let notice = Notice { made_at: WallMs(made_at), signal };
            let value = to_value(&notice).unwrap();
            prop_assert_eq!(from_value::<Notice>(&value).unwrap(), notice);
            prop_assert!(from_value::<Notice>(&value[..value.len() - 2]).is_err());
        }

        #[test]
        fn hostile_bytes_are_survived(bytes: Vec<u8>) {
            let versioned = [&[VERSION], bytes.as_slice()].concat();
            for bytes in [bytes, versioned] {
                let _ = decode::<Request, MESSAGE_LIMIT>(&bytes);
                let _ = decode::<Answer, MESSAGE_LIMIT>(&bytes);
                let _ = decode::<Hello, GOSSIP_LIMIT>(&bytes);
                let _ = decode::<Posted, GOSSIP_LIMIT>(&bytes);
                let _ = decode::<Notice, GOSSIP_LIMIT>(&bytes);
                let _ = from_value::<Posted>(&String::from_utf8_lossy(&bytes));
                let _ = from_value::<Notice>(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    #[test]
    fn a_claimed_length_allocates_nothing() {
        // A push of 2^62 records, of which none follows.
        let claim = [&[VERSION, 1, 253], &(1u64 << 62).to_le_bytes()[..]].concat();
        let refused = decode::<Request, MESSAGE_LIMIT>(&claim);
        assert!(refused.err() == Some(CodecError::Malformed));
    }

    #[test]
    fn other_versions_and_sizes_are_refused() {
        let decoded = |bytes: &[u8]| decode::<Hello, GOSSIP_LIMIT>(bytes).err();
        assert_eq!(decoded(&[]), Some(CodecError::Size));
        assert_eq!(decoded(&[9, 0, 0]), Some(CodecError::Version(9)));
        assert_eq!(
            decoded(&[VERSION; GOSSIP_LIMIT + 1]),
            Some(CodecError::Size)
        );
        assert!(encode::<GOSSIP_LIMIT>(&"x".repeat(GOSSIP_LIMIT)).is_err());
    }

    /// Every node must find a subject under the same key, in every version.
    #[test]
    fn record_keys_are_stable() {
        let subject = |scope| Subject {
            provider: "openai".into(),
            key: "k-1".into(),
            fingerprint: Fingerprint(7),
            scope,
        };
        let key = record_key(&subject(SubjectScope::Key));
        let model = record_key(&subject(SubjectScope::Model("gpt-4o".into())));
        assert_eq!((key.len(), model.len()), (34, 34));
        assert_ne!(key, model);
        assert_eq!(key, "h/96893cd15a011f8b4866a039c3c3e943");
    }

    /// A backoff is found under its region by nodes of that region only, in every version.
    #[test]
    fn signal_keys_are_stable() {
        let backoff = Signal::Backoff(Backoff {
            route: RouteKey {
                provider: "openai".into(),
                key: "k-1".into(),
                fingerprint: Fingerprint(7),
                model: "gpt-4o".into(),
            },
            stamp: Hlc::default(),
            wait_ms: 1,
        });
        let clear = Signal::Clear {
            what: Selector::Key("openai".into(), "k-1".into()),
            stamp: Hlc::default(),
        };
        let key = |signal| signal_key(signal, &"us-east".into()).unwrap();
        assert_eq!(key(&backoff), "t/us-east/e5a8fc773cc658dffcfb0cfd6b820d95");
        assert_eq!(key(&clear), "c/e9023b95d56bc717792210e3cc9b9631");
    }
}
