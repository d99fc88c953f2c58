//! Sealed gossip: chitchat's own socket speaks on a private loopback port, and this relay seals what it
//! says and opens what comes in.
//!
//! Chitchat keeps the serialisation of its messages private, so a transport of ours can seal only what
//! its [`UdpSocket`] has turned into bytes. A datagram on the wire is: version, nonce (boot number,
//! counter, 8 random bytes), sealed fragment. The boot number is drawn when the sender starts, the
//! counter grows with each datagram: replays are told by them.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use async_trait::async_trait;
use chitchat::ChitchatEnvelope;
use chitchat::transport::{RecvOutcome, SendOutcome, Socket, Transport, UdpSocket};
use socket2::{Domain, Protocol, Type};

use super::fragment::{Assembled, Assembly, HEADER_BYTES, cut};
use crate::seal::window::Senders;
use crate::seal::{Keyring, NONCE_BYTES, TAG_BYTES};
use crate::tally::Tally;

/// First byte of every datagram.
const VERSION: u8 = 1;

/// The kernel may grant less.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// The hop to chitchat's socket and back stays inside the kernel.
const HOP: Duration = Duration::from_millis(500);

/// Addresses whose secret is remembered while secrets roll over.
const MAX_ADDRESSES: usize = 1_024;

/// Larger than any datagram.
const BUFFER_BYTES: usize = 65_536;

/// What the sockets of one node share, also over restarts of chitchat.
pub(crate) struct Wire {
    pub(crate) keys: Arc<Keyring>,
    pub(crate) tally: Arc<Tally>,
    /// Tells this life of the node from every other.
    pub(crate) boot: u64,
    counter: AtomicU64,
    senders: Mutex<Senders>,
    bound: std::net::UdpSocket,
}

impl Wire {
    /// Binds the gossip port.
    ///
    /// # Errors
    /// When the port is taken or the address is not ours.
    pub(crate) fn bind(
        address: SocketAddr,
        keys: Arc<Keyring>,
        tally: Arc<Tally>,
    ) -> io::Result<Self> {
        let socket = socket2::Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        // What the kernel grants is enough for small tables; RPC repairs what is lost.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(Self {
            keys,
            tally,
            boot: rand::random(),
            counter: AtomicU64::new(0),
            senders: Mutex::default(),
            bound: socket.into(),
        })
    }

    /// The bound port.
    ///
    /// # Errors
    /// When the socket is broken.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.bound.local_addr()
    }

    /// Since the node with this boot number was last heard directly.
    pub(crate) fn silence(&self, boot: u64) -> Option<Duration> {
        self.lock_senders().silence(boot, Instant::now())
    }

    fn lock_senders(&self) -> std::sync::MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seal(&self, secret: usize, fragment: &[u8]) -> Vec<u8> {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed) + 1;
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.boot.to_le_bytes());
        nonce[8..16].copy_from_slice(&counter.to_le_bytes());
        nonce[16..].copy_from_slice(&rand::random::<[u8; 8]>());
        let mut datagram = Vec::with_capacity(1 + NONCE_BYTES + fragment.len() + TAG_BYTES);
        datagram.push(VERSION);
        datagram.extend_from_slice(&nonce);
        datagram.append(&mut self.keys.gossip(secret).seal(&nonce, fragment));
        datagram
    }

    /// The fragment, its sender's boot number, and the secret that fitted. None if it is refused.
    fn open(&self, datagram: &[u8]) -> Option<(usize, u64, Vec<u8>)> {
        let (&version, rest) = datagram.split_first()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        if version != VERSION || sealed.len() < TAG_BYTES + HEADER_BYTES {
            return None;
        }
        let (secret, fragment) = self.keys.open_gossip(nonce, sealed)?;
        let (boot, rest) = nonce.split_first_chunk::<8>()?;
        let (boot, counter) = (u64::from_le_bytes(*boot), rest.first_chunk::<8>()?);
        let counter = u64::from_le_bytes(*counter);
        let fresh = self.lock_senders().accept(boot, counter, Instant::now());
        fresh.then_some((secret, boot, fragment))
    }
}

/// Opens [`SealedSocket`]s on the bound port.
pub(crate) struct SealedTransport(pub(crate) Arc<Wire>);

#[async_trait]
impl Transport for SealedTransport {
    /// The address is ignored: the port is bound already, so that a taken one fails the start.
    async fn open(&self, _listen: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let outside = tokio::net::UdpSocket::from_std(self.0.bound.try_clone()?)?;
        let relay = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let relay_address = relay.local_addr()?;
        let (inside, inside_address) = open_inside().await?;
        Ok(Box::new(SealedSocket {
            wire: Arc::clone(&self.0),
            outside,
            relay,
            relay_address,
            inside,
            inside_address,
            under_way: None,
            assembly: Assembly::default(),
            secrets: Secrets::default(),
            messages: rand::random(),
            buffer: vec![0; BUFFER_BYTES],
        }))
    }
}

async fn open_inside() -> anyhow::Result<(UdpSocket, SocketAddr)> {
    let inside = UdpSocket::open((Ipv4Addr::LOCALHOST, 0).into()).await?;
    let address = inside.local_addr()?;
    Ok((inside, address))
}

