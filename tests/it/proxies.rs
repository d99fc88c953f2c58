//! Proxies between a node and its providers: HTTP, SOCKS5, and those that the environment names.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Mock, Play, TestNode, chat, provider};
use crate::tls::behind_tls;

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

/// Speaks SOCKS5 with whoever logs in; keeps logins and targets.
async fn socks_proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve_socks(client, Arc::clone(&kept)));
        }
    });
    (address, seen)
}

async fn take(client: &mut TcpStream, count: u8) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(count)];
    client.read_exact(&mut bytes).await.unwrap();
    bytes
}

/// What stands behind its own length.
async fn counted(client: &mut TcpStream) -> Vec<u8> {
    let count = client.read_u8().await.unwrap();
    take(client, count).await
}

/// RFC 1928, with the login of RFC 1929.
async fn serve_socks(mut client: TcpStream, seen: Arc<Mutex<Vec<String>>>) {
    assert_eq!(take(&mut client, 1).await, [5]);
    let by_login = counted(&mut client).await.contains(&2);
    let method = if by_login { 2 } else { 0 };
    client.write_all(&[5, method]).await.unwrap();
    let mut login = Vec::new();
    if by_login {
        assert_eq!(take(&mut client, 1).await, [1]);
        login = counted(&mut client).await;
        login.push(b':');
        login.extend(counted(&mut client).await);
        client.write_all(&[1, 0]).await.unwrap();
    }
    // A name: it is the proxy's to resolve.
    assert_eq!(take(&mut client, 4).await, [5, 1, 0, 3]);
    let name = String::from_utf8(counted(&mut client).await).unwrap();
    let target = format!("{name}:{}", client.read_u16().await.unwrap());
    let login = String::from_utf8(login).unwrap();
    seen.lock().unwrap().push(format!("{login} -> {target}"));
    let mut server = TcpStream::connect(target).await.unwrap();
    let done = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    client.write_all(&done).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

#[tokio::test]
async fn a_provider_is_reached_through_socks() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let (inner, pem) = behind_tls(&mock).await;
    let (proxy, seen) = socks_proxy().await;
    let port = |url: &str| url.rsplit(':').next().unwrap().to_owned();
    let near = format!("localhost:{}", port(&mock.url()));
    let far = format!("localhost:{}", inner.address.port());
    let mut plain = provider(&format!("http://{near}"), &["k-a"], &json!({}));
    plain["proxy_config"] = json!({"type": "socks5", "url": format!("socks5://{proxy}")});
    let network = json!({"ca_cert_pem": pem});
    let mut secure = provider(&format!("https://{far}"), &["k-b"], &network);
    secure["proxy_config"] = json!({"type": "socks5", "url": format!("socks5h://{proxy}"), "username": "me", "password": "zanzibar"});
    let node = TestNode::start(&json!({"providers": {"plain": plain, "secure": secure}})).await;
    for model in ["plain/m", "secure/inner/m"] {
        let answer = node.client.chat("r-1", chat(model)).await;
        assert_eq!(answer.status, 200, "{model}: {answer:?}");
    }
    let expected = [format!(" -> {near}"), format!("me:zanzibar -> {far}")];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn the_environment_says_which_proxy_and_what_needs_none() {
    let mock = Mock::start(|_| Play::served("hello")).await;
    let (proxy, heads) = connect_proxy().await;
    let port = mock.url().rsplit(':').next().unwrap().to_owned();
    let custom = |host: &str| {
        let mut made = provider(&format!("http://{host}:{port}"), &["k-a"], &json!({}));
        made["proxy_config"] = json!({"type": "environment"});
        made
    };
    let providers = json!({"far": custom("localhost"), "near": custom("127.0.0.1")});
    let with_login = proxy.replace("http://", "http://me:zanzibar@");
    let env = [
        ("HTTP_PROXY", with_login),
        ("NO_PROXY", "127.0.0.0/8,elsewhere.example".to_owned()),
    ];
    let node = TestNode::start_in(&json!({"providers": providers}), &env).await;
    for (model, through) in [("near/m", 0), ("far/m", 1)] {
        assert_eq!(
            node.client.chat("r-1", chat(model)).await.status,
            200,
            "{model}"
        );
        let heads = heads.lock().unwrap();
        assert_eq!(heads.len(), through, "{model}");
        // me:zanzibar
        assert!(
            heads
                .iter()
                .all(|head| head.contains("Basic bWU6emFuemliYXI="))
        );
    }
}
