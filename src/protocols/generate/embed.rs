//! Google's embeddings, of one content and of several.

use bytes::BytesMut;
use serde::Serialize;
use serde_with::skip_serializing_none;

use super::read::{count, take, text};
use super::{told, wire};
use crate::api::error::ApiError;
use crate::protocols::json::{Json, Member, Object, read_request};
use crate::protocols::talk::{Text, TextField, Texts, Usage, Vectors};
use crate::protocols::{
    Edits, Event, Malformed, Seen, Shown, Spoken, To, UnsaidText, WrittenTexts, write_event,
};

/// `embedContent` and `batchEmbedContents`.
#[derive(Clone, Copy, Debug)]
pub struct Embed {
    /// Of several contents.
    pub batch: bool,
}

impl Spoken for Embed {
    fn edits(&self) -> Edits {
        Edits::default()
    }

    fn usage(&self, answer: &[u8]) -> Option<Usage> {
        wire::usage(answer)
    }

    fn seen(&self, _event: &Event, _committed: bool) -> Seen {
        Seen::OUTPUT
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        told(error)
    }

    fn error_event(&self, error: &ApiError, _place: u64, out: &mut BytesMut) {
        write_event(None, &told(error), out);
    }

    fn name_of_text(&self, field: TextField) -> &'static str {
        match field {
            TextField::Texts if self.batch => "requests",
            TextField::Texts => "content",
            TextField::Task => "taskType",
            TextField::Title => "title",
        }
    }

    fn read_texts(&self, body: &[u8]) -> Result<Texts, Malformed> {
        let read = if self.batch { several } else { one };
        let (texts, unplaced) = read_request(body, read)?;
        Ok(Texts { unplaced, ..texts })
    }

    fn write_texts(&self, texts: &Texts, to: To<'_>) -> Result<WrittenTexts, UnsaidText> {
        let model = format!("models/{}", to.model);
        let model = self.batch.then_some(&*model);
        let request = |text| One::of(text, texts.dimensions, model);
        let written = match &*texts.texts {
            [one] if !self.batch => serde_json::to_vec(&request(one)),
            _ if !self.batch => {
                let message = "must be one text: this model takes one at a time";
                return Err(UnsaidText::new(TextField::Texts, message));
            }
            several => serde_json::to_vec(&Several {
                requests: several.iter().map(request).collect(),
            }),
        };
        Ok(WrittenTexts {
            body: written.expect("strings and numbers can be written").into(),
            dropped: Vec::new(),
        })
    }

    fn read_vectors(&self, body: &[u8]) -> Result<Vectors, Malformed> {
        let mut top = Member::root(body)?.object()?;
        let vectors = if self.batch {
            let embeddings = top.need("embeddings")?.items()?;
            embeddings.iter().map(values).collect::<Result<_, _>>()?
        } else {
            vec![values(&top.need("embedding")?)?]
        };
        Ok(Vectors {
            vectors,
            model: String::new(),
            tokens: self.usage(body).map(|usage| usage.input),
        })
    }

    fn write_vectors(&self, vectors: &Vectors, _texts: &Texts, _shown: &Shown) -> Vec<u8> {
        let all = vectors.vectors.iter().map(|values| Values { values });
        let usage = vectors
            .tokens
            .map(|prompt_token_count| Counts { prompt_token_count });
        let written = if self.batch {
            serde_json::to_vec(&ManyVectors {
                embeddings: all.collect(),
                usage_metadata: usage,
            })
        } else {
            serde_json::to_vec(&OneVector {
                embedding: all.into_iter().next(),
                usage_metadata: usage,
            })
        };
        written.expect("numbers can be written")
    }
}

fn one(top: &mut Object<'_>) -> Result<Texts, Malformed> {
    let mut read = Texts::default();
    top.skip(&["fallbacks"]);
    add(top, &mut read)?;
    Ok(read)
}

fn several(top: &mut Object<'_>) -> Result<Texts, Malformed> {
    let mut read = Texts::default();
    top.skip(&["fallbacks"]);
    let requests = top.need("requests")?;
    let mut lengths = Vec::new();
    for request in requests.items()? {
        add(&mut request.object()?, &mut read)?;
        lengths.push(read.dimensions.take());
    }
    let first = lengths.first().copied();
    read.dimensions = first.ok_or_else(|| requests.wrong("must not be empty"))?;
    if lengths.iter().any(|length| Some(*length) != first) {
        let message = "must have one `outputDimensionality` for all with this provider";
        return Err(requests.wrong(message));
    }
    Ok(read)
}

/// One request, also where it is one of several.
fn add(request: &mut Object<'_>, read: &mut Texts) -> Result<(), Malformed> {
    request.skip(&["model"]);
    let content = request.need("content")?;
    read.texts.push(Text {
        text: only_text(&content)?,
        task: text(request, "taskType")?,
        title: text(request, "title")?,
    });
    read.dimensions = count(request, "outputDimensionality")?;
    Ok(())
}

fn only_text(content: &Member<'_>) -> Result<String, Malformed> {
    let mut content = content.object()?;
    content.skip(&["role"]);
    let parts = content.need("parts")?;
    let wrong = || parts.wrong("must be one text with this provider");
    let list = if parts.is_list() {
        parts.items()?
    } else {
        vec![parts.clone()]
    };
    let [part] = &*list else {
        return Err(wrong());
    };
    let mut part = part.object()?;
    let said = part.text("text")?.ok_or_else(wrong)?;
    if part.first_left().is_none() {
        Ok(said)
    } else {
        Err(wrong())
    }
}

