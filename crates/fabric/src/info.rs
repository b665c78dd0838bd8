//! `fi_getinfo`: what a program asks for, and whether it can have it.

use core::ffi::{CStr, c_char, c_void};
use std::net::SocketAddr;

use tabane_rank::{
    ATOMIC_BYTES_MAX, Address, INJECT_BYTES_MAX, OPERATION_BYTES_MAX, PIECES_MAX, Settings,
};

use crate::abi::constants as c;
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{DomainAttr, EpAttr, FabricAttr, Fid, Info, RxAttr, TxAttr};
use crate::connection::passive::Passive;
use crate::environment::{self, Problem};
use crate::{allocate, here, log, name, object};

/// Operations that may be under way in one direction, as far as a program asks; there is no such number inside.
const QUEUE_DEFAULT: usize = 1024;
const QUEUE_MAX: usize = 1 << 20;
/// Pieces of memory in one operation, unless a program asks for more: as many as other providers offer. Some tests of
/// libfabric's own divide messages into as many as they are offered, and lose bytes where those are more than four.
const PIECES_DEFAULT: usize = 4;
/// Objects of one kind in a domain: as many as memory lets be, so this is only what programs may ask for.
const OBJECTS_MAX: usize = 1 << 16;
const REGIONS_MAX: usize = 1 << 20;
/// Bytes of a key of a region, and of the number that comes with a message.
const WORD_BYTES: usize = 8;
/// The most bytes of error data: the address of a sender who was not in the address vector.
const ERROR_DATA_BYTES: usize = 64;
/// libfabric's general form of a tag: any bits, in any division.
const TAG_ANY: u64 = 0xAAAA_AAAA_AAAA_AAAA;
/// The protocol of endpoints; next, of connected ones. A provider's own number has the highest bit.
const PROTOCOL: u32 = 1 << 31 | 0x7ab;
const PROTOCOL_CONNECTED: u32 = PROTOCOL + 1;

const TRANSFERS: u64 = c::MSG | c::TAGGED | c::RMA | c::ATOMIC;
const TX_CAPS: u64 = TRANSFERS | c::SEND | c::READ | c::WRITE;
const RX_CAPS: u64 = TRANSFERS
    | c::RECV
    | c::REMOTE_READ
    | c::REMOTE_WRITE
    | c::MULTI_RECV
    | c::DIRECTED_RECV
    | c::SOURCE
    | c::SOURCE_ERR
    | c::RMA_EVENT;
/// Capabilities whose bits had another meaning before 2.0.
const NEW_RX_CAPS: u64 = c::TAGGED_DIRECTED_RECV | c::EXACT_DIRECTED_RECV;
const DOMAIN_CAPS: u64 = c::LOCAL_COMM | c::REMOTE_COMM;
/// Capabilities that are meaningless with a single peer.
const OF_MANY: u64 = c::DIRECTED_RECV | c::SOURCE | c::SOURCE_ERR | NEW_RX_CAPS;

/// When an operation may count as done, if a program asks.
const COMPLETE: u64 =
    c::INJECT_COMPLETE | c::TRANSMIT_COMPLETE | c::DELIVERY_COMPLETE | c::MATCH_COMPLETE;
/// Flags that all operations of an endpoint may have without naming them.
pub const TX_OP_FLAGS: u64 = c::COMPLETION | c::INJECT | COMPLETE;
pub const RX_OP_FLAGS: u64 = c::COMPLETION | c::MULTI_RECV;

/// The order that operations keep: messages to one peer, and atomic operations at one peer.
const ORDER: u64 = c::ORDER_SAS
    | c::ORDER_ATOMIC_RAR
    | c::ORDER_ATOMIC_RAW
    | c::ORDER_ATOMIC_WAR
    | c::ORDER_ATOMIC_WAW;

