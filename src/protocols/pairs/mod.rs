//! What each pair of protocols carries: seen by converting samples of every feature, and written to
//! `docs/pairs.md`.
//!
//! Nothing here says what a conversion should do. The samples say how each protocol puts a feature; the
//! outcome is the difference that the feature makes on the other side, compared with how that side puts
//! it. A feature that makes no difference there, is refused by no name and told by no name, is lost in
//! silence: that fails.

mod lossless;
mod outcome;
mod page;
mod refused;
mod sample;

use std::path::Path;

use outcome::{Outcome, Provider, deltas};
use sample::{Samples, Side, leaves};

use super::Protocol;
use super::samples::{gathered, shown};

/// Set it to write `docs/pairs.md` anew.
const REWRITE: &str = "HOLDLINE_WRITE_PAIRS";

const PROVIDERS: [Provider; 9] = [
    Provider {
        title: "chat, OpenAI",
        protocol: Protocol::Chat,
        like: "openai",
        model: "gpt-5.1",
    },
    Provider {
        title: "chat, others",
        protocol: Protocol::Chat,
        like: "groq",
        model: "openai/gpt-oss-120b",
    },
    Provider {
        title: "responses",
        protocol: Protocol::Responses,
        like: "openai",
        model: "gpt-5.1",
    },
    Provider {
        title: "messages",
        protocol: Protocol::Messages,
        like: "anthropic",
        model: "claude-sonnet-4-5",
    },
    Provider {
        title: "Gemini 2.5",
        protocol: Protocol::Generate,
        like: "gemini",
        model: "gemini-2.5-flash",
    },
    Provider {
        title: "Gemini 3",
        protocol: Protocol::Generate,
        like: "gemini",
        model: "gemini-3-flash-preview",
    },
    Provider {
        title: "Converse, Claude",
        protocol: Protocol::Converse,
        like: "bedrock",
        model: "anthropic.claude-sonnet-4-5-20250929-v1:0",
    },
    Provider {
        title: "Converse, others",
        protocol: Protocol::Converse,
        like: "bedrock",
        model: "amazon.nova-pro-v1:0",
    },
    Provider {
        title: "Cohere",
        protocol: Protocol::Cohere,
        like: "cohere",
        model: "command-a-reasoning-08-2025",
    },
];

fn samples() -> [Samples; 6] {
    [
        Samples::of(
            Protocol::Chat,
            include_str!("../../../tests/fixtures/pairs/chat.json"),
        ),
        Samples::of(
            Protocol::Responses,
            include_str!("../../../tests/fixtures/pairs/responses.json"),
        ),
        Samples::of(
            Protocol::Messages,
            include_str!("../../../tests/fixtures/pairs/messages.json"),
        ),
        Samples::of(
            Protocol::Generate,
            include_str!("../../../tests/fixtures/pairs/generate.json"),
        ),
        Samples::of(
            Protocol::Converse,
            include_str!("../../../tests/fixtures/pairs/converse.json"),
        ),
        Samples::of(
            Protocol::Cohere,
            include_str!("../../../tests/fixtures/pairs/cohere.json"),
        ),
    ]
}

fn of(samples: &[Samples], protocol: Protocol) -> &Samples {
    let found = samples.iter().find(|one| one.protocol == protocol);
    found.expect("every protocol that talks has samples")
}

/// The samples of streams say what the samples of whole answers say, to the protocol's own readers.
#[test]
fn streams_say_what_whole_answers_say() {
    for samples in &samples() {
        let spoken = samples.protocol.spoken();
        for feature in samples.features(Side::Answer) {
            let (whole, _) = samples.pair(Side::Answer, feature).unwrap();
            let whole = spoken.read_answer(whole.to_string().as_bytes()).unwrap();
            let streamed = gathered(deltas(samples.protocol, &samples.stream(Some(feature))));
            let at = format!("{:?}: {feature}", samples.protocol);
            let seen = |answer| {
                let written = spoken.write_answer(&answer, &shown());
                leaves(&serde_json::from_slice(&written).unwrap())
            };
            assert_eq!(
                whole.unplaced.is_empty(),
                streamed.unplaced.is_empty(),
                "{at}"
            );
            assert_eq!(seen(whole), seen(streamed), "{at}");
        }
    }
}

/// Everything arrives, is refused, or is told: and `docs/pairs.md` says so.
#[test]
fn what_each_pair_carries_is_documented() {
    let samples = samples();
    let mut silent = Vec::new();
    let mut page = page::Page::default();
    for client in &samples {
        let to: Vec<&Provider> = PROVIDERS
            .iter()
            .filter(|to| to.protocol != client.protocol)
            .collect();
        let rows = client.features(Side::Request).into_iter().map(|feature| {
            let cells = to.iter().map(|to| {
                let outcome = outcome::of_request(client, feature, to, of(&samples, to.protocol));
                if outcome == Outcome::Silent {
                    silent.push(format!("{:?} -> {}: {feature}", client.protocol, to.title));
                }
                vec![outcome]
            });
            (feature.to_owned(), cells.collect())
        });
        let rows: Vec<_> = rows.collect();
        let titles: Vec<&str> = to.iter().map(|to| to.title).collect();
        page.requests(client.protocol, &titles, &rows);
    }
    for provider in &samples {
        let to: Vec<&Samples> = samples
            .iter()
            .filter(|to| to.protocol != provider.protocol)
            .collect();
        let rows = provider.features(Side::Answer).into_iter().map(|feature| {
            let cells = to.iter().map(|client| {
                let (whole, streamed) = outcome::of_answer(provider, feature, client);
                for (how, outcome) in [("whole", &whole), ("streamed", &streamed)] {
                    if *outcome == Outcome::Silent {
                        let pair = (provider.protocol, client.protocol);
                        silent.push(format!("answer {pair:?} {how}: {feature}"));
                    }
                }
                vec![whole, streamed]
            });
            (feature.to_owned(), cells.collect())
        });
        let rows: Vec<_> = rows.collect();
        let titles: Vec<&str> = to.iter().map(|to| page::short(to.protocol)).collect();
        page.answers(provider.protocol, &titles, &rows);
    }
    assert!(silent.is_empty(), "lost in silence:\n{}", silent.join("\n"));

    let page = page.finish();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pairs.md");
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == page,
        "docs/pairs.md is out of date: run the test with {REWRITE}=1 and look at what changed"
    );
}
