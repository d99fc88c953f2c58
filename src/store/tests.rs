//! Tests of the store.

use std::fs;

use holdline_cluster::{Snapshot, SnapshotInfo, Store as ClusterStore};
use holdline_core::failure::Reason;
use holdline_core::holds::{
    Body, Details, Incoming, Record, Register, Subject, SubjectScope, Wait,
};
use holdline_core::ids::{Fingerprint, NodeId};
use holdline_core::replica::Document;
use holdline_core::time::Hlc;
use tempfile::TempDir;

use super::*;

const DAY_MS: u64 = 86_400_000;
const WALL: WallMs = WallMs(1_800_000_000_000);

pub(super) fn open(folder: &Path) -> Store {
    Store::open(folder, &StoreOptions::default()).unwrap()
}

fn refusal(folder: &Path) -> String {
    Store::open(folder, &StoreOptions::default()).unwrap_err().0
}

fn stamp(ms: u64) -> Hlc {
    Hlc {
        ms,
        counter: 1,
        node: u64::MAX,
    }
}

/// A hold of key `k`, `seq` refusals old.
fn held(key: &str, seq: u32, age_ms: u64) -> Incoming {
    let body = Body::Held {
        refused: true,
        rung: 0,
        reason: Reason::Quota,
        wait: Wait {
            ms: 30_000,
            stated: false,
        },
    };
    incoming(key, seq, body, age_ms)
}

fn incoming(key: &str, seq: u32, body: Body, age_ms: u64) -> Incoming {
    Incoming {
        record: Record {
            subject: Subject {
                provider: "openai".into(),
                key: key.into(),
                fingerprint: Fingerprint(u64::MAX),
                scope: SubjectScope::Model("gpt-4o".into()),
            },
            register: Register {
                release: stamp(1),
                seq,
                body,
                stamp: stamp(2),
            },
            details: Details {
                words: "No credit \"left\"".to_owned(),
                ..Details::default()
            },
        },
        age_ms,
    }
}

fn snapshot(records: Vec<Incoming>, saved_at: WallMs) -> Snapshot {
    Snapshot {
        info: SnapshotInfo {
            saved_at,
            saved_by: NodeId::from("n2"),
            held: records.len(),
            group_uid: u64::MAX,
            term: 3,
        },
        whole: true,
        records,
    }
}

fn document(name: &str, ms: u64, body: Option<&str>) -> Document {
    Document {
        name: name.to_owned(),
        stamp: stamp(ms),
        body: body.map(str::to_owned),
    }
}

#[test]
fn an_identity_is_kept_and_its_generation_grows() {
    let folder = TempDir::new().unwrap();
    let first = open(folder.path()).identity;
    let second = open(folder.path()).identity;
    assert_eq!(first.raft_id, second.raft_id);
    assert!(second.generation > first.generation);
    let elsewhere = TempDir::new().unwrap();
    assert_ne!(open(elsewhere.path()).raft_id(), first.raft_id);
}

#[test]
fn holds_come_back_with_the_age_they_have_by_then() {
    let folder = TempDir::new().unwrap();
    let options = StoreOptions {
        time_scale: 20.0,
        ..StoreOptions::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    store.save_holds(&[held("k-a", 1, 500)], WALL).unwrap();
    drop(store);
    let store = Store::open(folder.path(), &options).unwrap();
    let later = WallMs(WALL.0 + 1_000);
    assert_eq!(store.load_holds(later).unwrap(), [held("k-a", 1, 20_500)]);
    // A wall clock that fell back makes no hold longer than it was.
    let earlier = WallMs(WALL.0 - 9_000);
    assert_eq!(store.load_holds(earlier).unwrap(), [held("k-a", 1, 500)]);
}

#[test]
fn a_stored_register_gives_way_only_to_a_greater_one() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store.save_holds(&[held("k-a", 2, 0)], WALL).unwrap();
    store
        .save_holds(&[held("k-a", 1, 0), held("k-b", 1, 0)], WALL)
        .unwrap();
    let seqs = |store: &Store| -> Vec<u32> {
        let rows = store.load_holds(WALL).unwrap();
        rows.iter().map(|row| row.record.register.seq).collect()
    };
    assert_eq!(seqs(&store), [2, 1]);
    // The leader's snapshot is merged in on load, whichever is newer.
    let newer = snapshot(vec![held("k-a", 1, 0), held("k-b", 7, 0)], WALL);
    store.save_snapshot(&newer, &[]).unwrap();
    assert_eq!(seqs(&store), [2, 7]);
}

