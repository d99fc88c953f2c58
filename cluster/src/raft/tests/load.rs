//! What a busy machine does to leaders: measured in real time, so run by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::memory::record;
use super::net::Net;
use super::secs;

/// Two regions of three nodes, and more busy threads than the machine has cores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute of a whole machine"]
async fn leaders_stay_on_a_busy_machine() {
    let nets = [Net::of(3).await, Net::of(3).await];
    let mut before = Vec::new();
    for net in &nets {
        let leader = net.leader(secs(10)).await;
        net.voters(&leader, 3).await;
        before.push((leader.clone(), net.leadership(&leader).term));
    }
    let over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    for second in 0..20 {
        for net in &nets {
            net.merge(&[record(second, 1)]);
            net.settle(secs(1) / 2).await;
        }
    }
    over.store(true, Ordering::Relaxed);
    for thread in busy {
        thread.join().unwrap();
    }
    let mut after = Vec::new();
    for net in &nets {
        let leader = net.leader(secs(10)).await;
        after.push((leader.clone(), net.leadership(&leader).term));
    }
    println!("{before:?} {after:?}");
    assert_eq!(before, after);
}
