//! A sealed connection between two nodes.
//!
//! Each side sends a fresh random challenge in the open; both draw two session keys from the challenges
//! and the secret, one per direction; from then on every frame is sealed, its number as the nonce. So
//! nothing of one connection opens in another, nothing can be repeated, left out or reordered within
//! one, and who does not know the secret gets nothing but 37 bytes that mean nothing.
//!
//! A frame on the wire is a u32 length and that many sealed bytes: a byte that says whether more frames
//! of the message follow, then a piece of it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message::{Hello, Welcome};
use crate::codec::{self, CodecError, MESSAGE_LIMIT};
use crate::seal::{Challenge, Keyring, NONCE_BYTES, Seal, TAG_BYTES};

/// Opens every connection, the version last: garbage and HTTP are told by the first bytes.
const MAGIC: [u8; 5] = *b"HLRP\x01";
const GREETING_BYTES: usize = MAGIC.len() + size_of::<Challenge>();

/// Of one frame's plain bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Of the first sealed message: nothing larger is read from a stranger.
const HELLO_LIMIT: usize = 1 << 10;

/// What went wrong on a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
    #[error("a frame does not open")]
    Sealed,
    #[error("a frame is larger than allowed")]
    TooLarge,
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the other side speaks something else")]
    Foreign,
    #[error("the other side does not accept the secret")]
    Secret,
    #[error("node {0} lives there")]
    WrongNode(String),
}

/// One established connection.
pub(crate) struct Channel {
    stream: TcpStream,
    sending: Direction,
    receiving: Direction,
}

struct Direction {
    seal: Seal,
    frames: u64,
}

impl Direction {
    fn new(seal: Seal) -> Self {
        Self { seal, frames: 0 }
    }

    fn nonce(&mut self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.frames.to_le_bytes());
        self.frames += 1;
        nonce
    }
}

impl Channel {
    /// Calls: proves the secret of this number and that `hello.to` is meant.
    ///
    /// # Errors
    /// [`ChannelError::Secret`] and [`ChannelError::WrongNode`] where somebody refuses; others where
    /// nobody is there who could.
    pub(crate) async fn call(
        mut stream: TcpStream,
        keys: &Keyring,
        secret: usize,
        hello: &Hello,
    ) -> Result<Self, ChannelError> {
        stream.set_nodelay(true)?;
        let mine: Challenge = rand::random();
        greet(&mut stream, &mine).await?;
        let theirs = hear_greeting(&mut stream).await?;
        let (caller, answerer) = keys.session(secret, &mine, &theirs);
        let mut channel = Self {
            stream,
            sending: Direction::new(caller),
            receiving: Direction::new(answerer),
        };
        channel.send(&codec::encode::<HELLO_LIMIT>(hello)?).await?;
        // Who cannot open the hello hangs up.
        let answer = channel
            .receive(HELLO_LIMIT)
            .await
            .map_err(|error| match error {
                ChannelError::Io(_) | ChannelError::Sealed => ChannelError::Secret,
                other @ (ChannelError::TooLarge
                | ChannelError::Codec(_)
                | ChannelError::Foreign
                | ChannelError::Secret
                | ChannelError::WrongNode(_)) => other,
            })?;
        match codec::decode::<Welcome, HELLO_LIMIT>(&answer)? {
            Welcome::Welcome => Ok(channel),
            Welcome::WrongNode(node) => Err(ChannelError::WrongNode(node.to_string())),
        }
    }

