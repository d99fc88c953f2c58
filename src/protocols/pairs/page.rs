//! The page that is made of what was seen.

use std::fmt::Write;

use super::outcome::{Change, Outcome};
use crate::protocols::Protocol;

/// Values in one note: more say no more.
const MAX_LEAVES: usize = 3;

/// A feature with a cell for each column: one outcome, or one of whole answers and one of streams.
type Row = (String, Vec<Vec<Outcome>>);

const HEAD: &str = "\
# What each pair carries

A client that speaks one protocol, a provider that speaks another: what becomes of each feature on the way. This page is
written by a test (`protocols::pairs`) out of what real conversions do with samples of every feature in
`tests/fixtures/pairs`; do not edit it. CONTRIBUTING.md says how it is written anew. Where both sides speak the same protocol,
everything passes byte for byte but the model's name, so such pairs are not listed. [protocols.md](protocols.md) says why things
are refused and dropped.

| cell | meaning |
| --- | --- |
| yes | it stands where the other protocol has it |
| yes, with a number | it arrives in other words or in another place: the note below shows what arrives, by the other protocol's names |
| refused | a 400 whose `param` names the field |
| dropped | left out; of requests told in the log and in `extra_fields.dropped_params`, of answers in the log at the level `debug` |

Embeddings convert among each other as [protocols.md](protocols.md) says; completions, and whatever else it calls passed on, go only to providers that speak the same.
";

/// A page under way.
#[derive(Default)]
pub(super) struct Page {
    requests: String,
    answers: String,
}

/// In the head of a table.
pub(super) fn short(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Chat => "chat",
        Protocol::Responses => "responses",
        Protocol::Messages => "messages",
        Protocol::Generate => "generateContent",
        Protocol::Converse => "Converse",
        Protocol::Cohere => "Cohere",
        Protocol::Completions
        | Protocol::Embeddings
        | Protocol::EmbedContent
        | Protocol::BatchEmbedContents
        | Protocol::Predict
        | Protocol::Passing(_) => "",
    }
}

impl Page {
    pub(super) fn requests(&mut self, client: Protocol, titles: &[&str], rows: &[Row]) {
        table(
            &format!("From clients of {}", client.words()),
            "a request's",
            titles,
            rows,
            &mut self.requests,
        );
    }

    pub(super) fn answers(&mut self, provider: Protocol, titles: &[&str], rows: &[Row]) {
        table(
            &format!("From providers of {}", provider.words()),
            "an answer's",
            titles,
            rows,
            &mut self.answers,
        );
    }

    pub(super) fn finish(self) -> String {
        format!(
            "{HEAD}\n## Requests\n{}\n## Answers\n\nWhole and streamed; where those differ, a cell says the former, then the latter.\n{}",
            self.requests, self.answers
        )
    }
}

fn table(title: &str, what: &str, titles: &[&str], rows: &[Row], out: &mut String) {
    let mut notes = Vec::new();
    let mut lines = String::new();
    for (feature, cells) in rows {
        let cells: Vec<String> = cells.iter().map(|cell| words(cell, &mut notes)).collect();
        writeln!(lines, "| {feature} | {} |", cells.join(" | ")).unwrap();
    }
    writeln!(out, "\n### {title}\n").unwrap();
    writeln!(out, "| {what} | {} |", titles.join(" | ")).unwrap();
    writeln!(out, "| --- |{}", " --- |".repeat(titles.len())).unwrap();
    out.push_str(&lines);
    if !notes.is_empty() {
        out.push('\n');
    }
    for (n, note) in notes.iter().enumerate() {
        writeln!(out, "{}. {note}", n + 1).unwrap();
    }
}

fn words(cell: &[Outcome], notes: &mut Vec<String>) -> String {
    let mut words: Vec<String> = cell.iter().map(|outcome| word(outcome, notes)).collect();
    words.dedup();
    words.join("; ")
}

fn word(outcome: &Outcome, notes: &mut Vec<String>) -> String {
    match outcome {
        Outcome::Carried => "yes".to_owned(),
        Outcome::Refused(_) => "refused".to_owned(),
        Outcome::Dropped(_) => "dropped".to_owned(),
        Outcome::Silent => "lost".to_owned(),
        Outcome::Changed(change) => {
            let note = note(change);
            let known = notes.iter().position(|other| *other == note);
            let n = known.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            });
            format!("yes ({})", n + 1)
        }
    }
}

fn note(change: &Change) -> String {
    let Change {
        other,
        missing,
        told,
    } = change;
    let mut words: Vec<String> = other
        .iter()
        .take(MAX_LEAVES)
        .map(|(path, value)| format!("`{path}`: `{}`", shortened(value)))
        .collect();
    if other.len() > MAX_LEAVES {
        words.push("…".to_owned());
    }
    if other.is_empty() && told.is_empty() {
        let missing: Vec<String> = missing.iter().map(|path| format!("`{path}`")).collect();
        words.push(format!("without {}", missing.join(", ")));
    }
    if !told.is_empty() {
        let told: Vec<String> = told.iter().map(|name| format!("`{name}`")).collect();
        words.push(format!("dropped: {}", told.join(", ")));
    }
    words.join("; ")
}

fn shortened(value: &str) -> String {
    const LONGEST: usize = 60;
    if value.chars().count() <= LONGEST {
        return value.to_owned();
    }
    let start: String = value.chars().take(LONGEST - 1).collect();
    format!("{start}…")
}