#[test]
fn what_ended_a_week_ago_is_forgotten() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let free = Body::Free { memory: None };
    let rows = [
        held("ran out long ago", 1, 0),
        incoming("free long ago", 1, free, 0),
        held("young", 1, 0),
    ];
    store.save_holds(&rows[..2], WALL).unwrap();
    let week = WallMs(WALL.0 + 7 * DAY_MS + 30_001);
    store.save_holds(&rows[2..], week).unwrap();
    let left = store.load_holds(week).unwrap();
    assert_eq!(left, [held("young", 1, 0)]);
    store
        .forget_holds(&[left[0].record.subject.clone()])
        .unwrap();
    assert!(store.load_holds(week).unwrap().is_empty());
}

#[test]
fn a_snapshot_is_merged_and_kept_with_its_raft_values() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    assert!(store.load_snapshot().unwrap().is_none());
    let now = logs::wall_now();
    let first = snapshot(vec![held("k-a", 2, 0), held("k-b", 1, 0)], now);
    store
        .save_snapshot(&first, &[("applied", vec![1])])
        .unwrap();
    let second = Snapshot {
        whole: false,
        ..snapshot(vec![held("k-a", 1, 0)], WallMs(now.0 + 1))
    };
    store
        .save_snapshot(&second, &[("applied", vec![2])])
        .unwrap();
    drop(store);
    let store = open(folder.path());
    let loaded = store.load_snapshot().unwrap().unwrap();
    let seqs: Vec<u32> = loaded
        .records
        .iter()
        .map(|r| r.record.register.seq)
        .collect();
    assert_eq!(
        (seqs, loaded.info.saved_at),
        (vec![2, 1], WallMs(now.0 + 1))
    );
    assert_eq!(store.raft_value("applied").unwrap(), Some(vec![2]));
}

#[test]
fn the_raft_log_is_a_log() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let entry = |n: u64| (n, vec![u8::try_from(n).unwrap()]);
    store
        .append_log(&(1..=6).map(entry).collect::<Vec<_>>())
        .unwrap();
    store.append_log(&[(6, vec![66])]).unwrap();
    store.truncate_log(6).unwrap();
    store.purge_log(2).unwrap();
    drop(store);
    let store = open(folder.path());
    assert_eq!(
        store.log_range(0, u64::MAX).unwrap(),
        [entry(3), entry(4), entry(5)]
    );
    assert_eq!(store.log_range(4, 5).unwrap(), [entry(4)]);
    assert_eq!(store.last_log().unwrap(), Some(entry(5)));
    store.put_raft_value("vote", b"v").unwrap();
    store.wipe_raft().unwrap();
    assert_eq!(
        (store.last_log().unwrap(), store.raft_value("vote").unwrap()),
        (None, None)
    );
}

#[test]
fn the_latest_stamp_of_a_document_stays() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store
        .save_documents(&[document("a", 5, Some("new")), document("b", 1, Some("x"))])
        .unwrap();
    store
        .save_documents(&[document("a", 4, Some("old")), document("b", 2, None)])
        .unwrap();
    drop(store);
    let expected = [document("a", 5, Some("new")), document("b", 2, None)];
    assert_eq!(open(folder.path()).load_documents().unwrap(), expected);
}

#[test]
fn no_byte_of_a_secret_is_in_the_files() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let canary = "sk-canary-Zq8vXw3LtRb6Jm1Np0";
    store
        .save_documents(&[document("key/openai/a", 1, Some(canary))])
        .unwrap();
    let contains = |folder: &Path| {
        fs::read_dir(folder).unwrap().any(|entry| {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            bytes.windows(canary.len()).any(|w| w == canary.as_bytes())
        })
    };
    assert!(!contains(folder.path()), "while open");
    drop(store);
    assert!(!contains(folder.path()), "after the end");
}