/// A program's request.
#[derive(Default)]
struct Wanted<'a> {
    version: u32,
    caps: u64,
    addr_format: u32,
    tx: Option<&'a TxAttr>,
    rx: Option<&'a RxAttr>,
    ep: Option<&'a EpAttr>,
    domain: Option<&'a DomainAttr>,
    domain_name: Option<&'a CStr>,
    fabric_name: Option<&'a CStr>,
    /// It asks for this provider by its name.
    is_named: bool,
    source: Option<&'a [u8]>,
    destination: Option<&'a [u8]>,
    node: Option<&'a CStr>,
    service: Option<&'a CStr>,
    /// Both are this end's.
    is_own: bool,
    /// The handle for a new endpoint, and its address if that is a passive endpoint, from which it then calls.
    handle: usize,
    found_at: Option<SocketAddr>,
}

/// What the program gets.
#[derive(Clone)]
pub struct Offer {
    pub caps: u64,
    pub tx: TxAttr,
    pub rx: RxAttr,
    pub ep: EpAttr,
    pub domain: DomainAttr,
    pub addr_format: u32,
    pub source: Vec<u8>,
    pub destination: Option<Vec<u8>>,
    /// Of who has called, or of the passive endpoint from where it is to call.
    pub handle: *mut Fid,
    /// 0: libfabric sees to it.
    pub api_version: u32,
}

// SAFETY: nothing is read or written through the pointers.
unsafe impl Send for Offer {}
// SAFETY: as above.
unsafe impl Sync for Offer {}

/// Why the program gets nothing: the requested feature that is missing.
type Lacking = &'static str;

/// Checks that a request does not exceed what is available.
fn within<T: PartialOrd>(wanted: T, most: T, lacking: Lacking) -> Result<(), Lacking> {
    if wanted <= most { Ok(()) } else { Err(lacking) }
}

/// Whether no other bits are asked for.
fn only(wanted: u64, possible: u64, lacking: Lacking) -> Result<(), Lacking> {
    within(wanted & !possible, 0, lacking)
}

/// Returns what the program asks for, or refuses with `-FI_ENODATA`.
///
/// # Safety
/// The pointers are null, or as `fi_getinfo(3)` says.
pub unsafe fn getinfo(
    version: u32,
    (node, service): (*const c_char, *const c_char),
    flags: u64,
    hints: *const Info,
    infos: *mut *mut Info,
) -> Outcome<()> {
    if infos.is_null() {
        return Err(errors::INVAL);
    }
    // No utility provider should be layered on this one, since it has their features already.
    if flags & c::CORE_PROV_ONLY != 0 {
        return Err(errors::NODATA);
    }
    // SAFETY: as above.
    let wanted = unsafe { read(version, (node, service), flags, hints) };
    let offers = [offer(&wanted, c::EP_RDM), offer(&wanted, c::EP_MSG)];
    let [many, one] = &offers;
    if let (Err(many), Err(one)) = (many, one) {
        let lacking = if wanted.is_of(c::EP_MSG) { one } else { many };
        log::info(&format!("not offered: {lacking}"));
        return Err(errors::NODATA);
    }
    // If the library is installed but not asked for, programs must run as before: Open MPI prefers any provider here
    // to its own transports.
    if !(wanted.is_named || here::is_wanted()) {
        log::info("not offered: nobody asks for it by its name, or by a variable of its own");
        return Err(errors::NODATA);
    }
    let configuration = here::configuration().map_err(|Problem(line)| {
        log::fatal(&line);
        errors::NODATA
    })?;
    let mut first = core::ptr::null_mut();
    // A program without a preference takes the first one.
    for mut offer in offers.into_iter().flatten().rev() {
        if offer.source.is_empty() {
            offer.source = source(&configuration.settings, offer.addr_format);
        }
        let info = allocate::info(&offer)?;
        // SAFETY: it was just made.
        unsafe { (*info).next = first };
        first = info;
    }
    // SAFETY: not null, and the program's.
    unsafe { infos.write(first) };
    Ok(())
}

