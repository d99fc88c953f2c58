//! Amazon Bedrock's runtime: calls are signed for the key's region, or carry an API key of Bedrock.

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Request, Uri};

use holdline_core::time::WallMs;

use super::{Adapter, Call, Credential, Grant, NotCallable, aws, join, percent_encoded};
use crate::config::vendor::{BedrockKey, Vendor};
use crate::protocols::event_stream;

/// Where one region's models are. The key's region takes its place.
pub const ADDRESS: &str = "https://bedrock-runtime.us-east-1.amazonaws.com";

/// Used for keys that a caller brought.
const REGION: &str = "us-east-1";

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct Bedrock;

fn config<'a>(call: &Call<'a>) -> Option<&'a BedrockKey> {
    match &call.key?.vendor {
        Vendor::Bedrock(bedrock) => Some(bedrock),
        Vendor::None | Vendor::Azure(_) | Vendor::Vertex(_) => None,
    }
}

/// The alias's region, else the key's.
fn region<'a>(call: &Call<'a>) -> &'a str {
    let of_alias = call.alias.and_then(|alias| alias.region.as_deref());
    of_alias
        .or_else(|| Some(&*config(call)?.region))
        .unwrap_or(REGION)
}

/// The model's id: a name, or the ARN of a profile. An ARN that does not name a profile is the place of
/// profiles that are called like the model.
fn model_id(call: &Call<'_>) -> String {
    let of_alias = call.alias.and_then(|alias| alias.profile_arn.as_deref());
    let arn = of_alias.or_else(|| config(call)?.arn.as_deref());
    match arn {
        _ if call.model.starts_with("arn:") => call.model.to_owned(),
        None => call.model.to_owned(),
        Some(arn) if arn.contains('/') => arn.to_owned(),
        Some(arn) => format!("{arn}/{}", call.model),
    }
}

impl Adapter for Bedrock {
    fn endpoint(&self, call: &Call<'_>) -> Result<Uri, NotCallable> {
        let operation = if call.stream {
            "converse-stream"
        } else {
            "converse"
        };
        let path = format!("/model/{}/{operation}", percent_encoded(&model_id(call)));
        let base = call.base();
        if base.host() != Uri::from_static(ADDRESS).host() {
            return join(base, &path);
        }
        let region = region(call);
        let address = format!("https://bedrock-runtime.{region}.{}", aws::domain(region));
        let base: Uri = address
            .parse()
            .map_err(|_| NotCallable::from("`region` is no name of a region"))?;
        join(&base, &path)
    }

    fn grant(&self, call: &Call<'_>, _now: WallMs) -> Result<Option<Grant>, NotCallable> {
        let Some(config) = config(call) else {
            return Ok(None);
        };
        let bare = config.keys.is_none() && config.role.is_none();
        let has_value = call.key.is_some_and(|key| !key.value.expose().is_empty());
        if (config.keys.is_some() && config.role.is_none()) || (bare && has_value) {
            return Ok(None);
        }
        Ok(Some(Grant::Aws(aws::Source {
            region: region(call).to_owned(),
            keys: config.keys.clone(),
            role: config.role.clone(),
        })))
    }

    /// At the service beside the runtime: what the region runs on demand, and its profiles.
    fn lists(&self, call: &Call<'_>) -> Result<Vec<Uri>, NotCallable> {
        if call.base().host() != Uri::from_static(ADDRESS).host() {
            return Ok(Vec::new());
        }
        let region = region(call);
        let address = format!("https://bedrock.{region}.{}", aws::domain(region));
        let base: Uri = address
            .parse()
            .map_err(|_| NotCallable::from("`region` is no name of a region"))?;
        let paths = [
            "/foundation-models?byInferenceType=ON_DEMAND",
            "/inference-profiles?maxResults=1000",
        ];
        paths.iter().map(|path| join(&base, path)).collect()
    }

