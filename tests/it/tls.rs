//! TLS in front of a node and behind it, and HTTP/2 both ways: one node is the provider of another.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdline::server::tls::Certificate;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support::{Mock, Play, TestNode, chat, provider, stream};

/// A node that speaks TLS as `localhost`, and the certificate to believe it by.
pub(crate) async fn behind_tls(mock: &Mock) -> (TestNode, String) {
    let files = TempDir::new().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let config = json!({"providers": {"inner": provider(&mock.url(), &["k-in"], &json!({}))}});
    let acceptor = Certificate::load(&cert, &key).unwrap().acceptor();
    (
        TestNode::start_tls(&config, acceptor).await,
        made.cert.pem(),
    )
}

async fn in_front(inner: &TestNode, network: &Value) -> TestNode {
    let url = format!("https://localhost:{}", inner.address.port());
    let outer = provider(&url, &["k-out"], network);
    TestNode::start(&json!({"providers": {"outer": outer}})).await
}

#[tokio::test]
async fn a_provider_is_believed_by_its_own_certificate_or_none() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let (inner, pem) = behind_tls(&mock).await;
    for (network, served) in [
        (json!({"ca_cert_pem": pem}), true),
        (json!({"insecure_skip_verify": true}), true),
        (json!({"ca_cert_pem": pem, "enforce_http2": true}), true),
        (json!({"max_retries": 0}), false),
    ] {
        let node = in_front(&inner, &network).await;
        let answer = node.client.chat("r-1", chat("outer/inner/m")).await;
        assert_eq!(answer.status == 200, served, "{network}: {:?}", answer.body);
    }
}

#[tokio::test]
async fn streams_pass_through_tls_and_http2() {
    let mock = Mock::start(|_| Play::stream().role().text("hello").finish().done()).await;
    let (inner, pem) = behind_tls(&mock).await;
    for http2 in [false, true] {
        let network = json!({"ca_cert_pem": pem, "enforce_http2": http2});
        let node = in_front(&inner, &network).await;
        let answer = node.client.chat("r-1", stream("outer/inner/m")).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
        assert!(answer.is_done());
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_told_by_its_field() {
    let files = TempDir::new().unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    let told = || Certificate::load(&cert, &key).err().unwrap().to_string();
    assert!(told().starts_with("server.tls.cert_file"), "{}", told());
    std::fs::write(&cert, "no certificate").unwrap();
    assert!(told().starts_with("server.tls.cert_file"), "{}", told());
    let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    std::fs::write(&cert, made("a").cert.pem()).unwrap();
    assert!(told().starts_with("server.tls.key_file"), "{}", told());
    std::fs::write(&key, made("b").signing_key.serialize_pem()).unwrap();
    assert!(told().contains("do not belong together"), "{}", told());
}

/// Writes a new pair for `localhost`; the certificate to believe.
fn write_pair(cert: &Path, key: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(cert, made.cert.pem()).unwrap();
    std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
    made.cert.pem()
}

#[tokio::test]
async fn a_renewed_certificate_is_in_force_without_a_restart() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let files = TempDir::new().unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    let first = write_pair(&cert, &key);
    let certificate = Certificate::load(&cert, &key).unwrap();
    let config = json!({"providers": {"inner": provider(&mock.url(), &["k-in"], &json!({}))}});
    let inner = TestNode::start_tls(&config, certificate.acceptor()).await;
    let serves = async |pem: &str| {
        let node = in_front(&inner, &json!({"ca_cert_pem": pem})).await;
        node.client.chat("r-1", chat("outer/inner/m")).await.status == 200
    };
    assert!(serves(&first).await);
    assert_eq!(certificate.renew(), Ok(false));
    let end = CancellationToken::new();
    let every = Duration::from_millis(20);
    let keeping = tokio::spawn(Arc::clone(&certificate).keep_renewed(every, end.clone()));
    let second = write_pair(&cert, &key);
    while !serves(&second).await {}
    assert!(!serves(&first).await);
    end.cancel();
    keeping.await.unwrap();
    // What cannot be used changes nothing, and says what it is.
    std::fs::write(&cert, "half a certifica").unwrap();
    let told = certificate.renew().unwrap_err().to_string();
    assert!(
        told.contains("cert.pem: holds no certificate in PEM form"),
        "{told}"
    );
    std::fs::write(&cert, &first).unwrap();
    let told = certificate.renew().unwrap_err().to_string();
    assert!(told.contains("do not belong together"), "{told}");
    std::fs::remove_file(&key).unwrap();
    let told = certificate.renew().unwrap_err().to_string();
    assert!(told.starts_with("server.tls.key_file: "), "{told}");
    assert!(serves(&second).await);
}
