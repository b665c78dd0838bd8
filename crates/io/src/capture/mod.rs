//! Another network namespace's TCP connections and datagrams, caught where they begin.
//!
//! In the namespace every address is its own ("AnyIP": a route of type local for all), so whatever a
//! program connects to, its kernel sends the packets through `lo`. A rule ([`Rules`]) drops a SYN to
//! another host, and also one to the namespace's own addresses and to loopback if nobody there accepts it:
//! each program of a node has a namespace, and a program in another one may accept it. The kernel's log
//! (NFLOG) reports the dropped SYNs, and no others. When the host's answer is known, a SYN is [sent once
//! more](Capture::admit) and comes out of [`Capture::accept`], or is [refused](Capture::refuse):
//! connecting succeeds, fails or waits exactly as the far end does. From then on both sides have a genuine
//! TCP connection, and no system call of the program's costs more than before.
//!
//! All of it works in a user namespace of an ordinary user. The sockets belong to the namespace
//! they were made in, wherever their user goes.

mod datagrams;
mod echo;
mod namespace;
mod outward;
mod packet;
mod plain;
mod rules;
mod syn;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

pub use echo::{Echo, Echoes, Pinger};
#[cfg(test)]
use namespace::furnish;
pub use namespace::{Namespace, NamespaceError, Wide, is_inside, source_for};
pub use outward::{Network, Outward, has_address};
pub use packet::{Unreachable, datagram, unreachable};
pub use plain::{Datagrams, Listener, Sharing, Told};
pub use rules::Rules;
pub use syn::Syn;

use crate::netlink::{logged_packet, open_log};
use crate::sys::{check, check_len, get_option, set_option};
use namespace::CONGESTION_CONTROL;
use syn::SYN_BYTES_MAX;

/// Mark of a SYN that is sent once more.
const MARK: u32 = 0x7ab;
/// Mark of packets that speak for other hosts: they are for the program, whatever address of this node
/// they are sent to.
const MARK_INWARD: u32 = 0x7ac;
/// Mark of packets that nobody must receive.
const MARK_SILENT: u32 = 0x7ad;
/// The group of the kernel's log for SYNs. The low ones are used by programs that keep logs, one of which
/// may be in the namespace.
const LOG_GROUP: u16 = 0x7ab;
/// Bytes of the log's own data about a packet.
const LOG_FACTS_BYTES_MAX: usize = 1024;
/// SYNs that may wait to be looked at: 300 connections at once are more than the default holds,
/// and one that is lost is repeated only after a second.
const SYN_BUFFER_BYTES: usize = 16 << 20;
/// The most messages without a SYN that are skipped at a time. The rules cause none.
const OTHER_MESSAGES_MAX: usize = 64;
/// The most of one kind that may have arrived meanwhile: more than the buffers hold.
const WAITING_MAX: usize = 1 << 17;
/// Port of the listener and of the datagram socket. Nobody else can have it: no client, no server of an
/// ordinary user; and none of root, unless it serves tcpmux (RFC 7805: historic).
pub const PORT: u16 = 1;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
// linux/in6.h
const IPV6_TRANSPARENT: libc::c_int = 75;
// linux/tcp.h
const TCP_REPAIR: libc::c_int = 19;
const TCP_REPAIR_ON: libc::c_int = 1;
const TCP_REPAIR_OFF_NO_PROBE: libc::c_int = -1;
// asm-generic/sockios.h
const SIOCATMARK: libc::Ioctl = 0x8905;

/// The sockets, in the order in which they are handed over.
#[derive(Debug)]
pub struct Capture {
    syns: OwnedFd,
    send_v4: Socket,
    send_v6: Socket,
    /// Speak for other hosts.
    answer_v4: Socket,
    answer_v6: Socket,
    listener: Socket,
    datagrams: Socket,
}

/// How many descriptors a [`Capture`] has.
pub const DESCRIPTORS: usize = 7;