/// # Safety
/// As [`getinfo`].
unsafe fn read<'a>(
    version: u32,
    (node, service): (*const c_char, *const c_char),
    flags: u64,
    hints: *const Info,
) -> Wanted<'a> {
    // SAFETY: as above.
    let (node, service) = unsafe { (text(node), text(service)) };
    let mut wanted = Wanted {
        version,
        node,
        service,
        is_own: flags & c::SOURCE != 0,
        ..Wanted::default()
    };
    // SAFETY: as above. No field is read that came after 1.17.
    if let Some(hints) = unsafe { hints.as_ref() } {
        wanted.caps = hints.caps;
        wanted.addr_format = hints.addr_format;
        wanted.handle = hints.handle.addr();
        // SAFETY: as above; the program says how long its addresses are.
        unsafe {
            let passive = object::object::<Passive>(hints.handle.cast());
            wanted.found_at = passive.and_then(Passive::name).ok();
            wanted.tx = hints.tx_attr.as_ref();
            wanted.rx = hints.rx_attr.as_ref();
            wanted.ep = hints.ep_attr.as_ref();
            wanted.domain = hints.domain_attr.as_ref();
            let fabric: Option<&FabricAttr> = hints.fabric_attr.as_ref();
            wanted.domain_name = wanted.domain.and_then(|domain| text(domain.name));
            wanted.fabric_name = fabric.and_then(|fabric| text(fabric.name));
            let name = fabric.and_then(|fabric| text(fabric.prov_name));
            wanted.is_named =
                name.is_some_and(|name| environment::names_us(&name.to_string_lossy()));
            wanted.source = bytes(hints.src_addr, hints.src_addrlen);
            wanted.destination = bytes(hints.dest_addr, hints.dest_addrlen);
        }
    }
    wanted
}

impl Wanted<'_> {
    /// Whether it asks for such endpoints and no others.
    fn is_of(&self, kind: u32) -> bool {
        self.ep.is_some_and(|ep| ep.kind == kind)
    }

    /// The address to be reached by an endpoint that reaches many.
    fn destination(&self) -> Result<Option<Vec<u8>>, Lacking> {
        // With this flag it is an address of this node, all of whose links are used anyway.
        if let (Some(node), false) = (self.node, self.is_own) {
            let address = node.to_str().ok().and_then(name::parse);
            return match address {
                Some(address) => Ok(Some(name::raw(&address).to_vec())),
                // A program that names this provider knows how its ranks exchange addresses.
                None if self.is_named => match node.to_str().ok().and_then(name::host) {
                    Some(_) => Ok(Some(name::UNKNOWN.to_vec())),
                    None => Err("a host that nobody knows"),
                },
                None => Err(
                    "an endpoint cannot be found by a host's name: ranks tell each other their addresses",
                ),
            };
        }
        let Some(bytes) = self.destination else {
            return Ok(None);
        };
        match Address::from_bytes(bytes) {
            Ok(address) => Ok(Some(name::raw(&address).to_vec())),
            Err(_) if bytes == name::UNKNOWN => Ok(Some(name::UNKNOWN.to_vec())),
            Err(_) => Err("the destination is no tabane address"),
        }
    }

    /// The addresses of sockets of an endpoint that is connected: its own, and that to be reached.
    fn sockets(&self) -> Result<(Option<SocketAddr>, Option<SocketAddr>), Lacking> {
        const NO_SOCKET: Lacking = "an address that is none of a host and a port";
        let given = |bytes: Option<&[u8]>| match bytes {
            None => Ok(None),
            Some(bytes) => name::parse_socket(bytes).map(Some).ok_or(NO_SOCKET),
        };
        let (source, destination) = (given(self.source)?, given(self.destination)?);
        let node = self.node.map(|node| node.to_str().map_err(|_| NO_SOCKET));
        let service = (self.service).map(|service| service.to_str().map_err(|_| NO_SOCKET));
        let (node, service) = (node.transpose()?, service.transpose()?);
        if node.is_none() && service.is_none() {
            return Ok((source, destination));
        }
        if node.is_some_and(|node| name::parse(node).is_some()) {
            return Err(NO_SOCKET);
        }
        // Without a host it is this one.
        let node = node.or((!self.is_own).then_some("localhost"));
        let named = name::resolve(node, service, self.addr_format).ok_or(NO_SOCKET)?;
        Ok(match self.is_own {
            true => (Some(named), destination),
            false => (source, Some(named)),
        })
    }
}