fn values(embedding: &Member<'_>) -> Result<Json, Malformed> {
    let mut embedding = embedding.object()?;
    let values = take(&mut embedding, "values");
    // A vector without any number is left out.
    values.map_or_else(|| Ok(Json::of(&[0_u8; 0])), |values| values.numbers())
}

#[derive(Serialize)]
struct Several<'a> {
    requests: Vec<One<'a>>,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct One<'a> {
    model: Option<&'a str>,
    content: Content<'a>,
    task_type: Option<&'a str>,
    title: Option<&'a str>,
    output_dimensionality: Option<u64>,
}

impl<'a> One<'a> {
    fn of(text: &'a Text, dimensions: Option<u64>, model: Option<&'a str>) -> Self {
        Self {
            model,
            content: Content {
                parts: [PartOut { text: &text.text }],
            },
            task_type: text.task.as_deref(),
            title: text.title.as_deref(),
            output_dimensionality: dimensions,
        }
    }
}

#[derive(Serialize)]
struct Content<'a> {
    parts: [PartOut<'a>; 1],
}

#[derive(Serialize)]
struct PartOut<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Values<'a> {
    values: &'a Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneVector<'a> {
    embedding: Option<Values<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Counts>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ManyVectors<'a> {
    embeddings: Vec<Values<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Counts>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    prompt_token_count: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::protocols::samples::shown;

    const TO: To<'_> = To {
        model: "gemini-embedding-2",
        stream: false,
        provider: "vertex",
    };
    const ONE: Embed = Embed { batch: false };
    const SEVERAL: Embed = Embed { batch: true };

    fn wrong(protocol: Embed, body: &Value) -> String {
        let read = protocol.read_texts(body.to_string().as_bytes());
        read.unwrap_err().path
    }

    #[test]
    fn contents_are_read_by_either_name() {
        let body = json!({"model": "models/m", "content": {"role": "user", "parts": [{"text": "a"}]},
            "task_type": "SEMANTIC_SIMILARITY", "outputDimensionality": 8, "x": 1});
        let read = ONE.read_texts(body.to_string().as_bytes()).unwrap();
        assert_eq!(read.texts[0].task.as_deref(), Some("SEMANTIC_SIMILARITY"));
        assert_eq!(
            (read.dimensions, read.unplaced),
            (Some(8), vec!["x".to_owned()])
        );
        let body = json!({"requests": [{"content": {"parts": {"text": "a"}}}, {"content": {"parts": [{"text": "b"}]}, "y": 1}]});
        let read = SEVERAL.read_texts(body.to_string().as_bytes()).unwrap();
        assert_eq!((read.texts.len(), read.texts[1].text.as_str()), (2, "b"));
        assert_eq!(read.unplaced, ["requests[1].y"]);
    }

    #[test]
    fn what_other_protocols_cannot_say_is_refused_by_name() {
        let content = |parts: Value| json!({"content": {"parts": parts}});
        for parts in [
            json!([]),
            json!([{"text": "a"}, {"text": "b"}]),
            json!([{"inlineData": {}}]),
            json!([{"text": "a", "inlineData": {}}]),
        ] {
            assert_eq!(wrong(ONE, &content(parts)), "content.parts");
        }
        assert_eq!(wrong(ONE, &json!({})), "content");
        assert_eq!(wrong(SEVERAL, &json!({"requests": []})), "requests");
        let mut long = content(json!([{"text": "a"}]));
        let short = long.clone();
        long["outputDimensionality"] = json!(3);
        assert_eq!(
            wrong(SEVERAL, &json!({"requests": [short, long]})),
            "requests"
        );
        let two = Texts {
            texts: vec![Text::default(), Text::default()],
            ..Texts::default()
        };
        let unsaid = ONE.write_texts(&two, TO).unwrap_err();
        assert_eq!(unsaid.field, TextField::Texts);
    }

    proptest! {
        #[test]
        fn texts_and_vectors_come_back_as_they_were(
            texts in proptest::collection::vec((".{0,9}", proptest::option::of("[A-Z_]{1,9}"), proptest::option::of(".{1,9}")), 1..4),
            dimensions in proptest::option::of(1_u64..4_096),
            numbers in proptest::collection::vec(-2.0_f64..2.0, 1..9),
            tokens in proptest::option::of(0_u64..99),
        ) {
            let texts: Vec<Text> = texts
                .into_iter()
                .map(|(text, task, title)| Text { text, task, title })
                .collect();
            let several = Texts { texts, dimensions, ..Texts::default() };
            let one = Texts { texts: several.texts[..1].to_vec(), ..several.clone() };
            for (protocol, texts) in [(ONE, one), (SEVERAL, several)] {
                let written = protocol.write_texts(&texts, TO).unwrap();
                prop_assert_eq!(&protocol.read_texts(&written.body).unwrap(), &texts);
                let vectors = Vectors {
                    vectors: vec![Json::of(&numbers); texts.texts.len()],
                    model: String::new(),
                    tokens,
                };
                let written = protocol.write_vectors(&vectors, &texts, &shown());
                prop_assert_eq!(protocol.read_vectors(&written).unwrap(), vectors);
            }
        }
    }
}
