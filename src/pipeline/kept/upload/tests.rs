//! Sessions: sealed, bound to their account, and nothing of the provider's shown.

use holdline_core::replica::Documents;
use serde_json::json;

use super::*;
use crate::config::Config;

const NOW: WallMs = WallMs(1_800_000_000_000);

fn catalog(value: &str) -> Catalog {
    let key =
        |id: &str, value: &str| json!({"id": id, "name": id, "value": value, "models": ["*"]});
    let two = json!({"keys": [key("k-a", value), key("k-b", "b-secret")]});
    let config = json!({"providers": {"gemini": two}});
    let loaded = Config::parse(&config.to_string(), &|_| None).unwrap();
    Catalog::build(&loaded.config, &Documents::default())
}

fn key(catalog: &Catalog, id: &str) -> Arc<Key> {
    let keys = &catalog.providers[&ProviderId::from("gemini")].keys;
    Arc::clone(keys.iter().find(|key| key.spec.id.as_str() == id).unwrap())
}

fn begun() -> Begun {
    Begun {
        query: "upload_id=AB-c_9&upload_protocol=resumable".to_owned(),
        caller: Some("v1".to_owned()),
        until_ms: NOW.0 + 1000,
    }
}

fn asked(key_id: &str, sealed: &str) -> Query {
    let query = format!("provider=gemini&key_id={key_id}&session={sealed}");
    Query::read(Some(&query), Collection::GoogleUploads)
}

#[test]
fn a_session_is_opened_wherever_its_key_is_and_until_it_ends() {
    let catalog_here = catalog("a-secret");
    let gemini = ProviderId::from("gemini");
    let seal = Seal::of(&gemini, &key(&catalog_here, "k-a")).unwrap();
    let sealed = seal.close(&begun());
    let elsewhere = catalog("a-secret");
    let session = Session::find(&elsewhere, &asked("k-a", &sealed), NOW).unwrap();
    assert_eq!(session.begun, begun());
    assert_eq!(session.key.spec.id.as_str(), "k-a");
    let late = WallMs(NOW.0 + 1000);
    for (catalog, query, now) in [
        (&elsewhere, asked("k-a", &sealed), late),
        (&elsewhere, asked("k-b", &sealed), NOW),
        (&elsewhere, asked("k-x", &sealed), NOW),
        (&elsewhere, asked("k-a", ""), NOW),
        (&elsewhere, asked("k-a", &sealed[1..]), NOW),
        (&elsewhere, asked("k-a", &format!("{sealed}AAAA")), NOW),
        (&catalog("a-new-secret"), asked("k-a", &sealed), NOW),
    ] {
        let found = Session::find(catalog, &query, now);
        assert!(found.is_none(), "{:?}", query.session);
    }
}

#[test]
fn a_seal_shows_nothing_and_is_never_the_same() {
    let catalog = catalog("a-secret");
    let seal = Seal::of(&ProviderId::from("gemini"), &key(&catalog, "k-a")).unwrap();
    let (one, two) = (seal.close(&begun()), seal.close(&begun()));
    assert_ne!(one, two);
    let bytes = URL_SAFE_NO_PAD.decode(&one).unwrap();
    let shown = String::from_utf8_lossy(&bytes);
    assert!(!shown.contains("upload_id") && !shown.contains("AB-c_9"));
}

#[test]
fn of_a_providers_address_only_the_query_is_used_and_no_key() {
    for (address, expected) in [
        (
            "https://h/upload?upload_id=a&key=sk-1&x=y",
            Some("upload_id=a&x=y"),
        ),
        (
            "https://evil.example/other?upload_id=a",
            Some("upload_id=a"),
        ),
        ("https://h/upload?key=sk-1", None),
        ("https://h/upload", None),
        ("not an address?", None),
    ] {
        assert_eq!(query_of(address).as_deref(), expected, "{address}");
    }
    let long = format!("https://h/u?upload_id={}", "a".repeat(MAX_QUERY));
    assert_eq!(query_of(&long), None);
}

#[test]
fn the_door_is_the_one_that_the_client_came_by() {
    let peer = |has_tls| Peer {
        address: "127.0.0.1:9".parse().unwrap(),
        has_tls,
    };
    let door = |uri: &str, headers: &[(&str, &str)], has_tls| {
        let mut request = Request::builder().uri(uri).extension(peer(has_tls));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Door::of(&request.body(()).unwrap()).map(|door| door.0)
    };
    let host = ("host", "gw.example:8080");
    for (uri, headers, has_tls, expected) in [
        (
            "/g/u?x=1",
            &[host][..],
            false,
            Some("http://gw.example:8080/g/u"),
        ),
        ("/g/u", &[host], true, Some("https://gw.example:8080/g/u")),
        (
            "/g/u",
            &[host, ("x-forwarded-proto", "https")],
            false,
            Some("https://gw.example:8080/g/u"),
        ),
        (
            "/g/u",
            &[host, ("x-forwarded-proto", "javascript")],
            false,
            Some("http://gw.example:8080/g/u"),
        ),
        (
            "https://h2.example/g/u",
            &[],
            true,
            Some("https://h2.example/g/u"),
        ),
        (
            "/g/u",
            &[("host", "u:p@gw.example")],
            false,
            Some("http://gw.example/g/u"),
        ),
        ("/g/u", &[("host", "a b")], false, None),
        ("/g/u", &[], false, None),
    ] {
        assert_eq!(
            door(uri, headers, has_tls).as_deref(),
            expected,
            "{uri} {headers:?}"
        );
    }
}