/// # Safety
/// It is null, or points to `len` bytes that nobody changes or frees for `'a`.
unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: as above.
    (!pointer.is_null()).then(|| unsafe { core::slice::from_raw_parts(pointer.cast(), len) })
}

/// # Safety
/// It is null, or text that ends in a zero byte, and lives for `'a`.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as above.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

/// An endpoint of this kind, if it satisfies the request.
fn offer(wanted: &Wanted<'_>, kind: u32) -> Result<Offer, Lacking> {
    let ep = ep(wanted, kind)?;
    for named in [wanted.domain_name, wanted.fabric_name]
        .into_iter()
        .flatten()
    {
        if !named
            .to_bytes()
            .eq_ignore_ascii_case(crate::provider::NAME.to_bytes())
        {
            return Err("fabric and domain are both called tabane");
        }
    }
    let addresses = addresses(wanted, kind)?;
    let caps = caps(wanted, kind)?;
    Ok(Offer {
        caps,
        tx: tx(wanted, caps)?,
        rx: rx(wanted, caps)?,
        ep,
        domain: domain(wanted)?,
        addr_format: addresses.format,
        source: addresses.source,
        destination: addresses.destination,
        handle: match kind {
            c::EP_MSG => wanted.handle as *mut Fid,
            _ => core::ptr::null_mut(),
        },
        api_version: 0,
    })
}

/// Addresses of an endpoint.
struct Addresses {
    format: u32,
    /// This end's, if the program has chosen it.
    source: Vec<u8>,
    /// That to be reached.
    destination: Option<Vec<u8>>,
}

fn addresses(wanted: &Wanted<'_>, kind: u32) -> Result<Addresses, Lacking> {
    if kind == c::EP_RDM {
        // A service's number has no meaning for an endpoint here: each takes a free port.
        within(
            wanted.addr_format,
            c::FORMAT_UNSPEC,
            "addresses are of a format of their own (FI_FORMAT_UNSPEC)",
        )?;
        return Ok(Addresses {
            format: c::FORMAT_UNSPEC,
            source: Vec::new(),
            destination: wanted.destination()?,
        });
    }
    within(
        wanted.addr_format,
        c::SOCKADDR_IN6,
        "addresses are of hosts and ports (FI_SOCKADDR_IN, FI_SOCKADDR_IN6)",
    )?;
    let (source, destination) = wanted.sockets()?;
    let source = match wanted.handle {
        0 => source,
        _ => Some((wanted.found_at).ok_or("an endpoint made of something that is found nowhere")?),
    };
    let format = match (source.or(destination), wanted.addr_format) {
        (Some(at), _) => name::socket_format(&at),
        (None, c::SOCKADDR_IN6) => c::SOCKADDR_IN6,
        (None, _) => c::SOCKADDR_IN,
    };
    Ok(Addresses {
        format,
        source: source.as_ref().map(name::socket).unwrap_or_default(),
        destination: destination.as_ref().map(name::socket),
    })
}

