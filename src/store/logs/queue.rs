//! Records on their way to the writer thread. Handing one over never waits for the disk, and wakes the
//! writer once a batch, not once a record: a switch of threads costs more than a row.

use std::sync::mpsc::{self, SyncSender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::RequestLog;

/// Records that wait or are being written; more are dropped and counted.
const CAPACITY: usize = 10_000;
/// How long a batch grows, unless somebody waits for it.
const GATHER: Duration = Duration::from_millis(100);

/// Between requests and the writer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inside: Mutex<Inside>,
    /// Told of the first record of a batch, of a reader that waits, and of the end.
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    records: Vec<RequestLog>,
    /// How many the writer took and has not written yet.
    in_hand: usize,
    readers: Vec<SyncSender<()>>,
    ended: bool,
}

/// What one transaction writes, and who waits for it: they are told by the senders' drop.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) records: Vec<RequestLog>,
    readers: Vec<SyncSender<()>>,
}

impl Queue {
    /// Hands a record over; false where there is no room, or no writer any more.
    pub(super) fn push(&self, record: RequestLog) -> bool {
        let mut inside = self.lock();
        if inside.ended || inside.records.len() + inside.in_hand >= CAPACITY {
            return false;
        }
        inside.records.push(record);
        let is_first = inside.records.len() == 1;
        drop(inside);
        if is_first {
            self.wake.notify_one();
        }
        true
    }

    /// Waits until what was handed over so far is written, at most this long.
    pub(super) fn flush(&self, patience: Duration) {
        let (reader, written) = mpsc::sync_channel(1);
        let mut inside = self.lock();
        if inside.ended {
            return;
        }
        inside.readers.push(reader);
        drop(inside);
        self.wake.notify_one();
        // Nothing is ever sent: the other end is dropped when it is done, or the time runs out.
        let _ = written.recv_timeout(patience);
    }

    /// No more records come. The writer takes what is there, then ends.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.wake.notify_one();
    }

    /// For the writer: the next batch, which may be empty once `idle` has passed. False when it is the
    /// last. What the batch held before counts as written.
    pub(super) fn next(&self, batch: &mut Batch, idle: Duration) -> bool {
        batch.records.clear();
        batch.readers.clear();
        let mut inside = self.lock();
        inside.in_hand = 0;
        inside = self.wait(inside, idle, |i| i.records.is_empty() && !i.is_urgent());
        if !inside.records.is_empty() {
            inside = self.wait(inside, GATHER, |i| !i.is_urgent());
        }
        std::mem::swap(&mut inside.records, &mut batch.records);
        std::mem::swap(&mut inside.readers, &mut batch.readers);
        inside.in_hand = batch.records.len();
        !inside.ended
    }

    fn wait<'a>(
        &self,
        inside: MutexGuard<'a, Inside>,
        limit: Duration,
        goes_on: impl Fn(&Inside) -> bool,
    ) -> MutexGuard<'a, Inside> {
        let waited = self.wake.wait_timeout_while(inside, limit, |i| goes_on(i));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn is_urgent(&self) -> bool {
        self.ended || !self.readers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Instant;

    use super::super::tests::log;
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_reader_does_not_wait_for_the_batch_to_grow() {
        let queue = Arc::new(Queue::default());
        assert!(queue.push(log("r-1")));
        let writer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut batch = Batch::default();
                let mut taken = 0;
                while queue.next(&mut batch, LONG) {
                    taken += batch.records.len();
                }
                taken + batch.records.len()
            })
        };
        let start = Instant::now();
        queue.flush(LONG);
        assert!(start.elapsed() < LONG / 2);
        assert!(queue.push(log("r-2")));
        queue.end();
        assert_eq!(
            writer.join().unwrap(),
            2,
            "what was there at the end counts"
        );
        assert!(!queue.push(log("r-3")));
        queue.flush(LONG);
    }

    #[test]
    fn what_the_writer_has_in_hand_takes_up_room() {
        let queue = Queue::default();
        let mut batch = Batch::default();
        assert!((0..CAPACITY).all(|_| queue.push(log("r"))));
        assert!(!queue.push(log("r")));
        assert!(queue.next(&mut batch, LONG));
        assert!(!queue.push(log("r")), "none of it is written yet");
        assert!(queue.next(&mut batch, Duration::ZERO));
        assert!(queue.push(log("r")));
    }
}