#[cfg(unix)]
#[test]
fn the_key_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()));
    let mode = fs::metadata(folder.path().join("documents.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_encryption_key_takes_over_from_the_key_file_and_is_then_needed() {
    let folder = TempDir::new().unwrap();
    let with = |key: &str| StoreOptions {
        encryption_key: Some(Secret::from(key.to_owned())),
        ..StoreOptions::default()
    };
    let saved = document("key/openai/a", 1, Some("body"));
    open(folder.path())
        .save_documents(std::slice::from_ref(&saved))
        .unwrap();
    let store = Store::open(folder.path(), &with("first")).unwrap();
    assert_eq!(
        store.load_documents().unwrap(),
        std::slice::from_ref(&saved)
    );
    drop(store);
    for wrong in [with("second"), StoreOptions::default()] {
        let told = Store::open(folder.path(), &wrong).unwrap_err().0;
        assert!(told.contains("encrypted with another key"), "{told}");
    }
    let store = Store::open(folder.path(), &with("first")).unwrap();
    assert_eq!(store.load_documents().unwrap(), [saved]);
}

#[test]
fn two_nodes_never_share_a_folder() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    assert!(refusal(folder.path()).contains("used by another running node"));
    store.close();
    drop(open(folder.path()));
    let told = store.save_holds(&[held("k-a", 1, 0)], WALL).unwrap_err().0;
    assert!(told.contains("closed"), "{told}");
}

#[test]
fn a_folder_that_cannot_be_is_told_in_one_line() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(refusal(&file).contains("is not a directory"));
    assert!(refusal(&file.join("below")).contains("cannot be made"));
    let taken = folder.path().join("taken");
    fs::create_dir_all(taken.join("holdline.sqlite")).unwrap();
    let told = refusal(&taken);
    assert!(
        told.contains("cannot be opened") && !told.contains('\n'),
        "{told}"
    );
}

#[test]
fn a_damaged_database_is_told_with_its_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("holdline.sqlite");
    fs::write(&path, vec![b'x'; 20_000]).unwrap();
    assert!(refusal(folder.path()).contains("holdline.sqlite is damaged"));
    fs::remove_file(&path).unwrap();

    let store = open(folder.path());
    let rows: Vec<Incoming> = (0..2_000).map(|n| held(&format!("k-{n}"), 1, 0)).collect();
    store.save_holds(&rows, WALL).unwrap();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert!(refusal(folder.path()).contains("holdline.sqlite is damaged"));
}

#[test]
fn a_foreign_database_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("holdline.sqlite");
    let foreign = Connection::open(&path).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(foreign);
    assert!(refusal(folder.path()).contains("of another program"));
    drop(open(TempDir::new().unwrap().path()));
    let newer = TempDir::new().unwrap();
    drop(open(newer.path()));
    let connection = Connection::open(newer.path().join("holdline.sqlite")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(refusal(newer.path()).contains("written by a newer Holdline"));
}

#[test]
fn a_damaged_request_log_is_set_aside() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("logs.sqlite"), vec![b'x'; 20_000]).unwrap();
    let store = open(folder.path());
    assert!(store.find_log("x").unwrap().is_none());
    assert!(folder.path().join("logs.sqlite.corrupt").exists());
}

#[test]
fn what_cannot_be_kept_changes_nothing_and_is_told_until_it_can() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store
        .save_documents(&[document("a", 1, Some("x"))])
        .unwrap();
    assert_eq!(store.health(), None);
    // A full disk, as SQLite sees it.
    let max_pages = |pages: i64| {
        let limit = |c: &Connection| Ok(c.pragma_update(None, "max_page_count", pages)?);
        store.read("a pragma", limit).unwrap();
    };
    max_pages(1);
    let large = "y".repeat(1_000_000);
    let edits = [document("a", 2, Some("z")), document("b", 2, Some(&large))];
    let told = store.save_documents(&edits).unwrap_err().0;
    assert_eq!(store.health(), Some(told.clone()));
    assert!(told.contains("full"), "{told}");
    assert_eq!(
        store.load_documents().unwrap(),
        [document("a", 1, Some("x"))]
    );
    max_pages(1_000_000);
    store.save_documents(&edits).unwrap();
    assert_eq!(store.health(), None);
}
