//! Changes that keep an input JSON: parts of it are left out, doubled, moved, renamed, replaced by
//! values that make trouble.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

/// Random numbers from libFuzzer's seed, so that a run can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % sides.max(1)
    }
}

/// What the samples are made of: names of members and values that protocols know.
fn words(samples: &[String]) -> &'static (Vec<String>, Vec<Value>) {
    static WORDS: OnceLock<(Vec<String>, Vec<Value>)> = OnceLock::new();
    WORDS.get_or_init(|| {
        let (mut names, mut values) = (Vec::new(), troublesome());
        for line in samples.iter().flat_map(|sample| sample.lines()) {
            if let Ok(value) = serde_json::from_str(line) {
                collect(&value, &mut names, &mut values);
            }
        }
        names.sort_unstable();
        names.dedup();
        (names, values)
    })
}

fn collect(value: &Value, names: &mut Vec<String>, values: &mut Vec<Value>) {
    if !values.contains(value) {
        values.push(value.clone());
    }
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.push(name.clone());
                collect(value, names, values);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, names, values)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn troublesome() -> Vec<Value> {
    let deep = (0..140).fold(json!(1), |inner, _| json!([inner]));
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("\u{0}\n\u{2028}\u{1f980}"),
        json!("{}"),
        json!("{\"a\":"),
        json!("[[[]]]"),
        json!("redacted:"),
        json!("data:;base64,"),
        json!("s3://b/x.pdf"),
        json!("[".repeat(200)),
        json!([]),
        json!({}),
        deep,
    ]
}

/// Changes the input, grown from `samples` where it is none yet. Gives the new length.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    samples: impl FnOnce() -> Vec<String>,
) -> usize {
    static SAMPLES: OnceLock<Vec<String>> = OnceLock::new();
    let samples = SAMPLES.get_or_init(samples);
    let mut dice = Dice(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let lines = lines(&data[..size]);
    let changed = match lines {
        _ if dice.roll(200) == 0 => samples[dice.roll(samples.len())].clone(),
        None => samples[dice.roll(samples.len())].clone(),
        // Bytes that are no JSON any more are inputs too.
        Some(_) if dice.roll(10) == 0 => {
            return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
        }
        Some(mut lines) => {
            for _ in 0..=dice.roll(3) {
                change(&mut lines, samples, &mut dice);
            }
            let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
            lines.join("\n")
        }
    };
    let bytes = changed.as_bytes();
    if bytes.len() > max_size || bytes.len() > data.len() {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    data[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

fn lines(data: &[u8]) -> Option<Vec<Value>> {
    let lines = data.split(|byte| *byte == b'\n');
    let lines: Result<Vec<Value>, _> = lines.map(serde_json::from_slice).collect();
    lines.ok().filter(|lines| !lines.is_empty())
}

fn change(lines: &mut Vec<Value>, samples: &[String], dice: &mut Dice) {
    let line = dice.roll(lines.len());
    if lines.len() > 1 {
        let other = dice.roll(lines.len());
        match dice.roll(16) {
            0 => {
                lines.remove(line);
                return;
            }
            1 if lines.len() < 64 => {
                let copy = lines[line].clone();
                lines.insert(other, copy);
                return;
            }
            2 => {
                lines.swap(line, other);
                return;
            }
            _ => {}
        }
    }
    let (names, values) = words(samples);
    let found = values[dice.roll(values.len())].clone();
    let name = &names[dice.roll(names.len())];
    let donor = dice.roll(lines.len());
    let own = pick(&mut lines[donor], dice).clone();
    let target = pick(&mut lines[line], dice);
    let value = if dice.roll(2) == 0 { own } else { found };
    match target {
        Value::Object(object) => change_object(object, name, value, dice),
        Value::Array(list) => {
            let at = dice.roll(list.len());
            match dice.roll(4) {
                0 if !list.is_empty() => drop(list.remove(at)),
                1 if !list.is_empty() => list.push(list[at].clone()),
                2 if !list.is_empty() => list.swap(0, at),
                _ => list.insert(at, value),
            }
        }
        Value::String(text) if dice.roll(3) == 0 => {
            let at = text.char_indices().map(|(at, _)| at).nth(dice.roll(text.len()));
            text.truncate(at.unwrap_or(0));
        }
        target @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            *target = value;
        }
    }
}

fn change_object(object: &mut Map<String, Value>, name: &str, value: Value, dice: &mut Dice) {
    let at = dice.roll(object.len());
    let own = object.keys().nth(at).cloned().unwrap_or_default();
    match dice.roll(4) {
        0 => drop(object.shift_remove(&own)),
        1 => {
            if let Some(value) = object.shift_remove(&own) {
                object.insert(name.to_owned(), value);
            }
        }
        2 => drop(object.insert(own, value)),
        _ => drop(object.insert(name.to_owned(), value)),
    }
}

/// Any value of a tree, those near its root less often.
fn pick<'a>(value: &'a mut Value, dice: &mut Dice) -> &'a mut Value {
    let inside = match value {
        Value::Object(object) => object.len(),
        Value::Array(list) => list.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    if inside == 0 || dice.roll(6) == 0 {
        return value;
    }
    let at = dice.roll(inside);
    let inner = match value {
        Value::Object(object) => object.values_mut().nth(at),
        Value::Array(list) => list.get_mut(at),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    pick(inner.expect("it is that long"), dice)
}
