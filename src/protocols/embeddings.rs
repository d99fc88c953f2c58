//! OpenAI's embeddings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use serde::Serialize;

use super::json::{Json, Member, Object, read_request};
use super::talk::{Text, TextField, Texts, Usage, Vectors};
use super::{
    Edits, Event, Malformed, Seen, Shown, Spoken, To, UnsaidText, WrittenTexts, chat, write_event,
};
use crate::api::error::ApiError;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub struct Embeddings;

/// Members that the gateway has read already, or that are its own.
const DEALT_WITH: [&str; 2] = ["model", "fallbacks"];

impl Spoken for Embeddings {
    fn edits(&self) -> Edits {
        Edits {
            model: true,
            ..Edits::default()
        }
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        chat::usage(answer)
    }

    fn seen(&self, _event: &Event, _committed: bool) -> Seen {
        Seen::OUTPUT
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        error.to_json()
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &error.to_json(), out);
    }

    fn name_of_text(&self, _field: TextField) -> &'static str {
        "input"
    }

    fn read_texts(&self, body: &[u8]) -> Result<Texts, Malformed> {
        let (texts, unplaced) = read_request(body, members)?;
        Ok(Texts { unplaced, ..texts })
    }

    fn write_texts(&self, texts: &Texts, to: To<'_>) -> Result<WrittenTexts, UnsaidText> {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            input: Vec<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            dimensions: Option<u64>,
        }
        let body = Body {
            model: to.model,
            input: texts.texts.iter().map(|text| &*text.text).collect(),
            dimensions: texts.dimensions,
        };
        let mut dropped = Vec::new();
        if texts.texts.iter().any(|text| text.task.is_some()) {
            dropped.push(TextField::Task);
        }
        if texts.texts.iter().any(|text| text.title.is_some()) {
            dropped.push(TextField::Title);
        }
        let body = serde_json::to_vec(&body).expect("strings and numbers can be written");
        Ok(WrittenTexts {
            body: body.into(),
            dropped,
        })
    }

    fn read_vectors(&self, body: &[u8]) -> Result<Vectors, Malformed> {
        let mut top = Member::root(body)?.object()?;
        let mut vectors = Vec::new();
        for item in top.need("data")?.items()? {
            let mut item = item.object()?;
            let index: Option<u64> = item.read("index", "a whole number")?;
            let vector = item.need("embedding")?;
            let numbers = if vector.is_text() {
                unpacked(&vector)?
            } else {
                vector.numbers()?
            };
            vectors.push((index.unwrap_or(0), numbers));
        }
        vectors.sort_by_key(|(index, _)| *index);
        Ok(Vectors {
            vectors: vectors.into_iter().map(|(_, vector)| vector).collect(),
            model: top.text("model")?.unwrap_or_default(),
            tokens: chat::usage(body).map(|usage| usage.input),
        })
    }

    fn write_vectors(&self, vectors: &Vectors, texts: &Texts, shown: &Shown) -> Vec<u8> {
        let data = vectors.vectors.iter().enumerate();
        let tokens = vectors.tokens.unwrap_or(0);
        let list = List {
            object: "list",
            data: data
                .map(|(index, vector)| Item {
                    object: "embedding",
                    index,
                    embedding: if texts.base64 {
                        Embedding::Packed(packed(vector))
                    } else {
                        Embedding::Numbers(vector)
                    },
                })
                .collect(),
            model: shown.model_or(&vectors.model),
            usage: Counts {
                prompt_tokens: tokens,
                total_tokens: tokens,
            },
        };
        serde_json::to_vec(&list).expect("strings and numbers can be written")
    }
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Item<'a>>,
    model: &'a str,
    usage: Counts,
}

#[derive(Serialize)]
struct Item<'a> {
    object: &'static str,
    index: usize,
    embedding: Embedding<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Embedding<'a> {
    Numbers(&'a Json),
    Packed(String),
}

#[derive(Serialize)]
struct Counts {
    prompt_tokens: u64,
    total_tokens: u64,
}

fn members(top: &mut Object<'_>) -> Result<Texts, Malformed> {
    top.skip(&DEALT_WITH);
    let input = top.need("input")?;
    let texts = if input.is_list() {
        let items = input.items()?;
        items.iter().map(text).collect::<Result<Vec<_>, _>>()?
    } else {
        vec![text(&input)?]
    };
    if texts.is_empty() {
        return Err(input.wrong("must not be empty"));
    }
    Ok(Texts {
        texts,
        dimensions: top.count("dimensions")?,
        base64: is_base64(top)?,
        unplaced: Vec::new(),
    })
}

fn text(member: &Member<'_>) -> Result<Text, Malformed> {
    if !member.is_text() {
        let message = "must be text or a list of texts: this provider takes no tokens";
        return Err(member.wrong(message));
    }
    Ok(Text {
        text: member.text()?,
        ..Text::default()
    })
}