impl Capture {
    /// Catches connections and datagrams that begin in this thread's network namespace, which has the
    /// addresses `own` and is nobody else's.
    ///
    /// # Errors
    /// The kernel lacks something or does not permit it; what is in the message.
    pub fn open(own: &[IpAddr]) -> io::Result<Capture> {
        let listener = listener()?;
        let datagrams = datagrams::open()?;
        let capture = Capture {
            syns: syn_socket()?,
            send_v4: raw(Domain::IPV4, MARK)?,
            send_v6: raw(Domain::IPV6, MARK)?,
            answer_v4: raw(Domain::IPV4, MARK_INWARD)?,
            answer_v6: raw(Domain::IPV6, MARK_INWARD)?,
            listener,
            datagrams,
        };
        let rules = Rules {
            own: own.to_vec(),
            mark: MARK,
            mark_inward: MARK_INWARD,
            mark_silent: MARK_SILENT,
            port: PORT,
            group: LOG_GROUP,
            bytes_told_max: SYN_BYTES_MAX as u32,
        };
        rules.apply()?;
        Ok(capture)
    }

    /// The next SYN to another host, or to an address of the namespace's own where nobody accepts it;
    /// `None` if there is none.
    ///
    /// # Errors
    /// Not expected.
    pub fn next_syn(&self) -> io::Result<Option<Syn>> {
        let mut message = [0; SYN_BYTES_MAX + LOG_FACTS_BYTES_MAX];
        // Another owner of the socket may make it receive other messages: skip a few of them at a time.
        for _ in 0..OTHER_MESSAGES_MAX {
            let (at, length) = (message.as_mut_ptr().cast(), message.len());
            let socket = self.syns.as_raw_fd();
            // SAFETY: pointer and length describe `message`.
            let received = check_len(unsafe { libc::recv(socket, at, length, libc::MSG_DONTWAIT) });
            let bytes = match received {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if is_passed_over(&error) => continue,
                Err(error) => return Err(error),
            };
            if let Some(syn) = logged_packet(&message[..bytes]).and_then(Syn::read) {
                return Ok(Some(syn));
            }
        }
        Ok(None)
    }

    /// Sends a SYN once more: the connection comes out of [`Capture::accept`].
    ///
    /// # Errors
    /// Not expected; the program's kernel repeats the SYN after a second.
    pub fn admit(&self, syn: &Syn) -> io::Result<()> {
        let socket = match syn.destination {
            SocketAddr::V4(_) => &self.send_v4,
            SocketAddr::V6(_) => &self.send_v6,
        };
        send(socket, syn.packet(), syn.destination.ip())
    }

    /// Answers a SYN with a reset: connecting fails with "connection refused".
    ///
    /// # Errors
    /// Not expected; the program's kernel repeats the SYN after a second.
    pub fn refuse(&self, syn: &Syn) -> io::Result<()> {
        self.answer(&syn.refusal(), syn.source.ip())
    }

    /// Answers a SYN as a router does: connecting fails with the error that `why` stands for.
    ///
    /// # Errors
    /// Not expected; the program's kernel repeats the SYN after a second.
    pub fn refuse_as(&self, syn: &Syn, why: Unreachable) -> io::Result<()> {
        let (from, to) = (syn.source.ip(), syn.destination.ip());
        let told = packet::unreachable(from, to, why, syn.packet());
        self.answer(&told, from)
    }

