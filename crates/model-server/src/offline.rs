//! A place without a network, in which agents of other vendors meet a model server and nobody else.
//!
//! Where the machine allows it, that is a network namespace with nothing but loopback. A process, the holder, keeps it alive and sends us
//! a socket that listens inside, so that the server itself stays in the test. Elsewhere every way out is a proxy that refuses.

use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType,
};

use crate::script::Reply;
use crate::server::Server;

/// The argument that makes `model-server` hold a namespace.
pub const HOLD: &str = "__hold";

const PATIENCE: Duration = Duration::from_secs(30);

/// A model server, and a place in which it is all that can be reached.
pub struct Offline {
    server: Server,
    holder: Option<Holder>,
}

/// How well the place is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// By the kernel.
    Namespace,
    /// By variables that an agent may ignore: the reason is in `Offline::start`.
    RefusingProxy,
}

/// The process that keeps the namespace; it ends with our end of its socket.
struct Holder {
    process: Child,
    socket: Option<UnixStream>,
    of_user: OfUser,
}

/// Whether the namespace belongs to a namespace of users, which somebody who is not root needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfUser {
    Yes,
    No,
}

impl Offline {
    /// Starts a server in a place of its own. `holder` is the program `model-server`.
    pub fn start(holder: &Path, script: Vec<Reply>) -> io::Result<Self> {
        let of_user = if rustix::process::geteuid().is_root() { OfUser::No } else { OfUser::Yes };
        // Not every machine lets us make namespaces; then the proxy has to do.
        match Holder::start(holder, of_user) {
            Ok((holder, listener)) => {
                Ok(Self { server: Server::on(listener, script, Vec::new())?, holder: Some(holder) })
            }
            Err(_) => Ok(Self { server: Server::start(script)?, holder: None }),
        }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn closed(&self) -> Closed {
        if self.holder.is_some() { Closed::Namespace } else { Closed::RefusingProxy }
    }

    /// Returns what has to stand before a command, so that it runs in the place.
    pub fn entrance(&self) -> Vec<String> {
        let Some(holder) = &self.holder else { return Vec::new() };
        let pid = holder.process.id().to_string();
        let mut argv = vec!["nsenter", "--target", &pid, "--net"];
        if holder.of_user == OfUser::Yes {
            argv.extend(["--user", "--preserve-credentials"]);
        }
        argv.push("--");
        argv.into_iter().map(str::to_owned).collect()
    }

    /// Returns the variables that a command in the place needs.
    pub fn environment(&self) -> Vec<(String, String)> {
        if self.holder.is_some() {
            return Vec::new();
        }
        let url = self.server.url();
        let here = "127.0.0.1,localhost";
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
        let proxies = proxies.map(|name| (name.to_owned(), url.clone()));
        let exceptions = ["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), here.to_owned()));
        proxies.into_iter().chain(exceptions).collect()
    }

    /// Returns a command that will run in the place, with nothing in its environment but what the place needs.
    pub fn command(&self, argv: &[String]) -> Command {
        let mut all = self.entrance().into_iter().chain(argv.iter().cloned());
        let mut command = program(&all.next().unwrap_or_default());
        command.args(all).env_clear().envs(self.environment());
        command
    }
}

impl Holder {
    fn start(model_server: &Path, of_user: OfUser) -> io::Result<(Self, TcpListener)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let mut command = program("unshare");
        command.arg("--net");
        if of_user == OfUser::Yes {
            command.args(["--map-current-user", "--keep-caps"]);
        }
        let process = command
            .arg("--")
            .arg(model_server)
            .arg(HOLD)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // The command holds the other end until it is dropped; only then does a dead holder close the socket.
        drop(command);
        let holder = Self { process, socket: Some(ours), of_user };
        let listener = receive(holder.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?)?;
        Ok((holder, TcpListener::from(listener)))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.socket = None;
        // It ends by itself when its socket is closed; killing it only makes that certain.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "this crate is for tests, and starts what they test")]
fn program(name: &str) -> Command {
    Command::new(name)
}

/// Holds a namespace: raises loopback, hands a listening socket over standard input, waits for its end.
pub fn hold() -> io::Result<()> {
    raise_loopback()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let stdin = io::stdin();
    let fds = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(stdin.as_fd(), &[IoSlice::new(b"l")], &mut control, SendFlags::empty())?;
    drop(listener);
    let mut rest = Vec::new();
    stdin.lock().read_to_end(&mut rest)?;
    Ok(())
}

fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message
            && let Some(fd) = fds.next()
        {
            return Ok(fd);
        }
    }
    Err(io::Error::other("the holder sent no socket"))
}

/// Switches the loopback interface on, which is down in a namespace that was just made.
fn raise_loopback() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_AND_ACK: u16 = 0x0001 | 0x0004;
    const LOOPBACK: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    // The header: length, type, flags, sequence, port; then family and type, index, flags, and which flags change.
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_AND_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    // The protocol of routes and links is number 0, which is what `None` means.
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    let (received, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // An acknowledgement is an error message whose error is 0; it follows the header.
    match answer.get(16..20).filter(|_| received >= 20) {
        Some([0, 0, 0, 0]) => Ok(()),
        Some(bytes) => {
            let code = bytes.iter().rev().fold(0_i32, |code, byte| (code << 8) | i32::from(*byte));
            Err(io::Error::from_raw_os_error(code.wrapping_neg()))
        }
        None => Err(io::Error::other("the kernel did not answer")),
    }
}