fn is_base64(top: &mut Object<'_>) -> Result<bool, Malformed> {
    let Some(format) = top.take("encoding_format") else {
        return Ok(false);
    };
    match format.text()?.as_str() {
        "float" => Ok(false),
        "base64" => Ok(true),
        _ => Err(format.wrong("must be \"float\" or \"base64\"")),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "OpenAI packs single precision"
)]
fn packed(vector: &Json) -> String {
    let numbers: Vec<f64> = serde_json::from_str(vector.text()).unwrap_or_default();
    // Beyond single precision lies infinity, which is no coordinate.
    let bounded = |n: f64| n.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    let bytes = numbers.iter().flat_map(|n| bounded(*n).to_le_bytes());
    STANDARD.encode(bytes.collect::<Vec<u8>>())
}

fn unpacked(member: &Member<'_>) -> Result<Json, Malformed> {
    let wrong = || member.wrong("must be a list of numbers, or base64 of them");
    let bytes = STANDARD.decode(member.text()?).map_err(|_| wrong())?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    let numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let numbers: Vec<f32> = numbers.collect();
    if numbers.iter().all(|number| number.is_finite()) {
        Ok(Json::of(&numbers))
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::protocols::samples::shown;

    const TO: To<'_> = To {
        model: "m",
        stream: false,
        provider: "openai",
    };

    fn read(body: &Value) -> Result<Texts, Malformed> {
        Embeddings.read_texts(body.to_string().as_bytes())
    }

    #[test]
    fn packed_vectors_can_be_unpacked_whatever_their_numbers() {
        let body = json!({"data": [{"embedding": [1e39, -1e300, 0.5]}]}).to_string();
        let vectors = Embeddings.read_vectors(body.as_bytes()).unwrap();
        let packs = Texts {
            base64: true,
            ..Texts::default()
        };
        let written = Embeddings.write_vectors(&vectors, &packs, &shown());
        let again = Embeddings.read_vectors(&written).unwrap();
        let numbers: Vec<f32> = serde_json::from_str(again.vectors[0].text()).unwrap();
        assert_eq!(numbers, [f32::MAX, f32::MIN, 0.5]);
    }

    #[test]
    fn texts_are_read_in_every_form_and_tokens_are_refused() {
        let one =
            read(&json!({"model": "x/m", "input": "a", "user": "u", "dimensions": 3})).unwrap();
        assert_eq!(
            (one.texts.len(), one.dimensions, one.base64),
            (1, Some(3), false)
        );
        assert_eq!(one.unplaced, ["user"]);
        let two = read(&json!({"input": ["a", "b"], "encoding_format": "base64"})).unwrap();
        assert_eq!((two.texts[1].text.as_str(), two.base64), ("b", true));
        for (body, path) in [
            (json!({"input": [1, 2]}), "input[0]"),
            (json!({"input": [[1]]}), "input[0]"),
            (json!({"input": []}), "input"),
            (json!({}), "input"),
            (
                json!({"input": "a", "encoding_format": "hex"}),
                "encoding_format",
            ),
            (json!({"input": "a", "dimensions": "3"}), "dimensions"),
        ] {
            assert_eq!(read(&body).unwrap_err().path, path, "{body}");
        }
    }

    #[test]
    fn vectors_are_read_by_their_place_and_in_either_form() {
        let body = json!({"data": [
            {"index": 1, "embedding": packed(&Json::of(&[0.5, -1.0]))},
            {"index": 0, "embedding": [0.125, 2]},
        ], "model": "m-1", "usage": {"prompt_tokens": 4, "total_tokens": 4}});
        let read = Embeddings
            .read_vectors(body.to_string().as_bytes())
            .unwrap();
        let texts: Vec<&str> = read.vectors.iter().map(Json::text).collect();
        assert_eq!(texts, ["[0.125,2]", "[0.5,-1.0]"]);
        assert_eq!((read.model.as_str(), read.tokens), ("m-1", Some(4)));
        let infinite = STANDARD.encode(f32::INFINITY.to_le_bytes());
        for broken in ["AAA=", "?", &*infinite] {
            let body = json!({"data": [{"embedding": broken}]}).to_string();
            assert!(
                Embeddings.read_vectors(body.as_bytes()).is_err(),
                "{broken}"
            );
        }
    }

    proptest! {
        #[test]
        fn texts_and_vectors_come_back_as_they_were(
            texts in proptest::collection::vec(".{0,9}", 1..4),
            dimensions in proptest::option::of(1_u64..4_096),
            numbers in proptest::collection::vec(-2.0_f32..2.0, 0..9),
            base64 in any::<bool>(),
        ) {
            let text = |text| Text { text, ..Text::default() };
            let texts = Texts {
                texts: texts.into_iter().map(text).collect(),
                dimensions,
                ..Texts::default()
            };
            let written = Embeddings.write_texts(&texts, TO).unwrap();
            prop_assert_eq!(&written.dropped, &[]);
            prop_assert_eq!(Embeddings.read_texts(&written.body).unwrap(), texts.clone());
            let vectors = Vectors {
                vectors: vec![Json::of(&numbers)],
                model: "m".to_owned(),
                tokens: Some(3),
            };
            let texts = Texts { base64, ..texts };
            let written = Embeddings.write_vectors(&vectors, &texts, &shown());
            prop_assert_eq!(Embeddings.read_vectors(&written).unwrap(), vectors);
        }
    }
}