    /// The next admitted connection: its socket, non-blocking, the program's end, and the address that it
    /// believes to be connected to. `None` if there is none.
    ///
    /// # Errors
    /// No descriptors are left; the connection still waits then.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr, SocketAddr)>> {
        accept(self.listener.accept())
    }

    /// The next datagram to another host, or to an address of the namespace's own where no socket receives
    /// it: the program's end, the destination, and its length in `buffer`. `None` if there is none.
    ///
    /// # Errors
    /// Not expected.
    pub fn next_datagram(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<Option<(SocketAddr, SocketAddr, usize)>> {
        let received = datagrams::receive(&self.datagrams, buffer, 0)?;
        received
            .map(|received| {
                let to = received.to.ok_or(io::ErrorKind::InvalidData)?;
                Ok((received.from, to, received.bytes))
            })
            .transpose()
    }

    /// Gives the program a datagram in the name of another host.
    ///
    /// # Errors
    /// It is longer than a datagram may be.
    pub fn send_datagram(&self, from: SocketAddr, to: SocketAddr, data: &[u8]) -> io::Result<()> {
        if data.len() > packet::DATAGRAM_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.answer(&packet::datagram(from, to, data), to.ip())
    }

    /// Tells the program that its datagram between these ends does not arrive, and why.
    ///
    /// # Errors
    /// Not expected.
    pub fn refuse_datagram(
        &self,
        from: SocketAddr,
        to: SocketAddr,
        why: Unreachable,
    ) -> io::Result<()> {
        let head = packet::datagram(from, to, &[]);
        let (from, to) = (from.ip(), to.ip());
        let told = packet::unreachable(from, to, why, &head);
        self.answer(&told, from)
    }

    /// Gives the program a packet of IP for this address, as it is.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn give(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        self.answer(packet, to)
    }

    /// Sends the program a packet in the name of another host.
    fn answer(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        let socket = match to {
            IpAddr::V4(_) => &self.answer_v4,
            IpAddr::V6(_) => &self.answer_v6,
        };
        send(socket, packet, to)
    }

    /// Discards what arrived while nobody listened: SYNs, which the programs' kernel repeats, datagrams,
    /// and admitted connections, which are reset.
    pub fn forget_waiting(&self) {
        let waiting = 0..WAITING_MAX;
        let syns = waiting.clone().map_while(|_| self.next_syn().ok()?);
        syns.for_each(drop);
        let datagrams = waiting
            .clone()
            .map_while(|_| self.next_datagram(&mut []).ok()?);
        datagrams.for_each(drop);
        let admitted = waiting.map_while(|_| self.accept().ok()?);
        admitted.for_each(|(socket, ..)| reset(socket));
    }

    /// Descriptor to wait for SYNs.
    pub fn syn_descriptor(&self) -> BorrowedFd<'_> {
        self.syns.as_fd()
    }

    /// Descriptor to wait for connections.
    pub fn accept_descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Where datagrams are to be waited for.
    pub fn datagram_descriptor(&self) -> BorrowedFd<'_> {
        self.datagrams.as_fd()
    }

    /// To hand it on to another process.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; DESCRIPTORS] {
        [
            self.syns.as_fd(),
            self.send_v4.as_fd(),
            self.send_v6.as_fd(),
            self.answer_v4.as_fd(),
            self.answer_v6.as_fd(),
            self.listener.as_fd(),
            self.datagrams.as_fd(),
        ]
    }

    /// What another process handed on, which may be anybody.
    ///
    /// # Errors
    /// It is something else, and given back.
    pub fn from_descriptors(descriptors: Vec<OwnedFd>) -> Result<Capture, Vec<OwnedFd>> {
        let kinds = [
            (Domain::from(libc::AF_NETLINK), Type::RAW),
            (Domain::IPV4, Type::RAW),
            (Domain::IPV6, Type::RAW),
            (Domain::IPV4, Type::RAW),
            (Domain::IPV6, Type::RAW),
            (Domain::IPV6, Type::STREAM),
            (Domain::IPV6, Type::DGRAM),
        ];
        let mut known = descriptors.iter().zip(kinds);
        let is_known = known.all(|(descriptor, kind)| check_handed_on(descriptor, &[kind]).is_ok());
        if !is_known || !descriptors.first().is_some_and(is_of_netfilter) {
            return Err(descriptors);
        }
        let descriptors: [OwnedFd; DESCRIPTORS] = descriptors.try_into()?;
        let [
            syns,
            send_v4,
            send_v6,
            answer_v4,
            answer_v6,
            listener,
            datagrams,
        ] = descriptors;
        // A program's user may have been granted less than this process is.
        let _ = grow_syn_buffer(syns.as_fd());
        Ok(Capture {
            syns,
            send_v4: send_v4.into(),
            send_v6: send_v6.into(),
            answer_v4: answer_v4.into(),
            answer_v6: answer_v6.into(),
            listener: listener.into(),
            datagrams: datagrams.into(),
        })
    }
}

