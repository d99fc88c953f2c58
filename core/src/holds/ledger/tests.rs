//! Tests of one node's table.

use super::*;
use crate::failure::Reason;
use crate::holds::settle::Refusal;

const WALL: u64 = 1_800_000_000_000;

struct Node {
    ledger: Ledger,
    now: Mono,
}

fn node(name: &str) -> Node {
    let instance = name
        .bytes()
        .fold(7, |hash, byte| hash * 31 + u64::from(byte));
    Node {
        ledger: Ledger::new(NodeId::from(name), Region::from("eu"), instance),
        now: Mono(0),
    }
}

fn route(model: &str) -> RouteKey {
    RouteKey {
        provider: ProviderId::from("openai"),
        key: KeyId::from("k-a"),
        fingerprint: Fingerprint(1),
        model: ModelId::from(model),
    }
}

fn refused(reason: Reason, stated_ms: Option<u64>, words: &str) -> Answer {
    Answer::Refused(Refusal {
        reason,
        stated_ms,
        words: words.to_owned(),
        status: 401,
    })
}

impl Node {
    fn wall(&self) -> WallMs {
        WallMs(WALL + self.now.0)
    }

    fn holds(&self) -> KeyHolds {
        let route = route("m");
        self.ledger
            .key_holds(&route.provider, &route.key, route.fingerprint)
    }

    fn ask(&mut self, model: &str, answer: &Answer) -> Vec<Record> {
        let token = self.holds().token(&ModelId::from(model), self.now);
        self.answer(model, &token, answer)
    }

    fn answer(&mut self, model: &str, token: &Token, answer: &Answer) -> Vec<Record> {
        let wall = self.wall();
        self.ledger
            .settle(&route(model), token, answer, self.now, wall)
    }

    fn take(&mut self, record: &Record, age_ms: u64) -> bool {
        let incoming = Incoming {
            record: record.clone(),
            age_ms,
        };
        self.ledger.merge(incoming, self.now)
    }

    fn key_due(&self) -> Mono {
        self.holds().key.unwrap().due
    }

    fn sleep(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }
}

#[test]
fn a_hold_is_seen_everywhere_and_released_everywhere() {
    let (mut a, mut b) = (node("a"), node("b"));
    let made = a.ask("m", &refused(Reason::Credential, None, "bad key"));
    assert!(b.take(&made[0], 3));
    assert!(!b.take(&made[0], 3));
    assert_eq!(a.ledger.digest(), b.ledger.digest());
    assert_eq!((a.ledger.held_count(), b.ledger.held_count()), (1, 1));
    assert_eq!(b.ledger.held(b.now)[0].record.details.words, "bad key");

    let freed = b.ledger.release(&Selector::All, b.wall(), b.now);
    assert!(a.take(&freed[0], 0));
    assert_eq!((a.ledger.held_count(), a.ledger.digest()), (0, 0));
    assert!(!b.take(&made[0], 3), "a stale copy came back");
    assert!(a.holds().key.is_some(), "tokens need the release");
}

#[test]
fn a_record_that_is_known_does_not_move_the_deadline() {
    let (mut a, mut b) = (node("a"), node("b"));
    let made = a.ask("m", &refused(Reason::Credential, None, ""));
    b.take(&made[0], 0);
    let due = b.key_due();
    b.sleep(10_000);
    b.take(&made[0], 0);
    assert_eq!(b.key_due(), due);
}

#[test]
fn an_age_shortens_the_wait_and_never_lengthens_it() {
    let (mut a, mut b, mut c) = (node("a"), node("b"), node("b"));
    let made = a.ask("m", &refused(Reason::Credential, Some(60_000), ""));
    b.take(&made[0], 25_000);
    assert_eq!(b.key_due(), Mono(35_000));
    c.take(&made[0], u64::MAX - KEEP_MS * 2);
    assert!(c.holds().key.is_none(), "long past");
    c.take(&made[0], 3_600_000);
    assert_eq!(c.key_due(), Mono(0));
}

#[test]
fn nodes_are_due_at_different_instants() {
    let mut a = node("a");
    let made = a.ask("m", &refused(Reason::Credential, None, ""));
    let dues: Vec<Mono> = (0..8)
        .map(|number| {
            let mut peer = node(&format!("n{number}"));
            peer.take(&made[0], 0);
            peer.key_due()
        })
        .collect();
    assert!(dues.iter().all(|due| (27_000..=33_000).contains(&due.0)));
    assert!(dues.iter().max() > dues.iter().min());
}

