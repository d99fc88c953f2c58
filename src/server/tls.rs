//! The certificate with which a node answers TLS clients, kept as new as its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// HTTP/2, as clients name it in the handshake.
pub(super) const H2: &[u8] = b"h2";
const HTTP_11: &[u8] = b"http/1.1";

/// How often the files are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Certificates and keys are a few thousand bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A certificate or key that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsError {
    /// The file of the certificates.
    #[error("server.tls.cert_file: {path}: {reason}")]
    Certificate {
        /// Which.
        path: String,
        /// Never the file's content.
        reason: String,
    },
    /// The file of the key.
    #[error("server.tls.key_file: {path}: {reason}")]
    Key {
        /// Which.
        path: String,
        /// Never the file's content.
        reason: String,
    },
    /// Each is fine, but not with the other.
    #[error("server.tls: the certificate and the key do not belong together: {0}")]
    Pair(rustls::Error),
}

/// A certificate and its key, from two files that may be renewed.
#[derive(Debug)]
pub struct Certificate {
    cert_file: PathBuf,
    key_file: PathBuf,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
}

impl Certificate {
    /// Reads both files.
    ///
    /// # Errors
    /// When a file is missing, holds no PEM block of its kind, or the two do not match.
    pub fn load(cert_file: &Path, key_file: &Path) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = read(cert_file, key_file, &provider)?;
        Ok(Arc::new(Self {
            cert_file: cert_file.to_owned(),
            key_file: key_file.to_owned(),
            provider,
            current: ArcSwap::from_pointee(pair),
        }))
    }

    /// Answers every handshake with what is in force then.
    #[must_use]
    pub fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Current(Arc::clone(self))));
        config.alpn_protocols = vec![H2.to_vec(), HTTP_11.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    /// Reads both files again. True where they are others than those in force, which they are then.
    ///
    /// # Errors
    /// As [`Certificate::load`]; what was in force stays.
    pub fn renew(&self) -> Result<bool, TlsError> {
        let pair = read(&self.cert_file, &self.key_file, &self.provider)?;
        // A key that fits the same certificate is the same key.
        let is_new = pair.cert != self.current.load().cert;
        if is_new {
            self.current.store(Arc::new(pair));
        }
        Ok(is_new)
    }

    /// Looks at the files again and again until the end, on a thread where reading hinders nobody. A failure
    /// is told once, until something else is found.
    pub async fn keep_renewed(self: Arc<Self>, every: Duration, end: CancellationToken) {
        let mut told = None;
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                () = tokio::time::sleep(every) => {}
            }
            let certificate = Arc::clone(&self);
            let renewed = tokio::task::spawn_blocking(move || certificate.renew()).await;
            let Ok(renewed) = renewed else {
                // Only at the end of the process.
                return;
            };
            match renewed {
                Ok(true) => info!(
                    file = %self.cert_file.display(),
                    "the renewed certificate is in force"
                ),
                Ok(false) => {}
                Err(error) if told.as_ref() == Some(&error) => continue,
                Err(error) => {
                    warn!(
                        %error,
                        "the certificate cannot be renewed: the one before stays in force"
                    );
                    told = Some(error);
                    continue;
                }
            }
            told = None;
        }
    }
}

/// Resolves to what is in force.
#[derive(Debug)]
struct Current(Arc<Certificate>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current.load_full())
    }
}

fn read(
    cert_file: &Path,
    key_file: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let certificate = |reason: String| TlsError::Certificate {
        path: cert_file.display().to_string(),
        reason,
    };
    let key_error = |reason: String| TlsError::Key {
        path: key_file.display().to_string(),
        reason,
    };
    let pem = bounded(cert_file).map_err(certificate)?;
    let chain = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(certificate("holds no certificate in PEM form".to_owned()));
    }
    let pem = bounded(key_file).map_err(key_error)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| key_error(error.to_string()))?;
    CertifiedKey::from_der(chain, key, provider).map_err(TlsError::Pair)
}

fn bounded(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let read = || {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path)?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error: std::io::Error| error.to_string())
}