/// A socket in this thread's network namespace that can speak for another host, once it is
/// [connected](Speaker::connect); any process may do that.
#[derive(Debug)]
pub struct Speaker(Socket);

impl Speaker {
    /// One that speaks for hosts of IPv4, or of IPv6.
    ///
    /// # Errors
    /// The thread may not.
    pub fn new(is_v6: bool) -> io::Result<Speaker> {
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        make_transparent(&socket, is_v6)?;
        socket.set_mark(MARK_INWARD)?;
        socket.set_out_of_band_inline(true)?;
        choose_congestion_control(&socket);
        socket.set_reuse_address(true)?;
        socket.set_tcp_nodelay(true)?;
        Ok(Speaker(socket))
    }

    /// What another process handed on, which may be anybody.
    ///
    /// # Errors
    /// It is something else, and given back.
    pub fn from_descriptor(descriptor: OwnedFd) -> Result<Speaker, OwnedFd> {
        match check_stream(&descriptor) {
            Ok(()) => Ok(Speaker(descriptor.into())),
            Err(_) => Err(descriptor),
        }
    }

    /// Speaks for `from`, an address of another host, and connects to `to`, where a program of the
    /// namespace may listen: what accepts it sees `from`. Not blocking; when it is writable, it is
    /// connected or has its error.
    ///
    /// # Errors
    /// Nothing listens at `to` ([`io::ErrorKind::ConnectionRefused`]); or
    /// [`io::ErrorKind::PermissionDenied`] or [`io::ErrorKind::AddrInUse`]: only a process of the
    /// namespace may speak for the port of `from`; or [`io::ErrorKind::AddrNotAvailable`]: there is a
    /// connection between these ends, or was a moment ago. With these [`connect_as`] may help.
    pub fn connect(&self, from: SocketAddr, to: SocketAddr) -> io::Result<()> {
        self.0.bind(&from.into())?;
        begin_connecting(&self.0, to)
    }

    /// Binds, also to a port at which a program of the namespace listens: the address is another
    /// host's, and so is the port.
    fn bind_in_any_case(&self, from: SocketAddr) -> io::Result<()> {
        let repair = |mode| set_option(&self.0, libc::SOL_TCP, TCP_REPAIR, mode);
        match self.0.bind(&from.into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
        repair(TCP_REPAIR_ON)?;
        let bound = self.0.bind(&from.into());
        repair(TCP_REPAIR_OFF_NO_PROBE)?;
        bound
    }
}

/// Its connection, once it is connected.
impl From<Speaker> for TcpStream {
    fn from(speaker: Speaker) -> TcpStream {
        speaker.0.into()
    }
}

impl AsFd for Speaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection that another process handed on, which may be anybody.
///
/// # Errors
/// It is something else, and given back.
pub fn connection_from(descriptor: OwnedFd) -> Result<TcpStream, OwnedFd> {
    match check_stream(&descriptor) {
        Ok(()) => Ok(descriptor.into()),
        Err(_) => Err(descriptor),
    }
}

fn check_stream(descriptor: &OwnedFd) -> io::Result<()> {
    let kinds = [Domain::IPV4, Domain::IPV6].map(|domain| (domain, Type::STREAM));
    check_handed_on(descriptor, &kinds)
}

/// That a descriptor is a socket of one of these kinds; from now on calls of it do not wait. (Who handed
/// it on may have that otherwise again: so all calls that can be told not to wait are.)
fn check_handed_on(descriptor: &OwnedFd, kinds: &[(Domain, Type)]) -> io::Result<()> {
    let socket = SockRef::from(descriptor);
    let is_known = match (socket.domain(), socket.r#type()) {
        (Ok(domain), Ok(kind)) => kinds.contains(&(domain, kind)),
        _ => false,
    };
    if !is_known {
        return Err(io::ErrorKind::InvalidData.into());
    }
    socket.set_nonblocking(true)
}

/// A connection of which a program hears nothing, not even that what it sends has come: to its kernel the far
/// end is silent, and what it does then is what the program has asked for (TCP_USER_TIMEOUT and keepalives,
/// tcp(7)).
#[derive(Debug)]
pub struct Silence {
    /// What the socket's packets bear otherwise.
    mark: u32,
}

impl Silence {
    /// Falls silent on the program's socket.
    ///
    /// # Errors
    /// This process may not, in the namespace of that socket.
    pub fn begin(socket: &TcpStream) -> io::Result<Silence> {
        let socket = SockRef::from(socket);
        let mark = socket.mark()?;
        socket.set_mark(MARK_SILENT)?;
        Ok(Silence { mark })
    }

