//! Laws over all inputs: a merge is a join, tables converge whatever the network does, the rung rises
//! once, waits stay in their bounds, a release dominates what it had not seen.

use holdline_core::failure::Reason;
use holdline_core::holds::ladder::{cap_ms, ladder_ms, own_wait_ms, wait};
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::settle::Refusal;
use holdline_core::holds::{
    Answer, Body, Details, Incoming, Ledger, Record, Register, Selector, Subject, SubjectScope,
};
use holdline_core::ids::{Fingerprint, NodeId, Region};
use holdline_core::time::{Hlc, Mono, WallMs};
use proptest::prelude::*;

const WALL: u64 = 1_800_000_000_000;

fn reason() -> impl Strategy<Value = Reason> {
    prop::sample::select(&Reason::ALL[..])
}

fn hlc() -> impl Strategy<Value = Hlc> {
    (0..4u64, 0..3u32, 0..3u64).prop_map(|(ms, counter, node)| Hlc { ms, counter, node })
}

fn body() -> impl Strategy<Value = Body> {
    let memory = prop::option::of((reason(), 0..4u8));
    let held = (
        any::<bool>(),
        0..4u8,
        reason(),
        prop::option::of(0..400_000u64),
    );
    prop_oneof![
        memory.prop_map(|memory| Body::Free { memory }),
        held.prop_map(|(refused, rung, reason, stated)| Body::Held {
            refused,
            rung,
            reason,
            wait: wait(reason, rung, stated),
        }),
    ]
}

prop_compose! {
    fn register()(release in hlc(), seq in 0..3u32, body in body(), stamp in hlc()) -> Register {
        Register { release, seq, body, stamp }
    }
}

fn subject(model: Option<u8>) -> Subject {
    Subject {
        provider: "p".into(),
        key: "k".into(),
        fingerprint: Fingerprint(1),
        scope: model.map_or(SubjectScope::Key, |number| {
            SubjectScope::Model(format!("m{number}").into())
        }),
    }
}

prop_compose! {
    fn incoming()(model in prop::option::of(0..2u8), register in register(), age_ms in 0..60_000u64)
        -> Incoming
    {
        let record = Record { subject: subject(model), register, details: Details::default() };
        Incoming { record, age_ms }
    }
}

fn ledger(instance: u64) -> Ledger {
    Ledger::new(NodeId::from("n"), Region::from("eu"), instance)
}

fn merged(records: impl IntoIterator<Item = Incoming>) -> Ledger {
    let mut table = ledger(1);
    for incoming in records {
        table.merge(incoming, Mono(0));
    }
    table
}

fn table(ledger: &Ledger) -> Vec<(Subject, Register)> {
    let all = ledger.export(Mono(0));
    all.into_iter()
        .map(|incoming| (incoming.record.subject, incoming.record.register))
        .collect()
}

fn route() -> RouteKey {
    RouteKey {
        provider: "p".into(),
        key: "k".into(),
        fingerprint: Fingerprint(1),
        model: "m0".into(),
    }
}

fn refused(reason: Reason, stated_ms: Option<u64>) -> Answer {
    Answer::Refused(Refusal {
        reason,
        stated_ms,
        words: String::new(),
        status: 429,
    })
}

fn ask(ledger: &mut Ledger, answer: &Answer, now: Mono) -> Vec<Record> {
    let holds = ledger.key_holds(&"p".into(), &"k".into(), Fingerprint(1));
    let token = holds.token(&"m0".into(), now);
    ledger.settle(&route(), &token, answer, now, WallMs(WALL + now.0))
}

fn fresh(record: &Record) -> Incoming {
    Incoming {
        record: record.clone(),
        age_ms: 0,
    }
}

