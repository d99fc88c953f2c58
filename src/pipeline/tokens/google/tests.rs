//! The search for a token, against a server that stands in for Google.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::Proof;
use super::super::stand::{Stand, in_world, words};
use super::*;
use crate::providers::google::tests::ACCOUNT;

const GRANTED: &str = r#"{"access_token":"ya29.t","expires_in":3599,"token_type":"Bearer"}"#;
const METADATA_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token?scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform";

async fn search(source: Source, variables: &[(&str, String)]) -> Result<Token, Trouble> {
    in_world(variables, async |world| token_of(source, world).await).await
}

fn text(token: Result<Token, Trouble>) -> String {
    match token.unwrap().proof {
        Proof::Token(token) => token.expose().to_owned(),
        Proof::Aws(keys) => panic!("{keys:?}"),
    }
}

/// The account's file, with its tokens granted at this address.
fn account(address: &str) -> String {
    let mut file: Value = serde_json::from_str(ACCOUNT).unwrap();
    file["token_uri"] = json!(format!("{address}/token"));
    file.to_string()
}

#[tokio::test]
async fn a_configured_account_gets_its_token_for_an_assertion() {
    let stand = Stand::with(&[("/token", 200, GRANTED)]);
    let address = stand.listen().await;
    let identity = Identity::read(&account(&address)).unwrap();
    let token = search(Source::Given(Arc::new(identity)), &[]).await;
    assert_eq!(text(token), "ya29.t");
    assert_eq!(stand.asked(), ["POST /token HTTP/1.1"]);
    assert!(stand.heard("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"));
    assert!(stand.heard("content-type: application/x-www-form-urlencoded"));
}

#[tokio::test]
async fn what_is_at_hand_is_looked_for_in_order() {
    let stand = Stand::with(&[("/token", 200, GRANTED), (METADATA_PATH, 200, GRANTED)]);
    let address = stand.listen().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.json");
    std::fs::write(&file, account(&address)).unwrap();
    let metadata = address.trim_start_matches("http://").to_owned();
    let gcloud = ("CLOUDSDK_CONFIG", folder.path().display().to_string());
    let own = ("GOOGLE_APPLICATION_CREDENTIALS", file.display().to_string());
    let machine = ("GCE_METADATA_HOST", metadata);

    let found = search(Source::Here, &[machine.clone(), gcloud.clone()]).await;
    assert_eq!(text(found), "ya29.t");
    assert!(stand.heard("metadata-flavor: Google"));
    let user = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s",
        "refresh_token": "r", "token_uri": format!("{address}/token")});
    let left = folder.path().join("application_default_credentials.json");
    std::fs::write(left, user.to_string()).unwrap();
    search(Source::Here, &[machine.clone(), gcloud.clone()])
        .await
        .unwrap();
    assert!(stand.heard("grant_type=refresh_token"));
    search(Source::Here, &[machine, gcloud, own]).await.unwrap();
    assert!(stand.heard("jwt-bearer"));
    let asked = stand.asked();
    assert!(
        asked[0].starts_with("GET /computeMetadata/v1/"),
        "{asked:?}"
    );
    assert_eq!(asked[1..], ["POST /token HTTP/1.1"; 2]);
}

#[tokio::test]
async fn nothing_at_hand_says_what_to_give() {
    let off = ("NO_GCE_CHECK", "true".to_owned());
    let none = words(search(Source::Here, &[off]).await.unwrap_err());
    assert!(none.contains("auth_credentials"), "{none}");
    let named = ("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file".to_owned());
    let unread = words(search(Source::Here, &[named]).await.unwrap_err());
    assert!(unread.contains("/no/such/file"), "{unread}");
    let elsewhere = ("GCE_METADATA_HOST", "metadata.example".to_owned());
    let refused = words(search(Source::Here, &[elsewhere]).await.unwrap_err());
    assert!(refused.contains("GCE_METADATA_HOST"), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.json");
    std::fs::write(
        &file,
        r#"{"type": "external_account", "secret": "TOPSECRET"}"#,
    )
    .unwrap();
    let named = ("GOOGLE_APPLICATION_CREDENTIALS", file.display().to_string());
    let other = words(search(Source::Here, &[named]).await.unwrap_err());
    assert!(
        other.contains("`type`") && !other.contains("TOPSECRET"),
        "{other}"
    );
}

#[tokio::test]
async fn a_refusal_and_nonsense_are_told_apart() {
    let answers = [
        (
            400,
            r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#,
            "400 {",
        ),
        (200, "{}", "cannot be read"),
        (503, "", "503"),
    ];
    for (status, body, expected) in answers {
        let stand = Stand::with(&[("/token", status, body)]);
        let identity = Identity::read(&account(&stand.listen().await)).unwrap();
        let trouble = search(Source::Given(Arc::new(identity)), &[])
            .await
            .unwrap_err();
        let told = words(trouble);
        assert!(told.contains(expected), "{told}");
    }
}
