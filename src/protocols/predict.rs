//! Embeddings as Vertex AI's `predict` takes them: only providers speak it.
//!
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api>

use bytes::BytesMut;
use serde::Serialize;
use serde_with::skip_serializing_none;

use super::json::Member;
use super::talk::{Texts, Usage, Vectors};
use super::{
    Edits, Event, Malformed, Seen, Spoken, To, UnsaidText, WrittenTexts, generate, write_event,
};
use crate::api::error::ApiError;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Predict;

#[derive(Serialize)]
struct Body<'a> {
    instances: Vec<Instance<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Parameters>,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct Instance<'a> {
    content: &'a str,
    task_type: Option<&'a str>,
    title: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    output_dimensionality: u64,
}

impl Spoken for Predict {
    fn edits(&self) -> Edits {
        Edits::default()
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        let input = self.read_vectors(answer).ok()?.tokens?;
        Some(Usage {
            input,
            ..Usage::default()
        })
    }

    fn seen(&self, _event: &Event, _committed: bool) -> Seen {
        Seen::OUTPUT
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        generate::Generate.error(error)
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &self.error(error), out);
    }

    fn write_texts(&self, texts: &Texts, _to: To<'_>) -> Result<WrittenTexts, UnsaidText> {
        let instances = texts.texts.iter().map(|text| Instance {
            content: &text.text,
            task_type: text.task.as_deref(),
            title: text.title.as_deref(),
        });
        let body = Body {
            instances: instances.collect(),
            parameters: texts.dimensions.map(|output_dimensionality| Parameters {
                output_dimensionality,
            }),
        };
        let body = serde_json::to_vec(&body).expect("strings and numbers can be written");
        Ok(WrittenTexts {
            body: body.into(),
            dropped: Vec::new(),
        })
    }

    fn read_vectors(&self, body: &[u8]) -> Result<Vectors, Malformed> {
        let mut top = Member::root(body)?.object()?;
        let mut read = Vectors::default();
        for prediction in top.need("predictions")?.items()? {
            let mut embedding = prediction.object()?.need("embeddings")?.object()?;
            let values = embedding.need("values")?;
            read.vectors.push(values.numbers()?);
            let Some(statistics) = embedding.take("statistics") else {
                continue;
            };
            // Some write whole numbers as `6.0`.
            let count = statistics.object()?.read("token_count", "a number")?;
            let count: f64 = count.unwrap_or(0.0);
            read.tokens = Some(read.tokens.unwrap_or(0).saturating_add(whole(count)));
        }
        Ok(read)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is negative or no number becomes 0, and no text has 2^53 tokens"
)]
const fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::protocols::json::Json;
    use crate::protocols::talk::Text;

    const TO: To<'_> = To {
        model: "text-embedding-005",
        stream: false,
        provider: "vertex",
    };

    #[test]
    fn each_text_is_an_instance() {
        let texts = Texts {
            texts: vec![
                Text {
                    text: "a \"b\"".to_owned(),
                    task: Some("RETRIEVAL_DOCUMENT".to_owned()),
                    title: Some("t".to_owned()),
                },
                Text {
                    text: "c".to_owned(),
                    ..Text::default()
                },
            ],
            dimensions: Some(256),
            ..Texts::default()
        };
        let written = Predict.write_texts(&texts, TO).unwrap();
        let body: Value = serde_json::from_slice(&written.body).unwrap();
        assert_eq!(
            body,
            json!({"instances": [
                {"content": "a \"b\"", "task_type": "RETRIEVAL_DOCUMENT", "title": "t"},
                {"content": "c"},
            ], "parameters": {"outputDimensionality": 256}})
        );
        let plain = Texts {
            dimensions: None,
            ..texts
        };
        let written = Predict.write_texts(&plain, TO).unwrap();
        assert!(!written.body.windows(10).any(|w| w == b"parameters"));
    }

    /// As Vertex answered.
    #[test]
    fn predictions_are_vectors_with_their_tokens() {
        let body = br#"{"predictions":[
            {"embeddings":{"statistics":{"truncated":false,"token_count":6},"values":[-0.0051,0.0219]}},
            {"embeddings":{"statistics":{"truncated":false,"token_count":3.0},"values":[1,2e-3]}}],
            "metadata":{"billableCharacterCount":20}}"#;
        let read = Predict.read_vectors(body).unwrap();
        let texts: Vec<&str> = read.vectors.iter().map(Json::text).collect();
        assert_eq!(texts, ["[-0.0051,0.0219]", "[1,2e-3]"]);
        assert_eq!(read.tokens, Some(9));
        assert_eq!(Predict.usage(body).unwrap().input, 9);
        for broken in [
            "{}",
            r#"{"predictions":[{}]}"#,
            r#"{"predictions":[{"embeddings":{"values":["x"]}}]}"#,
        ] {
            assert!(Predict.read_vectors(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