proptest! {
    // `PROPTEST_CASES` may ask for more.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2_000)))]

    #[test]
    fn a_merge_is_commutative_and_idempotent(
        records in prop::collection::vec(incoming(), 1..12),
        order in any::<prop::sample::Index>(),
    ) {
        let once = merged(records.clone());
        let mut turned = records.clone();
        turned.rotate_left(order.index(records.len()));
        let reversed = records.iter().rev().cloned();
        let twice = records.iter().cloned().chain(records.iter().cloned());
        for other in [merged(turned), merged(reversed), merged(twice)] {
            prop_assert_eq!(table(&other), table(&once));
            prop_assert_eq!(other.digest(), once.digest());
            prop_assert_eq!(other.held_count(), once.held_count());
        }
    }

    #[test]
    fn a_merge_is_associative_and_monotone(
        a in prop::collection::vec(incoming(), 0..8),
        b in prop::collection::vec(incoming(), 0..8),
        c in prop::collection::vec(incoming(), 0..8),
    ) {
        let ab = merged(a.clone().into_iter().chain(b.clone()));
        let bc = merged(b.into_iter().chain(c.clone()));
        let left = merged(ab.export(Mono(0)).into_iter().chain(c));
        let right = merged(a.into_iter().chain(bc.export(Mono(0))));
        prop_assert_eq!(table(&left), table(&right));
        for (subject, register) in table(&ab) {
            let joined = left.record(&subject).map(|record| record.register);
            prop_assert!(joined >= Some(register));
        }
    }

    #[test]
    fn equal_digests_are_equal_held_tables(
        a in prop::collection::vec(incoming(), 0..4),
        b in prop::collection::vec(incoming(), 0..4),
    ) {
        let held = |ledger: &Ledger| -> Vec<_> {
            table(ledger).into_iter().filter(|(_, register)| register.is_held()).collect()
        };
        let (a, b) = (merged(a), merged(b));
        prop_assert_eq!(a.digest() == b.digest(), held(&a) == held(&b));
    }

    #[test]
    fn own_waits_stay_within_a_tenth_and_below_the_cap(
        node in any::<u64>(), reason in reason(), rung in any::<u8>(),
        stated in prop::option::of(any::<u64>()), release in hlc(), seq in any::<u32>(),
    ) {
        let shared = wait(reason, rung, stated);
        let body = Body::Held { refused: true, rung, reason, wait: shared };
        let register = Register { release, seq, body, stamp: release };
        let own = own_wait_ms(node, &subject(Some(0)), &register);
        prop_assert_eq!(own, own_wait_ms(node, &subject(Some(0)), &register));
        if shared.stated {
            prop_assert_eq!(own, shared.ms);
            prop_assert!((10_000..=300_000).contains(&own));
        } else {
            prop_assert_eq!(shared.ms, ladder_ms(reason, rung));
            prop_assert!(own * 10 >= shared.ms * 9 && own * 10 <= shared.ms * 11);
            prop_assert!(own <= cap_ms(reason));
        }
    }

    #[test]
    fn a_foreign_wait_cannot_outlast_the_rules(
        reason in reason(), ms in any::<u64>(), stated in any::<bool>(), age_ms in any::<u64>(),
    ) {
        let wait = holdline_core::holds::Wait { ms, stated };
        let body = Body::Held { refused: true, rung: 9, reason, wait };
        let register = Register { seq: 1, body, ..Register::NEVER };
        let record = Record { subject: subject(None), register, details: Details::default() };
        let mut table = ledger(1);
        table.merge(Incoming { record, age_ms }, Mono(5));
        for row in table.held(Mono(5)) {
            prop_assert!(row.due.0 <= 5 + cap_ms(reason).max(300_000));
        }
    }

    #[test]
    fn however_many_nodes_fail_a_check_at_once_the_rung_rises_once(
        nodes in 1..8u64, rounds in 1..7u8, reason in reason(), seed in any::<u64>(),
        stated in prop::collection::vec(prop::option::of(10_000..300_000u64), 8),
    ) {
        let mut tables: Vec<Ledger> = (0..nodes).map(ledger).collect();
        let first = ask(&mut tables[0], &refused(reason, None), Mono(0));
        for table in &mut tables {
            table.merge(fresh(&first[0]), Mono(0));
        }
        for round in 1..=rounds {
            // Past every wait there is.
            let now = Mono(u64::from(round) * 2_000_000);
            let made: Vec<Record> = tables
                .iter_mut()
                .zip(&stated)
                .flat_map(|(table, stated)| ask(table, &refused(reason, *stated), now))
                .collect();
            prop_assert_eq!(made.len() as u64, nodes);
            for table in &mut tables {
                for at in 0..made.len() {
                    let turned = (at + usize::try_from(seed % 8).unwrap_or(0)) % made.len();
                    table.merge(fresh(&made[turned]), now);
                }
                let row = &table.held(now)[0];
                prop_assert_eq!(row.record.register.rung(), Some(round));
            }
            prop_assert!(tables.windows(2).all(|pair| pair[0].digest() == pair[1].digest()));
        }
    }

    #[test]
    fn a_release_dominates_holds_it_had_not_seen(
        ahead_ms in 0..3_600_000u64, failed_checks in 0..5u64, reason in reason(),
    ) {
        let (mut a, mut b) = (ledger(1), ledger(2));
        let first = ask(&mut a, &refused(reason, None), Mono(0));
        b.merge(fresh(&first[0]), Mono(0));
        // b's clock is ahead and it fails checks that a never hears of.
        let mut unseen = first.clone();
        for check in 1..=failed_checks {
            unseen = ask(&mut b, &refused(reason, None), Mono(check * 2_000_000 + ahead_ms));
        }
        let freed = a.release(&Selector::All, WallMs(WALL), Mono(1));
        a.merge(fresh(&unseen[0]), Mono(1));
        b.merge(fresh(&freed[0]), Mono(1));
        prop_assert_eq!((a.held_count(), b.held_count()), (0, 0));
    }

    #[test]
    fn a_store_gives_back_the_table(records in prop::collection::vec(incoming(), 0..12)) {
        let before = merged(records);
        let mut after = ledger(2);
        for incoming in before.export(Mono(0)) {
            after.merge(incoming, Mono(7));
        }
        prop_assert_eq!(table(&before), table(&after));
        prop_assert_eq!(before.digest(), after.digest());
    }
}

