//! TLS for a real apiserver: certificates, and a relay through which clients of plain HTTP connect
//! to it as its administrator.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use test_support::own_thread::serve_on_own_thread;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Names of the certificates and keys, which are PEM files in one folder.
pub(crate) const SERVING: &str = "serving";
pub(crate) const ADMIN: &str = "admin";
pub(crate) const ACCOUNTS: &str = "accounts";

/// Writes the server's identity, an administrator's, and the key that signs service accounts: each
/// as `NAME.crt` (or the public key as `NAME.pub`) and `NAME.key`.
pub(crate) fn write_identities(folder: &Path) {
    let mut admin = CertificateParams::new(Vec::new()).expect("no names");
    admin.distinguished_name = DistinguishedName::new();
    admin.distinguished_name.push(DnType::CommonName, "admin");
    admin
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    let serving = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
    for (name, params) in [(SERVING, serving), (ADMIN, admin)] {
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        write(folder, &format!("{name}.crt"), &cert.pem());
        write(folder, &format!("{name}.key"), &key.serialize_pem());
    }
    let accounts = KeyPair::generate().expect("a key");
    write(
        folder,
        &format!("{ACCOUNTS}.key"),
        &accounts.serialize_pem(),
    );
    write(
        folder,
        &format!("{ACCOUNTS}.pub"),
        &accounts.public_key_pem(),
    );
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("a file in a temporary folder");
}

/// A running relay; ends when dropped.
pub(crate) struct Relay {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    _stop: oneshot::Sender<()>,
}

impl Relay {
    /// Starts a relay to the TLS server at `to` with the identities in `folder`. It has its own
    /// thread, because each case has its own runtime.
    pub(crate) fn start(to: SocketAddr, folder: &Path) -> Self {
        let connector = TlsConnector::from(Arc::new(client(folder)));
        let (stop, stopped) = oneshot::channel();
        let address = serve_on_own_thread(move |listener| async move {
            tokio::select! {
                () = relay(listener, to, connector) => {}
                _ = stopped => {}
            }
        });
        Self {
            url: format!("http://{address}"),
            _stop: stop,
        }
    }
}

async fn relay(listener: TcpListener, to: SocketAddr, connector: TlsConnector) {
    while let Ok((mut client, _)) = listener.accept().await {
        let connector = connector.clone();
        tokio::spawn(async move {
            let name = ServerName::IpAddress(to.ip().into());
            let server = TcpStream::connect(to).await?;
            let mut server = connector.connect(name, server).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await
        });
    }
}

fn client(folder: &Path) -> ClientConfig {
    let cert = |name: &str| {
        let path = folder.join(format!("{name}.crt"));
        CertificateDer::from_pem_file(path).expect("a certificate")
    };
    let mut roots = RootCertStore::empty();
    roots.add(cert(SERVING)).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join(format!("{ADMIN}.key"))).expect("a key");
    ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider's own versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![cert(ADMIN)], key)
        .expect("a key that fits its certificate")
}