    /// Answers a call, if it proves any accepted secret and is meant for `own`.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) async fn answer(
        mut stream: TcpStream,
        keys: &Keyring,
        own: &holdline_core::ids::NodeId,
    ) -> Result<(Self, Hello), ChannelError> {
        stream.set_nodelay(true)?;
        let theirs = hear_greeting(&mut stream).await?;
        let mine: Challenge = rand::random();
        greet(&mut stream, &mine).await?;
        let sealed = read_frame(&mut stream, HELLO_LIMIT).await?;
        for secret in 0..keys.len() {
            let (caller, answerer) = keys.session(secret, &theirs, &mine);
            let mut receiving = Direction::new(caller);
            let nonce = receiving.nonce();
            let Some(plain) = receiving.seal.open(&nonce, &sealed) else {
                continue;
            };
            let [_, hello @ ..] = plain.as_slice() else {
                return Err(ChannelError::Foreign);
            };
            let hello: Hello = codec::decode::<Hello, HELLO_LIMIT>(hello)?;
            let mut channel = Self {
                stream,
                sending: Direction::new(answerer),
                receiving,
            };
            if hello.to != *own {
                let refusal = Welcome::WrongNode(own.clone());
                channel
                    .send(&codec::encode::<HELLO_LIMIT>(&refusal)?)
                    .await?;
                return Err(ChannelError::WrongNode(hello.to.to_string()));
            }
            channel
                .send(&codec::encode::<HELLO_LIMIT>(&Welcome::Welcome)?)
                .await?;
            return Ok((channel, hello));
        }
        Err(ChannelError::Secret)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// When the connection broke.
    pub(crate) async fn send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        let mut pieces = message.chunks(PIECE_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            let mut plain = Vec::with_capacity(1 + piece.len());
            plain.push(u8::from(pieces.peek().is_some()));
            plain.extend_from_slice(piece);
            let nonce = self.sending.nonce();
            let sealed = self.sending.seal.seal(&nonce, &plain);
            let length = u32::try_from(sealed.len()).map_err(|_| ChannelError::TooLarge)?;
            let mut frame = Vec::with_capacity(4 + sealed.len());
            frame.extend_from_slice(&length.to_be_bytes());
            frame.extend_from_slice(&sealed);
            self.stream.write_all(&frame).await?;
        }
        Ok(())
    }

    /// Receives one message of at most `limit` bytes.
    ///
    /// # Errors
    /// When the connection broke, or what came was not sealed so.
    pub(crate) async fn receive(&mut self, limit: usize) -> Result<Vec<u8>, ChannelError> {
        let mut message = Vec::new();
        loop {
            let frame_limit = limit.min(PIECE_BYTES);
            let sealed = read_frame(&mut self.stream, frame_limit).await?;
            let nonce = self.receiving.nonce();
            let plain = self.receiving.seal.open(&nonce, &sealed);
            let plain = plain.ok_or(ChannelError::Sealed)?;
            let (&more, piece) = plain.split_first().ok_or(ChannelError::Foreign)?;
            if message.len() + piece.len() > limit {
                return Err(ChannelError::TooLarge);
            }
            message.extend_from_slice(piece);
            if more == 0 {
                return Ok(message);
            }
        }
    }

    /// Waits until the other side sends something (true) or hangs up (false).
    ///
    /// # Errors
    /// When the connection broke.
    pub(crate) async fn wait(&self) -> Result<bool, ChannelError> {
        Ok(self.stream.peek(&mut [0]).await? > 0)
    }

    /// Asks a question and waits for its answer, both of at most [`MESSAGE_LIMIT`] bytes.
    ///
    /// # Errors
    /// When the connection broke.
    pub(crate) async fn ask(&mut self, question: &[u8]) -> Result<Vec<u8>, ChannelError> {
        self.send(question).await?;
        self.receive(MESSAGE_LIMIT).await
    }
}

async fn greet(stream: &mut TcpStream, challenge: &Challenge) -> Result<(), ChannelError> {
    let mut greeting = [0; GREETING_BYTES];
    greeting[..MAGIC.len()].copy_from_slice(&MAGIC);
    greeting[MAGIC.len()..].copy_from_slice(challenge);
    Ok(stream.write_all(&greeting).await?)
}

async fn hear_greeting(stream: &mut TcpStream) -> Result<Challenge, ChannelError> {
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(ChannelError::Foreign);
    }
    let mut challenge = Challenge::default();
    stream.read_exact(&mut challenge).await?;
    Ok(challenge)
}

/// Reads a frame of at most `limit` plain bytes. Memory grows with what arrives, not with what is claimed.
async fn read_frame(stream: &mut TcpStream, limit: usize) -> Result<Vec<u8>, ChannelError> {
    let length = stream.read_u32().await?;
    let length = usize::try_from(length).map_err(|_| ChannelError::TooLarge)?;
    if length > 1 + limit + TAG_BYTES {
        return Err(ChannelError::TooLarge);
    }
    let mut sealed = Vec::new();
    let read = stream
        .take(u64::try_from(length).map_err(|_| ChannelError::TooLarge)?)
        .read_to_end(&mut sealed)
        .await?;
    if read < length {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(sealed)
}