#[test]
fn jitter_is_spread_over_its_whole_range() {
    let body = Body::Held {
        refused: true,
        rung: 0,
        reason: Reason::Credential,
        wait: wait(Reason::Credential, 0, None),
    };
    let register = Register {
        seq: 1,
        body,
        ..Register::NEVER
    };
    let mut tenths = [0u32; 10];
    for node in 0..2_000 {
        let own = own_wait_ms(node, &subject(None), &register);
        let tenth = usize::try_from((own - 27_000) * 10 / 6_001).unwrap_or(9);
        tenths[tenth] += 1;
    }
    // 200 each; the hash is fixed, so this cannot flicker.
    assert!(
        tenths.iter().all(|count| (140..260).contains(count)),
        "{tenths:?}"
    );
}

#[test]
fn ten_thousand_held_keys_merge_in_one_pass() {
    let mut giver = ledger(1);
    for number in 0..10_000u64 {
        let key = RouteKey {
            key: format!("k{number}").as_str().into(),
            ..route()
        };
        let holds = giver.key_holds(&key.provider, &key.key, key.fingerprint);
        let token = holds.token(&key.model, Mono(0));
        let answer = refused(Reason::Credential, None);
        giver.settle(&key, &token, &answer, Mono(0), WallMs(WALL));
    }
    let mut joiner = ledger(2);
    for incoming in giver.export(Mono(0)) {
        assert!(joiner.merge(incoming, Mono(0)));
    }
    assert_eq!(
        (joiner.held_count(), joiner.digest()),
        (10_000, giver.digest())
    );
}