struct SealedSocket {
    wire: Arc<Wire>,
    outside: tokio::net::UdpSocket,
    relay: tokio::net::UdpSocket,
    relay_address: SocketAddr,
    inside: UdpSocket,
    inside_address: SocketAddr,
    /// A message handed to the inside socket and not read back yet: `recv` may be cancelled in between.
    under_way: Option<UnderWay>,
    assembly: Assembly,
    secrets: Secrets,
    messages: u32,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct UnderWay {
    from: SocketAddr,
    bytes: usize,
    until: tokio::time::Instant,
}

#[async_trait]
impl Socket for SealedSocket {
    fn local_addr(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.outside.local_addr()?)
    }

    async fn send(
        &mut self,
        to: SocketAddr,
        envelope: ChitchatEnvelope,
    ) -> anyhow::Result<SendOutcome> {
        self.inside.send(self.relay_address, envelope).await?;
        let deadline = tokio::time::Instant::now() + HOP;
        let num_bytes_sent = loop {
            let hop = self.relay.recv_from(&mut self.buffer);
            match tokio::time::timeout_at(deadline, hop).await {
                Ok(Ok((bytes, from))) if from == self.inside_address => {
                    break self.send_sealed(to, bytes).await;
                }
                Ok(Ok(_)) => {} // a stranger on this host
                Ok(Err(error)) if is_passing(&error) => {}
                Ok(Err(error)) => return Err(error).context("the gossip relay broke"),
                Err(_) => break 0, // lost on the way: the next round says it again
            }
        };
        Ok(SendOutcome { num_bytes_sent })
    }

    async fn recv(&mut self) -> anyhow::Result<RecvOutcome> {
        loop {
            if let Some(outcome) = self.read_back().await? {
                return Ok(outcome);
            }
            let (bytes, from) = match self.outside.recv_from(&mut self.buffer).await {
                Ok(received) => received,
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error).context("the gossip socket broke"),
            };
            if let Some(message) = self.take(bytes, from) {
                self.under_way = Some(UnderWay {
                    from,
                    bytes,
                    until: tokio::time::Instant::now() + HOP,
                });
                self.relay.send_to(&message, self.inside_address).await?;
            }
        }
    }
}

impl SealedSocket {
    /// Seals and sends what the relay has read. A datagram that cannot be sent is a lost one.
    async fn send_sealed(&mut self, to: SocketAddr, bytes: usize) -> usize {
        self.messages = self.messages.wrapping_add(1);
        let Some(fragments) = cut(self.messages, &self.buffer[..bytes]) else {
            return 0;
        };
        let secret = self.secrets.towards(to, self.wire.keys.len());
        let mut sent = 0;
        for fragment in fragments {
            let datagram = self.wire.seal(secret, &fragment);
            sent += self.outside.send_to(&datagram, to).await.unwrap_or(0);
        }
        sent
    }

    /// The message of the datagram in the buffer, if that was genuine, fresh and the last of its message.
    fn take(&mut self, bytes: usize, from: SocketAddr) -> Option<Vec<u8>> {
        let Some((secret, boot, fragment)) = self.wire.open(&self.buffer[..bytes]) else {
            self.wire.tally.datagrams_refused.add(1);
            return None;
        };
        self.secrets.remember(from, secret);
        match self.assembly.take(boot, &fragment, Instant::now()) {
            Assembled::Whole(message) => Some(message),
            Assembled::Partly => None,
            Assembled::Nonsense => {
                self.wire.tally.datagrams_refused.add(1);
                None
            }
        }
    }

    /// What chitchat's socket made of the message that was handed to it.
    async fn read_back(&mut self) -> anyhow::Result<Option<RecvOutcome>> {
        while let Some(UnderWay { from, bytes, until }) = self.under_way {
            match tokio::time::timeout_at(until, self.inside.recv()).await {
                Ok(Ok(outcome)) if outcome.from_addr == self.relay_address => {
                    self.under_way = None;
                    return Ok(Some(RecvOutcome {
                        from_addr: from,
                        envelope: outcome.envelope,
                        num_bytes_received: bytes,
                    }));
                }
                Ok(Ok(_)) => {} // a stranger on this host
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    // Chitchat could not read it. A new socket cannot answer with it later.
                    self.wire.tally.datagrams_refused.add(1);
                    self.under_way = None;
                    (self.inside, self.inside_address) = open_inside().await?;
                }
            }
        }
        Ok(None)
    }
}

/// Which secret each address last spoke with: while a new one rolls out, each is answered in its own.
#[derive(Debug, Default)]
struct Secrets {
    by_address: BTreeMap<SocketAddr, usize>,
    tries: usize,
}

impl Secrets {
    /// Who has not spoken yet is tried with each in turn.
    fn towards(&mut self, address: SocketAddr, accepted: usize) -> usize {
        if accepted == 1 {
            return 0;
        }
        self.by_address.get(&address).copied().unwrap_or_else(|| {
            self.tries = self.tries.wrapping_add(1);
            self.tries % accepted
        })
    }

    fn remember(&mut self, address: SocketAddr, secret: usize) {
        if self.by_address.len() >= MAX_ADDRESSES && !self.by_address.contains_key(&address) {
            self.by_address.clear();
        }
        self.by_address.insert(address, secret);
    }
}

/// Linux reports an earlier datagram's fate on the next call; nothing is wrong with the socket.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::OutOfMemory
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
    )
}