#[test]
fn a_failed_check_keeps_when_the_hold_began() {
    let mut a = node("a");
    a.ask("m", &refused(Reason::Credential, None, "first"));
    let began = a.wall();
    a.sleep(40_000);
    let again = a.ask("m", &refused(Reason::Credential, None, "second"));
    let details = &again[0].details;
    assert_eq!((details.held_at, details.refused_at), (began, a.wall()));
    assert_eq!(details.words, "second");
    let refused_at = a.wall();
    a.sleep(70_000);
    let kept = a.ask("m", &Answer::Inconclusive);
    let details = &kept[0].details;
    assert_eq!((details.held_at, details.refused_at), (began, refused_at));
    assert_eq!(
        (details.settled_at, details.words.as_str()),
        (a.wall(), "second")
    );
}

#[test]
fn a_released_key_resumes_its_rung_within_ten_minutes() {
    for (idle_ms, rung) in [(599_000, 1), (600_000, 0)] {
        let mut a = node("a");
        a.ask("m", &refused(Reason::Quota, None, ""));
        a.sleep(33_000);
        a.ask("m", &refused(Reason::Quota, None, ""));
        a.ask("m", &Answer::Served);
        a.sleep(idle_ms);
        let again = a.ask("m", &refused(Reason::Quota, None, ""));
        assert_eq!(again[0].register.rung(), Some(rung));
    }
}

#[test]
fn the_age_of_a_memory_travels() {
    for (age_ms, rung) in [(0, 2), (590_000, 0)] {
        let (mut a, mut b) = (node("a"), node("b"));
        let memory = Some((Reason::Quota, 2));
        let mut freed = a.ask("m", &refused(Reason::Quota, None, "")).remove(0);
        freed.register.release = a.ledger.tick(a.wall());
        freed.register.seq = 0;
        freed.register.body = Body::Free { memory };
        b.take(&freed, age_ms);
        b.sleep(20_000);
        let again = b.ask("m", &refused(Reason::Quota, None, ""));
        assert_eq!(again[0].register.rung(), Some(rung));
    }
}

#[test]
fn an_operator_release_forgets_the_rung() {
    let mut a = node("a");
    a.ask("m", &refused(Reason::Quota, None, ""));
    a.sleep(33_000);
    a.ask("m", &refused(Reason::Quota, None, ""));
    let wall = a.wall();
    a.ledger.release(&Selector::All, wall, a.now);
    let again = a.ask("m", &refused(Reason::Quota, None, ""));
    assert_eq!(again[0].register.rung(), Some(0));
}

#[test]
fn two_reasons_that_take_turns_climb_where_one_disproves_the_other() {
    let mut a = node("a");
    a.ask("m", &refused(Reason::Credential, None, ""));
    a.sleep(33_000);
    a.ask("m", &refused(Reason::Credential, None, ""));
    let quota = a.ask("m", &refused(Reason::Quota, None, ""));
    assert_eq!(quota[0].register.rung(), Some(0));
    let credential = a.ask("m", &refused(Reason::Credential, None, ""));
    assert_eq!(credential[0].register.rung(), Some(1));
}

#[test]
fn selectors_name_what_they_say() {
    let held_after = |what: &Selector| {
        let mut a = node("a");
        a.ask("m1", &refused(Reason::Credential, None, ""));
        a.ask("m1", &refused(Reason::ModelGone, None, ""));
        a.ask("m1", &refused(Reason::Credential, None, ""));
        a.ask("m2", &refused(Reason::ModelGone, None, ""));
        a.ask("m2", &refused(Reason::Credential, None, ""));
        let before = a.ledger.held_count();
        let wall = a.wall();
        let freed = a.ledger.release(what, wall, a.now);
        assert_eq!(before, a.ledger.held_count() + freed.len());
        a.ledger
            .held(a.now)
            .iter()
            .map(|row| {
                let model = row.record.subject.scope.model();
                model.map_or("*", ModelId::as_str).to_owned()
            })
            .collect::<Vec<_>>()
    };
    let (openai, key) = (ProviderId::from("openai"), KeyId::from("k-a"));
    let all: [&str; 3] = ["*", "m1", "m2"];
    assert_eq!(held_after(&Selector::All), [""; 0]);
    assert_eq!(held_after(&Selector::Provider("azure".into())), all);
    assert_eq!(
        held_after(&Selector::Key(openai.clone(), key.clone())),
        [""; 0]
    );
    assert_eq!(
        held_after(&Selector::Key(openai.clone(), "k-b".into())),
        all
    );
    let model = Selector::Model(openai, key, "m1".into());
    assert_eq!(held_after(&model), ["*", "m2"]);
}

#[test]
fn an_edited_key_is_another_subject() {
    let mut a = node("a");
    let token = a.holds().token(&"m".into(), a.now);
    a.ask("m", &refused(Reason::Credential, None, ""));
    let holds = a
        .ledger
        .key_holds(&"openai".into(), &"k-a".into(), Fingerprint(2));
    assert!(holds.key.is_none() && holds.models.is_empty());
    a.answer("m", &token, &refused(Reason::Credential, None, ""));
    assert_eq!(a.ledger.held_count(), 1);
}