    /// Is heard again.
    ///
    /// # Errors
    /// Not expected.
    pub fn end(&self, socket: &TcpStream) -> io::Result<()> {
        SockRef::from(socket).set_mark(self.mark)
    }
}

/// Reads from a socket that another process may have, too; never waits.
///
/// # Errors
/// As a read has.
pub fn read_now(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (at, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: pointer and length describe `buffer`.
    check_len(unsafe { libc::recv(socket, at, length, libc::MSG_DONTWAIT) })
}

/// Writes to one; never waits.
///
/// # Errors
/// As a write has.
pub fn write_now(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    send_now(socket, bytes, 0)
}

fn send_now(socket: &TcpStream, bytes: &[u8], how: libc::c_int) -> io::Result<usize> {
    let flags = how | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    SockRef::from(socket).send_with_flags(bytes, flags)
}

/// A [`Speaker`] that is connected, for any port. From another one than that of `from` if there is a
/// connection between these ends already, or was a moment ago: programs of one host may all have a
/// port, each in a namespace of its own.
///
/// # Errors
/// Nothing listens at `to` ([`io::ErrorKind::ConnectionRefused`]), or the thread may not.
pub fn connect_as(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let speaker = Speaker::new(to.is_ipv6())?;
    speaker.bind_in_any_case(from)?;
    match begin_connecting(&speaker.0, to) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            let speaker = Speaker::new(to.is_ipv6())?;
            bind_to_address(&speaker.0, from.ip())?;
            begin_connecting(&speaker.0, to)?;
            Ok(speaker.into())
        }
        connected => connected.map(|()| speaker.into()),
    }
}

/// Binds to an address alone: connecting chooses a port that is free between both ends.
fn bind_to_address(socket: &Socket, from: IpAddr) -> io::Result<()> {
    set_option(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    socket.bind(&SocketAddr::new(from, 0).into())
}

pub(super) fn accept(
    accepted: io::Result<(Socket, SockAddr)>,
) -> io::Result<Option<(TcpStream, SocketAddr, SocketAddr)>> {
    let (socket, from) = match accepted {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    // It has that from its listener, which a user may have as well.
    socket.set_linger(None)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    let (from, to) = (from.as_socket(), socket.local_addr()?.as_socket());
    let ends = from.map(unmapped).zip(to.map(unmapped));
    let (from, to) = ends.ok_or(io::ErrorKind::Unsupported)?;
    Ok(Some((socket.into(), from, to)))
}

fn begin_connecting(socket: &Socket, to: SocketAddr) -> io::Result<()> {
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(()),
    }
}

/// From now on a connection that is closed is reset: its other end gets an error, also if this
/// process is killed. Were it an end like any other, what is missing would not be missed.
pub fn break_when_closed(socket: &TcpStream) {
    // One that is closed at the other end already cannot be reset, and need not be.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// What a socket takes before the other end's window admits it: enough to be sent until somebody writes
/// again, at some 10 Gb/s.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// From now on a socket takes little more than its other end has room for (TCP_NOTSENT_LOWAT, tcp(7)).
/// Without it one whose program does not read takes megabytes of the memory for TCP, which all
/// programs of the machine share (`tcp_mem`).
pub fn keep_little_unsent(socket: &TcpStream) {
    // A kernel that cannot has more memory taken.
    let _ = SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
}

/// Whether the next byte to be read is an urgent one (sockatmark(3)). A read stops before it.
pub fn is_at_mark(socket: &TcpStream) -> bool {
    let mut is_there: libc::c_int = 0;
    // SAFETY: the kernel writes a number that outlives the call.
    let asked = check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCATMARK, &raw mut is_there) });
    asked.is_ok() && is_there != 0
}

