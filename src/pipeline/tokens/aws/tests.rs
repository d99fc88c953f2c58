//! The search for keys, against a server that stands in for AWS.

use holdline_core::time::WallMs;

use super::super::stand::{Stand, in_world, words};
use super::*;
use crate::providers::aws::Role;

const STS: &str = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>\
    <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
    <Expiration>2026-11-30T12:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";

const KEYS: &str = r#"{"AccessKeyId":"ASIAHERE","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-30T12:00:00Z"}"#;

async fn search(source: Source, variables: &[(&str, String)]) -> Result<Granted, Trouble> {
    in_world(variables, async |world| keys(source, world).await).await
}

fn here() -> Source {
    Source {
        region: "eu-west-1".to_owned(),
        keys: None,
        role: None,
    }
}

fn access_key(granted: Result<Granted, Trouble>) -> String {
    granted.unwrap().keys.access_key.expose().to_owned()
}

#[tokio::test]
async fn keys_in_the_environment_are_taken_first() {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIAENV".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "s".to_owned()),
        ("AWS_ROLE_ARN", "arn".to_owned()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere".to_owned()),
    ];
    let granted = search(here(), &variables).await.unwrap();
    assert_eq!(granted.keys.access_key.expose(), "AKIAENV");
    assert_eq!((granted.keys.session_token, granted.expires), (None, None));
}

#[tokio::test]
async fn an_instance_tells_the_keys_of_its_role() {
    let stand = Stand::with(&[
        ("/latest/api/token", 200, "TOKEN"),
        (
            "/latest/meta-data/iam/security-credentials/",
            200,
            "role-1\n",
        ),
        (
            "/latest/meta-data/iam/security-credentials/role-1",
            200,
            KEYS,
        ),
    ]);
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", stand.listen().await)];
    let granted = search(here(), &variables).await.unwrap();
    assert_eq!(granted.expires, Some(WallMs(1_796_040_000_000)));
    assert_eq!(granted.keys.access_key.expose(), "ASIAHERE");
    assert_eq!(
        stand.asked(),
        [
            "PUT /latest/api/token HTTP/1.1",
            "GET /latest/meta-data/iam/security-credentials/ HTTP/1.1",
            "GET /latest/meta-data/iam/security-credentials/role-1 HTTP/1.1",
        ]
    );
    assert!(stand.heard("x-aws-ec2-metadata-token: TOKEN"));
}

#[tokio::test]
async fn a_container_tells_its_keys_to_who_has_its_token() {
    let stand = Stand::with(&[("/v1/credentials", 200, KEYS)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "sesame\n").unwrap();
    let variables = [
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            format!("{}/v1/credentials", stand.listen().await),
        ),
        (
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
            file.path().display().to_string(),
        ),
    ];
    assert_eq!(access_key(search(here(), &variables).await), "ASIAHERE");
    assert!(stand.heard("authorization: sesame\r\n"));
}

#[tokio::test]
async fn a_role_is_taken_on_with_configured_keys() {
    let stand = Stand::with(&[("/", 200, STS)]);
    let source = Source {
        keys: Some(AwsKeys {
            access_key: Secret::from("AKIAOWN".to_owned()),
            secret_key: Secret::from("s".to_owned()),
            session_token: None,
        }),
        role: Some(Role {
            arn: "arn:aws:iam::1:role/x".to_owned(),
            external_id: None,
            session_name: Some("me".to_owned()),
        }),
        ..here()
    };
    let variables = [("AWS_ENDPOINT_URL_STS", stand.listen().await)];
    assert_eq!(access_key(search(source, &variables).await), "ASIAROLE");
    assert!(stand.heard("Credential=AKIAOWN/"));
    assert!(stand.heard("&RoleSessionName=me"));
}

#[tokio::test]
async fn a_clusters_token_takes_on_its_role() {
    let answer = Box::leak(
        STS.replace("AssumeRoleRes", "AssumeRoleWithWebIdentityRes")
            .into(),
    );
    let stand = Stand::with(&[("/", 200, answer)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "jwt\n").unwrap();
    let variables = [
        ("AWS_ENDPOINT_URL_STS", stand.listen().await),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/x".to_owned()),
        (
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            file.path().display().to_string(),
        ),
    ];
    assert_eq!(access_key(search(here(), &variables).await), "ASIAROLE");
    assert!(stand.heard("&WebIdentityToken=jwt"));
    assert!(!stand.heard("authorization"));
}

#[tokio::test]
async fn a_refusal_is_told_in_awss_words() {
    let refusal = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
        <Message>not authorized</Message></Error></ErrorResponse>";
    let slow = "<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>";
    for (status, body, expected) in [
        (
            403,
            refusal,
            r#"403 {"message":"AWS STS: AccessDenied: not authorized"}"#,
        ),
        (
            400,
            slow,
            r#"429 {"message":"AWS STS: Throttling: Rate exceeded"}"#,
        ),
        (503, "<html>", "503 <html>"),
    ] {
        let stand = Stand::with(&[("/", status, body)]);
        let variables = [("AWS_ENDPOINT_URL_STS", stand.listen().await)];
        let source = Source {
            keys: Some(AwsKeys {
                access_key: Secret::from("a".to_owned()),
                secret_key: Secret::from("s".to_owned()),
                session_token: None,
            }),
            role: Some(Role {
                arn: "arn".to_owned(),
                external_id: None,
                session_name: None,
            }),
            ..here()
        };
        let trouble = search(source, &variables).await.unwrap_err();
        assert_eq!(words(trouble), expected);
    }
}

#[tokio::test]
async fn what_proves_who_the_machine_is_goes_nowhere_else() {
    for name in [
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    ] {
        for address in [
            "http://example.com/x",
            "http://10.0.0.1",
            "https://127.0.0.1",
            "x",
        ] {
            let trouble = search(here(), &[(name, address.to_owned())]).await;
            let told = words(trouble.unwrap_err());
            assert!(
                told.contains(name) && told.contains("must lead to"),
                "{told}"
            );
        }
    }
    let off = [("AWS_EC2_METADATA_DISABLED", "true".to_owned())];
    let told = words(search(here(), &off).await.unwrap_err());
    assert!(told.contains("give access_key and secret_key"), "{told}");
}