#[test]
fn one_key_cannot_fill_the_table_and_a_merge_takes_all() {
    let (mut a, mut b) = (node("a"), node("b"));
    for number in 0..=MAX_TRACKED_MODELS_PER_KEY {
        let made = a.ask(
            &format!("m{number}"),
            &refused(Reason::ModelAccess, None, ""),
        );
        assert_eq!(made.len(), usize::from(number < MAX_TRACKED_MODELS_PER_KEY));
    }
    b.ask("another", &refused(Reason::ModelAccess, None, ""));
    for incoming in a.ledger.export(a.now) {
        assert!(b.ledger.merge(incoming, b.now));
    }
    assert_eq!(b.ledger.held_count(), MAX_TRACKED_MODELS_PER_KEY + 1);
    assert_eq!(a.ask("m", &refused(Reason::Credential, None, "")).len(), 1);
    let long = "m".repeat(MAX_MODEL_NAME_BYTES + 1);
    let mut c = node("c");
    assert_eq!(c.ask(&long, &refused(Reason::ModelGone, None, "")), []);
}

#[test]
fn records_stay_small() {
    let mut a = node("a");
    for (model, shown) in [("gpt-4o".to_owned(), 256), ("m".repeat(256), 100)] {
        for words in ["x".repeat(5_000), "\u{1F980}".repeat(5_000)] {
            let answer = refused(Reason::ModelGone, Some(77_000), &words);
            let record = a.ask(&model, &answer).remove(0);
            a.ledger.release(&Selector::All, a.wall(), a.now);
            let config = bincode::config::standard();
            let bytes = bincode::serde::encode_to_vec(&record, config).unwrap();
            assert!(bytes.len() < 600, "{} bytes", bytes.len());
            assert!(record.details.words.chars().count() <= 256);
            assert!(record.details.words.len() >= shown);
        }
    }
}

#[test]
fn the_check_slot_is_new_only_for_a_new_generation() {
    let mut a = node("a");
    let first = a.ask("m", &refused(Reason::Quota, None, "")).remove(0);
    let view = a.holds();
    a.sleep(33_000);
    let check = view.try_check(&"m".into(), a.now).unwrap();
    let mut longer = first.clone();
    longer.register.stamp.ms += 1;
    a.take(&longer, 33_000);
    assert!(a.holds().try_check(&"m".into(), a.now).is_none());
    a.ask("m", &refused(Reason::Quota, None, ""));
    drop(check);
    a.sleep(66_000);
    assert!(a.holds().try_check(&"m".into(), a.now).is_some());
}

#[test]
fn rows_are_pruned_seven_days_after_they_ran_out() {
    let mut a = node("a");
    a.ask("m1", &refused(Reason::ModelGone, None, ""));
    a.ask("m2", &refused(Reason::ModelGone, None, ""));
    a.ask("m2", &Answer::Served);
    let old = a.ledger.export(a.now);
    a.sleep(KEEP_MS - 1);
    assert_eq!(a.ledger.prune(a.now).len(), 0);
    a.sleep(1);
    assert_eq!(a.ledger.prune(a.now).len(), 1);
    a.sleep(30_000);
    assert_eq!(a.ledger.prune(a.now).len(), 1);
    assert_eq!((a.ledger.held_count(), a.ledger.digest()), (0, 0));
    for mut incoming in old {
        incoming.age_ms += KEEP_MS + 30_000;
        assert!(!a.ledger.merge(incoming, a.now), "a pruned row came back");
    }
}

#[test]
fn a_stamp_that_no_clock_issues_is_refused_and_a_fast_one_is_reported() {
    let (mut a, mut b) = (node("a"), node("b"));
    let mut made = a.ask("m", &refused(Reason::Quota, None, "")).remove(0);
    made.register.stamp.ms = u64::MAX;
    assert!(!b.take(&made, 0));
    made.register.stamp.ms = WALL + 90_000;
    assert!(b.take(&made, 0));
    assert_eq!(b.ledger.clock_ahead_ms(WallMs(WALL)), 90_000);
    let freed = b.ledger.release(&Selector::All, b.wall(), b.now);
    assert!(freed[0].register > made.register);
}

#[test]
fn answers_to_requests_that_touched_no_hold_leave_the_clock_alone() {
    let mut a = node("a");
    let before = a.ledger.clock_ahead_ms(WallMs(0));
    a.ask("m", &Answer::Served);
    a.ask("m", &Answer::Inconclusive);
    assert_eq!(a.ledger.clock_ahead_ms(WallMs(0)), before);
}
