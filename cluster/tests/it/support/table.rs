//! The state of a node: core's ledger and documents behind a mutex.

use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use holdline_cluster::{Options, State};
use holdline_core::failure::Reason;
use holdline_core::holds::ledger::RouteKey;
use holdline_core::holds::{Answer, Incoming, Ledger, Record, Refusal, Selector};
use holdline_core::ids::{Fingerprint, ModelId, NodeId};
use holdline_core::replica::{Document, Documents};
use holdline_core::time::{Mono, WallMs};
use holdline_core::tpm::{self, Backoff, IncomingSignal, Level, Signal};

const FINGERPRINT: Fingerprint = Fingerprint(7);

pub(crate) struct Table {
    ledger: Mutex<Ledger>,
    documents: Mutex<Documents>,
    tpm: Mutex<tpm::Table>,
    started: Instant,
    wall_skew_ms: i64,
}

impl Table {
    /// An empty one, by a wall clock that is off by `wall_skew_ms`.
    pub(crate) fn new(options: &Options, wall_skew_ms: i64) -> Self {
        let instance = options.generation.wrapping_mul(1_000) + options.raft_id;
        let ledger = Ledger::new(options.node_id.clone(), options.region.clone(), instance);
        Self {
            ledger: Mutex::new(ledger),
            documents: Mutex::default(),
            tpm: Mutex::default(),
            started: Instant::now(),
            wall_skew_ms,
        }
    }

    pub(crate) fn wall_skew_ms(&self) -> i64 {
        self.wall_skew_ms
    }

    /// A provider refuses the credential: the whole key is held.
    pub(crate) fn refuse(&self, key: &str) -> Vec<Record> {
        let now = self.now();
        let route = route(key);
        let mut ledger = self.ledger();
        let holds = ledger.key_holds(&route.provider, &route.key, FINGERPRINT);
        let token = holds.token(&ModelId::from("m"), now);
        let refusal = Answer::Refused(Refusal {
            reason: Reason::Credential,
            stated_ms: Some(300_000),
            words: "no".to_owned(),
            status: 401,
        });
        ledger.settle(&route, &token, &refusal, now, self.wall())
    }

    pub(crate) fn release(&self, key: &str) -> Vec<Record> {
        let which = Selector::Key("openai".into(), key.into());
        self.ledger().release(&which, self.wall(), self.now())
    }

    /// A key's token limit runs dry.
    pub(crate) fn run_dry(&self, key: &str, wait_ms: u64) -> Signal {
        let stamp = self.ledger().tick(self.wall());
        let level = Level::Dry { wait_ms };
        self.make(Signal::Backoff(Backoff::new(route(key), level, stamp)))
    }

    /// An operator releases a key.
    pub(crate) fn clear(&self, key: &str) -> Signal {
        let stamp = self.ledger().tick(self.wall());
        let what = Selector::Key("openai".into(), key.into());
        self.make(Signal::Clear { what, stamp })
    }

    fn make(&self, signal: Signal) -> Signal {
        let now = self.now();
        self.tpm.lock().unwrap().merge(signal.clone(), 0, now);
        signal
    }

    /// How long this node believes the key to be dry.
    pub(crate) fn dry_ms(&self, key: &str) -> Option<u64> {
        let (route, now) = (route(key), self.now());
        let dry = self.tpm.lock().unwrap();
        let dry = dry.dry(&route.provider, &route.key, FINGERPRINT, now);
        dry.get(&route.model).map(|until| until.since_ms(now))
    }

    /// The whole table as it would be after a release, which does not happen here.
    pub(crate) fn after_release(&self, key: &str) -> Vec<Incoming> {
        let mut other = Ledger::new("n-other".into(), "east".into(), 999_999);
        for one in self.export_records() {
            other.merge(one, self.now());
        }
        let which = Selector::Key("openai".into(), key.into());
        other.release(&which, self.wall(), self.now());
        other.export(self.now())
    }

    pub(crate) fn write(&self, name: &str, body: &str) -> Document {
        let document = Document {
            name: name.to_owned(),
            stamp: self.ledger().tick(self.wall()),
            body: Some(body.to_owned()),
        };
        self.documents().merge(document.clone());
        document
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        self.documents().get(name)?.body.clone()
    }

    /// Keys held.
    pub(crate) fn held(&self) -> Vec<String> {
        let rows = self.ledger().held(self.now());
        rows.iter()
            .map(|row| row.record.subject.key.to_string())
            .collect()
    }

    /// How old this node believes the hold of this key to be.
    pub(crate) fn age_ms(&self, key: &str) -> u64 {
        let records = self.export_records();
        let mut of_key = records
            .iter()
            .filter(|incoming| incoming.record.subject.key.as_str() == key);
        of_key.next().unwrap().age_ms
    }

    fn now(&self) -> Mono {
        Mono(1_000_000 + u64::try_from(self.started.elapsed().as_millis()).unwrap())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    fn documents(&self) -> MutexGuard<'_, Documents> {
        self.documents.lock().unwrap()
    }
}

fn route(key: &str) -> RouteKey {
    RouteKey {
        provider: "openai".into(),
        key: key.into(),
        fingerprint: FINGERPRINT,
        model: "m".into(),
    }
}

impl State for Table {
    fn merge_records(&self, incoming: Vec<Incoming>) -> usize {
        let now = self.now();
        let mut ledger = self.ledger();
        let merged = incoming
            .into_iter()
            .filter(|one| ledger.merge(one.clone(), now));
        merged.count()
    }

    fn export_records(&self) -> Vec<Incoming> {
        self.ledger().export(self.now())
    }

    fn export_some(&self, records: &[Record]) -> Vec<Incoming> {
        let now = self.now();
        let ledger = self.ledger();
        let exported = records
            .iter()
            .filter_map(|record| ledger.export_one(&record.subject, now));
        exported.collect()
    }

    fn record_digest(&self) -> u128 {
        self.ledger().digest()
    }

    fn held_count(&self) -> usize {
        self.ledger().held_count()
    }

    fn merge_documents(&self, documents: Vec<Document>) -> usize {
        let mut here = self.documents();
        let merged = documents.into_iter().filter(|one| here.merge(one.clone()));
        merged.count()
    }

    fn export_documents(&self) -> Vec<Document> {
        self.documents().iter().cloned().collect()
    }

    fn document_digest(&self) -> u64 {
        self.documents().digest()
    }

    fn merge_signals(&self, signals: Vec<IncomingSignal>) -> usize {
        let now = self.now();
        let mut tpm = self.tpm.lock().unwrap();
        let changed = signals.into_iter().map(|one| {
            let routes = tpm.merge(one.signal, one.age_ms, now);
            usize::from(!routes.is_empty())
        });
        changed.sum()
    }

    fn wall(&self) -> WallMs {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let ms = u64::try_from(since.unwrap().as_millis()).unwrap();
        WallMs(ms.saturating_add_signed(self.wall_skew_ms))
    }

    fn answer(&self, from: &NodeId, question: &[u8]) -> Option<Vec<u8>> {
        let question = String::from_utf8_lossy(question);
        match &*question {
            "nonsense" => return None,
            "slow" => std::thread::sleep(std::time::Duration::from_secs(2)),
            _ => {}
        }
        Some(format!("{from} asked {question}").into_bytes())
    }
}
