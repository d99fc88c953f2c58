//! Requests for embeddings and their answers, between every two protocols that have them.

use crate::assert_json;
use crate::protocols::talk::{Texts, Vectors};
use crate::protocols::{Protocol, Shown, To};

const CLIENTS: [Protocol; 3] = [
    Protocol::Embeddings,
    Protocol::EmbedContent,
    Protocol::BatchEmbedContents,
];

/// Nobody asks the gateway in Vertex AI's own.
const PROVIDERS: [Protocol; 4] = [
    Protocol::Embeddings,
    Protocol::EmbedContent,
    Protocol::BatchEmbedContents,
    Protocol::Predict,
];

const TO: To<'_> = To {
    model: "m",
    stream: false,
    provider: "p",
};

/// What must hold of an input: its first line as a request, each other one as an answer, of any of the protocols.
pub fn check(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let asked: Vec<Texts> = CLIENTS
        .into_iter()
        .filter_map(|of| request(of, first))
        .collect();
    for line in lines.take(4) {
        for of in PROVIDERS {
            if let Ok(vectors) = of.spoken().read_vectors(line) {
                answer(&vectors, &asked, line.len());
            }
        }
    }
}

/// A request is refused by a field's name, or written for each provider so that its protocol reads as many texts.
fn request(of: Protocol, body: &[u8]) -> Option<Texts> {
    let texts = match of.spoken().read_texts(body) {
        Ok(texts) => texts,
        Err(malformed) => {
            assert!(!malformed.path.is_empty() && !malformed.message.is_empty());
            return None;
        }
    };
    assert!(!texts.texts.is_empty());
    for to in PROVIDERS {
        match to.spoken().write_texts(&texts, TO) {
            Ok(written) => {
                assert_json(&written.body);
                assert!(written.body.len() <= 32 * body.len() + 8_192);
                if to == Protocol::Predict {
                    continue;
                }
                let again = to.spoken().read_texts(&written.body);
                let count = again.as_ref().map(|again| again.texts.len());
                let text = String::from_utf8_lossy(&written.body);
                assert_eq!(
                    count.ok(),
                    Some(texts.texts.len()),
                    "{to:?}: {again:?}: {text}"
                );
            }
            Err(unsaid) => {
                assert!(!of.spoken().name_of_text(unsaid.field).is_empty());
                assert!(!unsaid.message.is_empty());
            }
        }
    }
    Some(texts)
}

/// An answer is written for each client, whatever it asked for, so that its protocol reads as many vectors.
fn answer(vectors: &Vectors, asked: &[Texts], bytes: usize) {
    let shown = Shown {
        id: "request-1".to_owned(),
        model: "model-1".to_owned(),
        created: 1_700_000_000,
        include_usage: false,
        text_tools: Vec::new(),
    };
    for client in CLIENTS {
        for texts in asked {
            let written = client.spoken().write_vectors(vectors, texts, &shown);
            assert_json(&written);
            assert!(written.len() <= 64 * bytes + 8_192);
            let again = client.spoken().read_vectors(&written);
            if client != Protocol::EmbedContent {
                let count = again.as_ref().map(|again| again.vectors.len());
                let text = String::from_utf8_lossy(&written);
                assert_eq!(
                    count.ok(),
                    Some(vectors.vectors.len()),
                    "{client:?}: {text}"
                );
            }
        }
    }
}

/// Where inputs grow from: a request and an answer of each protocol.
pub fn samples() -> Vec<String> {
    [
        r#"{"model":"m","input":["a","b"],"dimensions":2,"encoding_format":"base64"}
{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-0.2]},{"object":"embedding","index":1,"embedding":"AACAPwAAAMA="}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}"#,
        r#"{"content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_DOCUMENT","title":"t","outputDimensionality":2}
{"embedding":{"values":[0.1,-0.2]},"usageMetadata":{"promptTokenCount":2}}"#,
        r#"{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY"},{"content":{"parts":[{"text":"b"}]}}]}
{"embeddings":[{"values":[0.1]},{"values":[1e3]}]}"#,
        r#"{"instances":[{"content":"a","task_type":"RETRIEVAL_DOCUMENT","title":"t"}],"parameters":{"outputDimensionality":2}}
{"predictions":[{"embeddings":{"values":[0.1,-0.2],"statistics":{"token_count":2,"truncated":false}}}]}"#,
    ]
    .map(str::to_owned)
    .into()
}