fn caps(wanted: &Wanted<'_>, kind: u32) -> Result<u64, Lacking> {
    let known = TX_CAPS | RX_CAPS | DOMAIN_CAPS;
    let known = match wanted.version >= c::version(2, 0) {
        true => known | NEW_RX_CAPS,
        false => known,
    };
    let of_many = if kind == c::EP_RDM { 0 } else { OF_MANY };
    only(
        wanted.caps,
        known & !of_many,
        "a capability that is not here",
    )?;
    if wanted.caps == 0 {
        // Programs that do not ask for these do not expect errors for arrived messages, nor want to pay for
        // notifications of others' accesses.
        let unasked = of_many | c::SOURCE_ERR | c::RMA_EVENT;
        return Ok((TX_CAPS | RX_CAPS | DOMAIN_CAPS) & !unasked);
    }
    // If no direction is named, all are meant.
    let mut caps = wanted.caps | DOMAIN_CAPS;
    if caps & (c::MSG | c::TAGGED) != 0 && caps & (c::SEND | c::RECV) == 0 {
        caps |= c::SEND | c::RECV;
    }
    let remote = c::READ | c::WRITE | c::REMOTE_READ | c::REMOTE_WRITE;
    if caps & (c::RMA | c::ATOMIC) != 0 && caps & remote == 0 {
        caps |= remote;
    }
    Ok(caps)
}

/// The capabilities of one half of an endpoint.
fn half(wanted: Option<u64>, caps: u64, possible: u64) -> Result<u64, Lacking> {
    match wanted {
        None | Some(0) => Ok(caps & possible),
        Some(wanted) => {
            only(
                wanted,
                caps & possible,
                "a half of the endpoint is to do more than all of it",
            )?;
            Ok(wanted)
        }
    }
}

fn order(msg_order: u64, comp_order: u64) -> Result<(), Lacking> {
    only(msg_order, ORDER, "an order that operations do not keep")?;
    only(comp_order, 0, "an order of completions")
}

fn depth(size: usize) -> Result<usize, Lacking> {
    within(size, QUEUE_MAX, "a queue of so many operations")?;
    Ok(if size == 0 { QUEUE_DEFAULT } else { size })
}

fn pieces(wanted: usize) -> Result<usize, Lacking> {
    within(wanted, PIECES_MAX, "so many pieces of memory")?;
    Ok(wanted.max(PIECES_DEFAULT))
}

fn tx(wanted: &Wanted<'_>, caps: u64) -> Result<TxAttr, Lacking> {
    let hint = wanted.tx;
    if let Some(tx) = hint {
        only(tx.op_flags, TX_OP_FLAGS, "a flag of all sends")?;
        order(tx.msg_order, tx.comp_order)?;
        within(tx.inject_size, INJECT_BYTES_MAX, "so many bytes injected")?;
        within(tx.rma_iov_limit, 1, "more than one piece of remote memory")?;
    }
    Ok(TxAttr {
        caps: half(hint.map(|tx| tx.caps), caps, TX_CAPS)?,
        mode: 0,
        op_flags: hint.map_or(0, |tx| tx.op_flags),
        msg_order: ORDER,
        comp_order: 0,
        inject_size: INJECT_BYTES_MAX,
        size: depth(hint.map_or(0, |tx| tx.size))?,
        iov_limit: pieces(hint.map_or(0, |tx| tx.iov_limit))?,
        rma_iov_limit: 1,
        tclass: 0,
    })
}

fn rx(wanted: &Wanted<'_>, caps: u64) -> Result<RxAttr, Lacking> {
    let hint = wanted.rx;
    if let Some(rx) = hint {
        only(rx.op_flags, RX_OP_FLAGS, "a flag of all receives")?;
        order(rx.msg_order, rx.comp_order)?;
    }
    Ok(RxAttr {
        caps: half(hint.map(|rx| rx.caps), caps, RX_CAPS | NEW_RX_CAPS)?,
        mode: 0,
        op_flags: hint.map_or(0, |rx| rx.op_flags),
        msg_order: ORDER,
        comp_order: 0,
        // Unused since 1.0; a request for it is granted as it is.
        total_buffered_recv: hint.map_or(0, |rx| rx.total_buffered_recv),
        size: depth(hint.map_or(0, |rx| rx.size))?,
        iov_limit: pieces(hint.map_or(0, |rx| rx.iov_limit))?,
    })
}

