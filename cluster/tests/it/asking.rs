//! Questions that the cluster only carries.

use std::time::{Duration, Instant};

use holdline_cluster::{MAX_QUESTION_BYTES, MemberState};

use crate::support::{Node, eventually, fleet, start_all};

/// Far more than an answer takes on a busy machine.
const WITHIN: Duration = Duration::from_secs(10);

async fn ask(node: &Node, question: &[u8]) -> (Vec<String>, Vec<String>) {
    let asked = node.handle().ask_all(question.to_vec(), WITHIN).await;
    let mut answers: Vec<String> = asked
        .answers
        .iter()
        .map(|one| {
            let text = String::from_utf8_lossy(&one.answer);
            format!("{} in {}: {text}", one.node_id, one.region)
        })
        .collect();
    answers.sort();
    let missing = asked.missing.iter().map(ToString::to_string);
    (answers, missing.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_others_answer_and_who_is_down_is_named() {
    let mut nodes = fleet(3);
    start_all(&mut nodes).await;
    let both = ["n1 in west: n0 asked hello", "n2 in east: n0 asked hello"];
    assert_eq!(
        ask(&nodes[0], b"hello").await,
        (both.map(str::to_owned).to_vec(), Vec::new())
    );

    nodes[1].kill();
    eventually("dead", || nodes[0].sees("n1", MemberState::Dead)).await;
    let begun = Instant::now();
    let (answers, missing) = ask(&nodes[0], b"hello").await;
    assert_eq!((answers.len(), missing), (1, vec!["n1".to_owned()]));
    assert!(begun.elapsed() < WITHIN, "the dead are not waited for");

    nodes[2].leave().await;
    eventually("left", || nodes[0].sees("n2", MemberState::Left)).await;
    let (answers, missing) = ask(&nodes[0], b"hello").await;
    assert_eq!((answers.len(), missing), (0, vec!["n1".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_or_comes_too_late_is_named_too() {
    let mut nodes = fleet(2);
    start_all(&mut nodes).await;
    let all = vec!["n1".to_owned()];
    assert_eq!(ask(&nodes[0], b"nonsense").await.1, all);
    assert_eq!(
        ask(&nodes[0], &vec![b'x'; MAX_QUESTION_BYTES + 1]).await.1,
        all
    );
    let asked = nodes[0]
        .handle()
        .ask_all(b"slow".to_vec(), Duration::from_millis(50));
    assert_eq!(asked.await.missing.len(), 1);
    assert_eq!(
        ask(&nodes[0], b"hello").await.0.len(),
        1,
        "the link is as good as before"
    );
}
