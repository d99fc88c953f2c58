//! TLS in front of a node and behind it, HTTP/2 both ways, and proxies between: one node is the provider
//! of another.

use std::sync::{Arc, Mutex};

use holdline::server::tls;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Mock, Play, TestNode, chat, provider, stream};

/// A node that speaks TLS as `localhost`, and the certificate to believe it by.
async fn behind_tls(mock: &Mock) -> (TestNode, String) {
    let files = TempDir::new().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let config = json!({"providers": {"inner": provider(&mock.url(), &["k-in"], &json!({}))}});
    let acceptor = tls::acceptor(&cert, &key).unwrap();
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

/// Takes CONNECT; keeps the heads.
async fn connect_proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap().to_owned();
                kept.lock().unwrap().push(head);
                let mut server = TcpStream::connect(target).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (url, heads)
}

#[tokio::test]
async fn a_provider_is_reached_through_its_proxy() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let (inner, pem) = behind_tls(&mock).await;
    let (proxy, heads) = connect_proxy().await;
    let proxy = json!({"type": "http", "url": proxy, "username": "me", "password": "zanzibar"});
    let mut plain = provider(&mock.url(), &["k-a"], &json!({}));
    plain["proxy_config"] = proxy.clone();
    let url = format!("https://localhost:{}", inner.address.port());
    let mut secure = provider(&url, &["k-b"], &json!({"ca_cert_pem": pem}));
    secure["proxy_config"] = proxy;
    let node = TestNode::start(&json!({"providers": {"plain": plain, "secure": secure}})).await;
    for model in ["plain/m", "secure/inner/m"] {
        assert_eq!(
            node.client.chat("r-1", chat(model)).await.status,
            200,
            "{model}"
        );
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 2, "{heads:?}");
    for head in heads.iter() {
        assert!(head.starts_with("CONNECT "), "{head}");
        // me:zanzibar
        assert!(head.contains("Basic bWU6emFuemliYXI="), "{head}");
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_told_by_its_field() {
    let files = TempDir::new().unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    let told = || tls::acceptor(&cert, &key).err().unwrap().to_string();
    assert!(told().starts_with("server.tls.cert_file"), "{}", told());
    std::fs::write(&cert, "no certificate").unwrap();
    assert!(told().starts_with("server.tls.cert_file"), "{}", told());
    let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    std::fs::write(&cert, made("a").cert.pem()).unwrap();
    assert!(told().starts_with("server.tls.key_file"), "{}", told());
    std::fs::write(&key, made("b").signing_key.serialize_pem()).unwrap();
    assert!(told().contains("do not belong together"), "{}", told());
}