fn ep(wanted: &Wanted<'_>, kind: u32) -> Result<EpAttr, Lacking> {
    let protocol = match kind {
        c::EP_RDM => PROTOCOL,
        _ => PROTOCOL_CONNECTED,
    };
    if let Some(ep) = wanted.ep {
        if ep.kind != c::EP_UNSPEC && ep.kind != kind {
            return Err("an endpoint other than FI_EP_RDM and FI_EP_MSG");
        }
        if ep.protocol != 0 && ep.protocol != protocol {
            return Err("another protocol");
        }
        within(
            ep.max_msg_size as u64,
            OPERATION_BYTES_MAX,
            "messages so long",
        )?;
        let ordered = [
            ep.max_order_raw_size,
            ep.max_order_war_size,
            ep.max_order_waw_size,
        ];
        for size in ordered {
            within(size, ATOMIC_BYTES_MAX, "order within so many bytes")?;
        }
        within(
            ep.tx_ctx_cnt.max(ep.rx_ctx_cnt),
            1,
            "more than one context each way",
        )?;
        within(
            ep.auth_key_size,
            0,
            "an authorization key: the job's key is in the environment",
        )?;
    }
    let tag_format = wanted.ep.map_or(0, |ep| ep.mem_tag_format);
    Ok(EpAttr {
        kind,
        protocol,
        protocol_version: 1,
        max_msg_size: OPERATION_BYTES_MAX as usize,
        msg_prefix_size: 0,
        max_order_raw_size: ATOMIC_BYTES_MAX,
        max_order_war_size: ATOMIC_BYTES_MAX,
        max_order_waw_size: ATOMIC_BYTES_MAX,
        mem_tag_format: if tag_format == 0 { TAG_ANY } else { tag_format },
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        auth_key_size: 0,
        auth_key: core::ptr::null_mut(),
    })
}

/// How memory is registered: keys and offsets are the program's, unless it knows only the oldest way.
fn mr_mode(version: u32, mode: i32) -> i32 {
    let is_old = version < c::version(1, 5);
    if mode & c::MR_BASIC != 0 {
        c::MR_BASIC
    } else if mode & c::MR_SCALABLE != 0 || is_old {
        c::MR_SCALABLE
    } else {
        0
    }
}

fn check_domain(domain: &DomainAttr) -> Result<(), Lacking> {
    within(domain.threading, c::THREAD_LAST, "such threading")?;
    let progress = domain.control_progress.max(domain.data_progress);
    within(progress, c::PROGRESS_LAST, "such progress")?;
    within(domain.av_type, c::AV_TABLE, "such address vectors")?;
    within(domain.mr_key_size, WORD_BYTES, "keys so long")?;
    within(
        domain.cq_data_size,
        WORD_BYTES,
        "so many bytes with a message",
    )?;
    let counts = [
        domain.cq_cnt,
        domain.ep_cnt,
        domain.tx_ctx_cnt,
        domain.rx_ctx_cnt,
        domain.cntr_cnt,
    ];
    within(
        counts.into_iter().max().unwrap_or(0),
        OBJECTS_MAX,
        "so many objects",
    )?;
    within(
        domain.max_ep_tx_ctx.max(domain.max_ep_rx_ctx),
        1,
        "scalable endpoints",
    )?;
    within(
        domain.max_ep_stx_ctx.max(domain.max_ep_srx_ctx),
        0,
        "shared contexts",
    )?;
    within(domain.mr_iov_limit, 1, "regions of several pieces")?;
    only(
        domain.caps,
        DOMAIN_CAPS,
        "a domain's capability that is not here",
    )?;
    within(
        domain.auth_key_size,
        0,
        "an authorization key: the job's key is in the environment",
    )?;
    within(
        domain.max_err_data,
        ERROR_DATA_BYTES,
        "so much about an error",
    )?;
    within(domain.mr_cnt, REGIONS_MAX, "so many regions")
}

