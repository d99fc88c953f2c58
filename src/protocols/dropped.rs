//! What is left out of a conversion, told to whoever reads logs and `extra_fields`.

use super::talk::{Answer, Aspect, Delta, Request, Texts};
use super::{Spoken, Written, WrittenTexts};

/// What of a request the provider's protocol cannot say, in the client's names: each once, in order.
#[must_use]
pub fn of_request(client: &dyn Spoken, request: &Request, written: &Written) -> Vec<String> {
    let named = written.dropped.iter().map(|field| client.name_of(*field));
    each_once(&request.unplaced, named)
}

/// The same of texts that become vectors.
#[must_use]
pub fn of_texts(client: &dyn Spoken, texts: &Texts, written: &WrittenTexts) -> Vec<String> {
    let named = written.dropped.iter().map(|f| client.name_of_text(*f));
    each_once(&texts.unplaced, named)
}

fn each_once(unplaced: &[String], named: impl Iterator<Item = &'static str>) -> Vec<String> {
    let unplaced = unplaced.iter().map(|path| without_places(path));
    let mut dropped: Vec<String> = unplaced.chain(named.map(str::to_owned)).collect();
    dropped.sort_unstable();
    dropped.dedup();
    dropped
}

/// What of a whole answer a client cannot be told: the provider's names, and what its protocol omits.
#[must_use]
pub fn of_answer(client: &dyn Spoken, answer: &Answer) -> Vec<String> {
    let mut left_out = LeftOut::default();
    left_out.unplaced(&answer.unplaced);
    left_out.aspects(client, Aspect::of(answer));
    left_out.names
}

/// What of a streamed answer a client cannot be told.
#[derive(Debug, Default)]
pub struct LeftOut {
    names: Vec<String>,
}

/// Names that are told of one answer.
const MAX_TOLD: usize = 32;

impl LeftOut {
    /// Takes in a step.
    pub fn see(&mut self, client: &dyn Spoken, delta: &Delta) {
        if let Delta::Unplaced(path) = delta {
            self.unplaced(std::slice::from_ref(path));
        }
        self.aspects(client, Aspect::of_step(delta));
    }

    /// So far, each once.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn unplaced(&mut self, paths: &[String]) {
        for path in paths {
            self.add(without_places(path));
        }
    }

    fn aspects(&mut self, client: &dyn Spoken, said: Vec<Aspect>) {
        for aspect in said {
            if client.omits().contains(&aspect) {
                self.add(aspect.words().to_owned());
            }
        }
    }

    fn add(&mut self, name: String) {
        if self.names.len() < MAX_TOLD && !self.names.contains(&name) {
            self.names.push(name);
        }
    }
}

/// `messages[3].content[0].x` as `messages[].content[].x`: one name for all of a kind.
fn without_places(path: &str) -> String {
    let mut out = String::with_capacity(path.len().min(200));
    let mut inside = false;
    for c in path.chars().take(200) {
        inside = inside && c != ']';
        if !inside && !c.is_control() {
            out.push(c);
        }
        inside = inside || c == '[';
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_lists_are_left_out() {
        assert_eq!(
            without_places("messages[3].content[12].x"),
            "messages[].content[].x"
        );
        assert_eq!(without_places("seed"), "seed");
    }
}
