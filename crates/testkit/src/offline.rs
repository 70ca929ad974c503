//! Runs vendors' agents without a network, so that they can only reach a model server.
//!
//! If the machine allows it, they run in a network namespace with only loopback. A holder process keeps the namespace
//! alive and sends us a socket that listens inside, so that the server itself stays in the test process. On other
//! machines all proxy variables point at the server, which refuses to be a proxy.

use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fake_llm::{ScriptedReply, ScriptedServer};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType,
};

/// The argument that makes `fake-llm` hold a namespace.
pub const HOLD_NAMESPACE_ARGUMENT: &str = "__hold";

const PATIENCE: Duration = Duration::from_secs(30);

/// A model server, and an isolated network in which only it can be reached.
pub struct OfflineSandbox {
    server: ScriptedServer,
    holder: Option<Holder>,
}

/// How the network is isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkIsolation {
    /// By the kernel.
    Namespace,
    /// By variables that an agent may ignore. `Offline::start` says why.
    RefusingProxy,
}

/// The process that keeps the namespace alive; it exits when the test's end of its socket is closed.
struct Holder {
    process: Child,
    socket: Option<UnixStream>,
    user_namespace: UserNamespace,
}

/// Whether the network namespace has its own user namespace, which users other than root need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserNamespace {
    Own,
    Inherited,
}

impl OfflineSandbox {
    /// Starts a server in an isolated network. `holder` is the program `fake-llm`.
    pub fn start(holder: &Path, script: Vec<ScriptedReply>) -> io::Result<Self> {
        let user_namespace =
            if rustix::process::geteuid().is_root() { UserNamespace::Inherited } else { UserNamespace::Own };
        // Not every machine allows namespaces; the fallback is the refusing proxy.
        match Holder::start(holder, user_namespace) {
            Ok((holder, listener)) => Ok(Self {
                server: ScriptedServer::from_listener(listener, script, Vec::new())?,
                holder: Some(holder),
            }),
            Err(_) => Ok(Self { server: ScriptedServer::start(script)?, holder: None }),
        }
    }

    pub fn server(&self) -> &ScriptedServer {
        &self.server
    }

    pub fn isolation(&self) -> NetworkIsolation {
        if self.holder.is_some() { NetworkIsolation::Namespace } else { NetworkIsolation::RefusingProxy }
    }

    /// Returns the arguments that must precede a command so that it runs in the isolated network.
    pub fn command_prefix(&self) -> Vec<String> {
        let Some(holder) = &self.holder else { return Vec::new() };
        let pid = holder.process.id().to_string();
        let mut argv = vec!["nsenter", "--target", &pid, "--net"];
        if holder.user_namespace == UserNamespace::Own {
            argv.extend(["--user", "--preserve-credentials"]);
        }
        argv.push("--");
        argv.into_iter().map(str::to_owned).collect()
    }

    /// Returns the variables that an isolated command needs.
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

    /// Returns an isolated command, with only the required variables in its environment.
    pub fn command(&self, argv: &[String]) -> Command {
        let mut all = self.command_prefix().into_iter().chain(argv.iter().cloned());
        let mut command = program(&all.next().unwrap_or_default());
        command.args(all).env_clear().envs(self.environment());
        command
    }
}

impl Holder {
    fn start(fake_llm: &Path, user_namespace: UserNamespace) -> io::Result<(Self, TcpListener)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let mut command = program("unshare");
        command.arg("--net");
        if user_namespace == UserNamespace::Own {
            command.args(["--map-current-user", "--keep-caps"]);
        }
        let process = command
            .arg("--")
            .arg(fake_llm)
            .arg(HOLD_NAMESPACE_ARGUMENT)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // The command holds the other end until it is dropped; only then does a dead holder close the socket.
        drop(command);
        let holder = Self { process, socket: Some(ours), user_namespace };
        let listener = receive(holder.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?)?;
        Ok((holder, TcpListener::from(listener)))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.socket = None;
        // It exits when its socket is closed; killing it makes that certain.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "this crate is for tests, and starts what they test")]
fn program(name: &str) -> Command {
    Command::new(name)
}

/// Holds a namespace: enables loopback, sends a listening socket over standard input, and waits for the end of the
/// input.
pub fn hold_namespace() -> io::Result<()> {
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

/// Enables the loopback interface, which is down in a new namespace.
fn raise_loopback() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_AND_ACK: u16 = 0x0001 | 0x0004;
    const LOOPBACK: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    // The header: length, type, flags, sequence, port; then family and type, index, flags, and the mask of changed
    // flags.
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_AND_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    // The routing protocol has number 0, which `None` means.
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    let (received, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // An acknowledgement is an error message with error 0; it follows the header.
    match answer.get(16..20).filter(|_| received >= 20) {
        Some([0, 0, 0, 0]) => Ok(()),
        Some(bytes) => {
            let code = bytes.iter().rev().fold(0_i32, |code, byte| (code << 8) | i32::from(*byte));
            Err(io::Error::from_raw_os_error(code.wrapping_neg()))
        }
        None => Err(io::Error::other("the kernel did not answer")),
    }
}