    fn sign(
        &self,
        call: &Call<'_>,
        credential: Credential<'_>,
        now: WallMs,
        request: &mut Request<Bytes>,
    ) -> Result<(), NotCallable> {
        if call.stream {
            let accepted = HeaderValue::from_static(event_stream::CONTENT_TYPE);
            request.headers_mut().insert(ACCEPT, accepted);
        }
        let own = config(call).and_then(|config| config.keys.as_ref());
        let keys = match (credential, own) {
            (Credential::Aws(keys), _) | (_, Some(keys)) => keys,
            (bearer, None) => return bearer.put(request.headers_mut(), None),
        };
        aws::sign(request, keys, region(call), "bedrock", now)
    }
}

#[cfg(test)]
mod tests {
    use holdline_core::replica::Documents;
    use http::HeaderMap;
    use http::header::AUTHORIZATION;
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Catalog, Config, Secret};
    use crate::protocols::{Operation, Protocol};

    fn catalog(key: &Value, base_url: Option<&str>) -> Catalog {
        let mut key = key.clone();
        key["name"] = json!("k");
        key["models"] = json!(["*"]);
        let mut provider = json!({"keys": [key]});
        if let Some(url) = base_url {
            provider["network_config"] = json!({"base_url": url});
        }
        let config = json!({"providers": {"bedrock": provider}});
        let loaded = Config::parse(&config.to_string(), &|_| None).unwrap();
        Catalog::build_with(&loaded.config, &Documents::default(), &|_| None)
    }

    fn with_call<T>(
        catalog: &Catalog,
        model: &str,
        stream: bool,
        f: impl FnOnce(&Call<'_>) -> T,
    ) -> T {
        let provider = catalog.providers.values().next().unwrap();
        let key = &*provider.keys[0];
        f(&Call {
            provider,
            key: Some(key),
            protocol: Protocol::Converse,
            operation: Operation::Answer,
            stream,
            model,
            alias: key.alias_details.get(model),
            client: &HeaderMap::new(),
        })
    }

    fn endpoint(config: &Value, model: &str) -> String {
        let catalog = catalog(config, None);
        with_call(&catalog, model, false, |call| {
            Bedrock.endpoint(call).unwrap().to_string()
        })
    }

    #[test]
    fn calls_go_to_the_keys_region_and_to_its_profiles() {
        let key = |more: Value| {
            let mut block = json!({"region": "eu-west-1", "access_key": "a", "secret_key": "s"});
            block
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({"bedrock_key_config": block, "aliases": {
                "far": {"model_id": "m", "region": "cn-north-1"},
                "own": {"model_id": "m", "inference_profile_arn": "arn:aws:bedrock:eu-west-1:1:inference-profile"}
            }})
        };
        let plain = key(json!({}));
        let with_arn = key(json!({"arn": "arn:aws:bedrock:eu-west-1:1:inference-profile/"}));
        let whole =
            key(json!({"arn": "arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc"}));
        const EU: &str = "https://bedrock-runtime.eu-west-1.amazonaws.com/model";
        const ARN: &str = "arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3A";
        for (config, model, expected) in [
            (&plain, "x-v1:0", format!("{EU}/x-v1%3A0/converse")),
            (
                &plain,
                "arn:aws:x/y",
                format!("{EU}/arn%3Aaws%3Ax%2Fy/converse"),
            ),
            (
                &plain,
                "far",
                "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/far/converse".to_owned(),
            ),
            (
                &plain,
                "own",
                format!("{EU}/{ARN}inference-profile%2Fown/converse"),
            ),
            (
                &with_arn,
                "m",
                format!("{EU}/{ARN}inference-profile%2Fm/converse"),
            ),
            (
                &whole,
                "m",
                format!("{EU}/{ARN}application-inference-profile%2Fabc/converse"),
            ),
        ] {
            assert_eq!(endpoint(config, model), expected);
        }
        let elsewhere = catalog(&plain, Some("http://127.0.0.1:81/at/x"));
        let streamed = with_call(&elsewhere, "m", true, |call| {
            Bedrock.endpoint(call).unwrap()
        });
        assert_eq!(
            streamed.to_string(),
            "http://127.0.0.1:81/at/x/model/m/converse-stream"
        );
    }

    /// What is granted for a key, and how a call with it is signed.
    fn proof(config: &Value) -> (Option<aws::Source>, String) {
        let catalog = catalog(config, None);
        with_call(&catalog, "m", true, |call| {
            let grant = Bedrock.grant(call, WallMs(0)).unwrap();
            let source = grant.map(|grant| match grant {
                Grant::Aws(source) => source,
                other @ (Grant::Token(_) | Grant::Google(_)) => panic!("{other:?}"),
            });
            let mut request = Request::new(Bytes::from_static(b"{}"));
            *request.uri_mut() = Bedrock.endpoint(call).unwrap();
            let value = Credential::Secret(&call.key.unwrap().value);
            Bedrock.sign(call, value, WallMs(0), &mut request).unwrap();
            assert_eq!(request.headers()[ACCEPT], event_stream::CONTENT_TYPE);
            let header = request.headers().get(AUTHORIZATION);
            let text = header
                .map(|value| value.to_str().unwrap())
                .unwrap_or_default();
            (source, text.split('/').next().unwrap().to_owned())
        })
    }

    #[test]
    fn keys_sign_api_keys_are_shown_and_the_rest_is_granted() {
        let key = |value: &str, block: Value| {
            let mut block = block;
            block["region"] = json!("eu-west-1");
            json!({"value": value, "bedrock_key_config": block})
        };
        let pair = json!({"access_key": "AKIA1", "secret_key": "s"});
        let (granted, shown) = proof(&key("unused", pair.clone()));
        assert_eq!(granted, None);
        assert_eq!(shown, "AWS4-HMAC-SHA256 Credential=AKIA1");
        let (granted, shown) = proof(&key("bedrock-api-key", json!({})));
        assert_eq!((granted, &*shown), (None, "Bearer bedrock-api-key"));
        let (granted, shown) = proof(&key("", json!({})));
        assert_eq!((granted.unwrap().keys, &*shown), (None, ""));
        let mut with_role = pair;
        with_role["role_arn"] = json!("arn:aws:iam::1:role/x");
        with_role["external_id"] = json!("e");
        let (granted, _) = proof(&key("", with_role));
        let granted = granted.unwrap();
        assert_eq!(granted.region, "eu-west-1");
        assert_eq!(granted.keys.unwrap().access_key.expose(), "AKIA1");
        let external = granted.role.unwrap().external_id;
        assert_eq!(external, Some(Secret::from("e".to_owned())));
    }

    #[test]
    fn mistakes_in_the_block_are_told_and_secrets_are_known_as_such() {
        let errors = |block: Value| {
            let keys = json!([{"name": "k", "models": ["*"], "bedrock_key_config": block}]);
            let config = json!({"providers": {"bedrock": {"keys": keys}}}).to_string();
            Config::parse(&config, &|_| None).unwrap_err().to_string()
        };
        let half = errors(json!({"region": "us-east-1", "access_key": "AKIATOPSECRET"}));
        assert!(
            half.contains("secret_key") && !half.contains("TOPSECRET"),
            "{half}"
        );
        let region = errors(json!({"region": "evil.example/"}));
        assert!(region.contains("bedrock_key_config.region"), "{region}");
        let block = json!({"access_key": "AKIA1", "secret_key": "s1", "session_token": "t1",
            "role_arn": "arn", "external_id": "e1"});
        let catalog = catalog(&json!({"bedrock_key_config": block}), None);
        let provider = catalog.providers.values().next().unwrap();
        let secrets: Vec<_> = provider.keys[0]
            .vendor
            .secrets()
            .map(Secret::expose)
            .collect();
        assert_eq!(secrets, ["e1", "AKIA1", "s1", "t1"]);
        for secret in ["AKIA1", "s1", "t1", "e1"] {
            assert!(!format!("{provider:?}").contains(&format!("\"{secret}\"")));
        }
    }
}