/// Writes bytes of which the last is urgent.
///
/// # Errors
/// As a write has.
pub fn write_urgent(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    send_now(socket, bytes, libc::MSG_OOB)
}

/// Writes bytes behind which more follow at once: they leave together. Never waits.
///
/// # Errors
/// As a write has.
pub fn write_more(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    send_now(socket, bytes, libc::MSG_MORE)
}

/// Closes a connection with a reset: its other end gets an error.
pub fn reset(socket: TcpStream) {
    break_when_closed(&socket);
}

/// From now on a connection that is closed ends: everything was said, some of which may be on its way still.
pub fn end_when_closed(socket: &TcpStream) {
    // Not expected to fail; what is on its way would be lost then, and the other end be told.
    let _ = SockRef::from(socket).set_linger(None);
}

/// IPv4 addresses in the form in which an IPv6 socket has them are IPv4 addresses.
pub(crate) fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn syn_socket() -> io::Result<OwnedFd> {
    let socket = open_log(LOG_GROUP, SYN_BYTES_MAX as u32)?;
    grow_syn_buffer(socket.as_fd())?;
    Ok(socket)
}

fn grow_syn_buffer(syns: BorrowedFd<'_>) -> io::Result<usize> {
    let (force, plain) = (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
    crate::sys::grow_buffer(syns, force, plain, SYN_BUFFER_BYTES)
}

/// Receiving ended without a message, and may be repeated. (Who handed the socket on may have it tell that
/// messages were lost: programs' kernels repeat SYNs.)
fn is_passed_over(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::ENOBUFS))
}

/// Whether a netlink socket is of the protocol that has the log: with others the kernel does more when they
/// are read than to hand messages out.
fn is_of_netfilter(descriptor: &OwnedFd) -> bool {
    let protocol = get_option(descriptor, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0);
    protocol.is_ok_and(|protocol| protocol == libc::NETLINK_NETFILTER)
}

/// Sends whole IP packets.
fn raw(domain: Domain, mark: u32) -> io::Result<Socket> {
    let protocol = Protocol::from(libc::IPPROTO_RAW);
    let socket = Socket::new(domain, Type::RAW.nonblocking(), Some(protocol))?;
    socket.set_mark(mark)?;
    Ok(socket)
}

fn send(socket: &Socket, packet: &[u8], to: IpAddr) -> io::Result<()> {
    // The port means nothing to a raw socket; IPv6 insists on 0.
    let to = SockAddr::from(SocketAddr::new(to, 0));
    socket.send_to_with_flags(packet, &to, libc::MSG_DONTWAIT)?;
    Ok(())
}

/// Binds a socket for any address to a port that the namespace's programs do not miss.
fn bind_aside(socket: &Socket) -> io::Result<()> {
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)).into())
}

/// One listener for both families.
fn listener() -> io::Result<Socket> {
    let listener = Socket::new(
        Domain::IPV6,
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    listener.set_only_v6(false)?;
    make_transparent(&listener, true)?;
    make_transparent(&listener, false)?;
    // Its connections have these from there.
    listener.set_out_of_band_inline(true)?;
    choose_congestion_control(&listener);
    bind_aside(&listener)?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

/// The namespace's routes choose it only for sockets that speak to other hosts' addresses, as the
/// programs' do, and not for ours, which speak to the programs.
fn choose_congestion_control(socket: &Socket) {
    // Another one only takes more of the processor.
    let _ = socket.set_tcp_congestion(CONGESTION_CONTROL.as_bytes());
}

pub(super) fn make_transparent(socket: &Socket, is_v6: bool) -> io::Result<()> {
    let (level, option) = match is_v6 {
        true => (libc::SOL_IPV6, IPV6_TRANSPARENT),
        false => (libc::SOL_IP, libc::IP_TRANSPARENT),
    };
    set_option(socket, level, option, 1)
}