fn domain(wanted: &Wanted<'_>) -> Result<DomainAttr, Lacking> {
    if let Some(domain) = wanted.domain {
        check_domain(domain)?;
    }
    let hint = |field: fn(&DomainAttr) -> u32, unspecified: u32, ours: u32| {
        let asked = wanted.domain.map_or(unspecified, field);
        if asked == unspecified { ours } else { asked }
    };
    Ok(DomainAttr {
        domain: core::ptr::null_mut(),
        name: core::ptr::null_mut(),
        threading: hint(|d| d.threading, c::THREAD_UNSPEC, c::THREAD_SAFE),
        control_progress: hint(|d| d.control_progress, c::PROGRESS_UNSPEC, c::PROGRESS_AUTO),
        data_progress: hint(|d| d.data_progress, c::PROGRESS_UNSPEC, c::PROGRESS_MANUAL),
        resource_mgmt: c::RM_ENABLED,
        av_type: hint(|d| d.av_type, c::AV_UNSPEC, c::AV_TABLE),
        mr_mode: mr_mode(wanted.version, wanted.domain.map_or(0, |d| d.mr_mode)),
        mr_key_size: WORD_BYTES,
        cq_data_size: WORD_BYTES,
        cq_cnt: OBJECTS_MAX,
        ep_cnt: OBJECTS_MAX,
        tx_ctx_cnt: OBJECTS_MAX,
        rx_ctx_cnt: OBJECTS_MAX,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        max_ep_stx_ctx: 0,
        max_ep_srx_ctx: 0,
        cntr_cnt: OBJECTS_MAX,
        mr_iov_limit: 1,
        caps: DOMAIN_CAPS,
        mode: 0,
        auth_key: core::ptr::null_mut(),
        auth_key_size: 0,
        max_err_data: ERROR_DATA_BYTES,
        mr_cnt: REGIONS_MAX,
        tclass: 0,
    })
}

/// Represents this node before there is an endpoint: an address whose port and number are zero.
fn source(settings: &Settings, addr_format: u32) -> Vec<u8> {
    if addr_format != c::FORMAT_UNSPEC {
        let mut links = settings.links.iter().map(|(_, ip)| SocketAddr::new(*ip, 0));
        let own = links.find(|at| name::socket_format(at) == addr_format);
        let any = name::resolve(None, None, addr_format);
        return own.or(any).as_ref().map(name::socket).unwrap_or_default();
    }
    // Any port: it is taken out again.
    let mut bytes = Address::new(&settings.links, 1, 0).map_or([0; name::BYTES], |a| name::raw(&a));
    bytes[2..4].fill(0);
    bytes.to_vec()
}

/// The offer for callers of an endpoint that was opened with this.
///
/// # Errors
/// `-FI_EINVAL`: a part is missing.
///
/// # Safety
/// The information is valid.
pub unsafe fn of_passive(info: &Info, api_version: u32) -> Outcome<Offer> {
    // SAFETY: as above. No field is read that came after 1.17.
    unsafe {
        let mut ep = *info.ep_attr.as_ref().ok_or(errors::INVAL)?;
        let mut domain = *info.domain_attr.as_ref().ok_or(errors::INVAL)?;
        ep.auth_key = core::ptr::null_mut();
        domain.auth_key = core::ptr::null_mut();
        domain.domain = core::ptr::null_mut();
        Ok(Offer {
            caps: info.caps,
            tx: *info.tx_attr.as_ref().ok_or(errors::INVAL)?,
            rx: *info.rx_attr.as_ref().ok_or(errors::INVAL)?,
            ep,
            domain,
            addr_format: info.addr_format,
            source: bytes(info.src_addr, info.src_addrlen)
                .unwrap_or_default()
                .to_vec(),
            destination: None,
            handle: core::ptr::null_mut(),
            api_version,
        })
    }
}
