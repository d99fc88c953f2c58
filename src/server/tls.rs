//! The certificate with which a node answers TLS clients.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// HTTP/2, as clients name it in the handshake.
pub(super) const H2: &[u8] = b"h2";
const HTTP_11: &[u8] = b"http/1.1";

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
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

/// Reads both files, once: a renewed certificate needs a restart.
///
/// # Errors
/// When a file is missing, holds no PEM block of its kind, or the two do not match.
pub fn acceptor(cert_file: &Path, key_file: &Path) -> Result<TlsAcceptor, TlsError> {
    let certificate = |reason: String| TlsError::Certificate {
        path: cert_file.display().to_string(),
        reason,
    };
    let chain = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(certificate("holds no certificate in PEM form".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| TlsError::Key {
        path: key_file.display().to_string(),
        reason: error.to_string(),
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_11.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
