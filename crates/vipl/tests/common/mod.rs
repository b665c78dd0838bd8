//! Two ends in one process, each a NIC of its own, and programs in C, compiled against the header and the library of this build.
#![allow(dead_code, missing_docs, reason = "each test program uses its part")]

use core::ffi::c_void;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tabane_vipl::abi::*;
use tabane_vipl::calls::*;
use tempfile::TempDir;

pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub const FOREVER: u64 = INFINITE;
/// A test fails before this passes.
pub const LONG: u64 = 20_000;

static ENVIRONMENT: Once = Once::new();
static DISCRIMINATORS: AtomicU32 = AtomicU32::new(0);

/// What the environment says to the library.
pub fn environment() {
    ENVIRONMENT.call_once(|| {
        // SAFETY: every test calls this first, so no other thread of a test reads or writes variables meanwhile.
        unsafe {
            std::env::set_var("TABANE_KEY", KEY);
            std::env::set_var("TABANE_LINKS", "127.0.0.1");
            std::env::set_var(
                "TABANE_VI_HOSTS",
                "here=127.0.0.1,there=192.0.2.1+192.0.2.2",
            );
        }
    });
}

/// Says what a function returned.
pub fn code(returned: Result<(), Code>) -> i32 {
    match returned {
        Ok(()) => SUCCESS,
        Err(code) => code.0,
    }
}

/// A discriminator that no other test has.
pub fn discriminator() -> Vec<u8> {
    let number = DISCRIMINATORS.fetch_add(1, Ordering::Relaxed);
    let mut bytes = std::process::id().to_ne_bytes().to_vec();
    bytes.extend(number.to_ne_bytes());
    bytes
}

/// `VIP_NET_ADDRESS` with its bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Place(pub [u8; 64]);

impl Place {
    pub fn new(host: &[u8], who: &[u8]) -> Place {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&(host.len() as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&(who.len() as u16).to_ne_bytes());
        bytes[4..4 + host.len()].copy_from_slice(host);
        bytes[4 + host.len()..4 + host.len() + who.len()].copy_from_slice(who);
        Place(bytes)
    }

    pub fn get(&self) -> *const NetAddress {
        self.0.as_ptr().cast()
    }

    pub fn put(&mut self) -> *mut NetAddress {
        self.0.as_mut_ptr().cast()
    }

    pub fn host(&self) -> &[u8] {
        let len = u16::from_ne_bytes([self.0[0], self.0[1]]).into();
        &self.0[4..][..len]
    }

    pub fn who(&self) -> &[u8] {
        let host = usize::from(u16::from_ne_bytes([self.0[0], self.0[1]]));
        let len = u16::from_ne_bytes([self.0[2], self.0[3]]).into();
        &self.0[4 + host..][..len]
    }
}

/// Memory of an end: registered, with room for descriptors at its beginning.
pub const MEMORY: usize = 1 << 20;
/// Where the bytes begin.
pub const BYTES: usize = 64 * 128;

/// An end: a NIC, a tag, a region, a VI.
pub struct End {
    pub nic: *mut c_void,
    pub ptag: *mut c_void,
    pub vi: *mut c_void,
    pub memory: *mut u8,
    pub region: u32,
    pub host: Vec<u8>,
}

// SAFETY: handles are numbers, and the memory is used by one thread at a time.
unsafe impl Send for End {}

pub fn layout() -> Layout {
    Layout::from_size_align(MEMORY, 4096).expect("is one")
}

/// What a VI of a tag usually is made with.
pub fn attributes(ptag: *mut c_void) -> ViAttributes {
    ViAttributes {
        reliability_level: SERVICE_RELIABLE_DELIVERY,
        transfer_bytes_max: 1 << 20,
        qos: null_mut(),
        ptag,
        enable_rdma_write: 1,
        enable_rdma_read: 1,
    }
}

pub fn no_attributes() -> ViAttributes {
    ViAttributes {
        reliability_level: 0,
        transfer_bytes_max: 0,
        qos: null_mut(),
        ptag: null_mut(),
        enable_rdma_write: 0,
        enable_rdma_read: 0,
    }
}

pub fn open() -> *mut c_void {
    environment();
    let mut nic = null_mut();
    // SAFETY: the text ends in a zero byte, and the place is this function's.
    let returned = unsafe { VipOpenNic(c"tabane0".as_ptr(), &raw mut nic) };
    assert_eq!(returned, SUCCESS);
    nic
}

impl End {
    pub fn new() -> End {
        End::with(|_| {})
    }

    /// One whose VI is changed by `change` from what it usually is.
    pub fn with(change: impl FnOnce(&mut ViAttributes)) -> End {
        let nic = open();
        let (mut ptag, mut vi, mut region) = (null_mut(), null_mut(), 0);
        // SAFETY: all pointers are to what this function has; the memory is freed after the NIC is closed.
        unsafe {
            let mut query = std::mem::zeroed::<NicAttributes>();
            assert_eq!(VipQueryNic(nic, &raw mut query), SUCCESS);
            let bytes = query.nic_address_bytes.into();
            let host = std::slice::from_raw_parts(query.local_nic_address, bytes).to_vec();
            assert_eq!(VipCreatePtag(nic, &raw mut ptag), SUCCESS);
            let memory = alloc_zeroed(layout());
            let rights = MemAttributes {
                ptag,
                enable_rdma_write: 1,
                enable_rdma_read: 1,
            };
            let (place, rights) = (&raw mut region, &raw const rights);
            let returned = VipRegisterMem(nic, memory.cast(), MEMORY as u64, rights, place);
            assert_eq!(returned, SUCCESS);
            let mut wanted = attributes(ptag);
            change(&mut wanted);
            let place = &raw mut vi;
            let returned = VipCreateVi(nic, &raw const wanted, null_mut(), null_mut(), place);
            assert_eq!(returned, SUCCESS);
            End {
                nic,
                ptag,
                vi,
                memory,
                region,
                host,
            }
        }
    }

    pub fn place(&self, who: &[u8]) -> Place {
        Place::new(&self.host, who)
    }

    /// Waits for a caller.
    pub fn wait(
        &self,
        who: &[u8],
        timeout: u64,
    ) -> Result<(*mut c_void, ViAttributes, Place), i32> {
        let (mut caller, mut theirs) = (null_mut(), no_attributes());
        let mut from = Place([0; 64]);
        // SAFETY: all pointers are to what this function has.
        let returned = unsafe {
            let (theirs, caller) = (&raw mut theirs, &raw mut caller);
            let own = self.place(who);
            VipConnectWait(self.nic, own.get(), timeout, from.put(), theirs, caller)
        };
        match returned {
            SUCCESS => Ok((caller, theirs, from)),
            code => Err(code),
        }
    }

    pub fn accept(&self, caller: *mut c_void) -> i32 {
        // SAFETY: handles are numbers.
        unsafe { VipConnectAccept(caller, self.vi) }
    }

    /// Calls who waits.
    pub fn request(&self, host: &[u8], who: &[u8], timeout: u64) -> i32 {
        let mut theirs = no_attributes();
        let (own, there) = (self.place(b"me"), Place::new(host, who));
        // SAFETY: all pointers are to what this function has.
        unsafe { VipConnectRequest(self.vi, own.get(), there.get(), timeout, &raw mut theirs) }
    }

    pub fn state(&self) -> i32 {
        self.query().0
    }

    /// State, and whether the queues are empty.
    pub fn query(&self) -> (i32, bool, bool) {
        let (mut state, mut has) = (9, no_attributes());
        let (mut sends, mut receives) = (9, 9);
        // SAFETY: all pointers are to what this function has.
        let returned = unsafe {
            let (sends, receives) = (&raw mut sends, &raw mut receives);
            VipQueryVi(self.vi, &raw mut state, &raw mut has, sends, receives)
        };
        assert_eq!(returned, SUCCESS);
        (state, sends == 1, receives == 1)
    }

    /// Waits until the VI is in this state.
    pub fn comes_to(&self, state: i32) {
        while self.state() != state {
            thread::yield_now();
        }
    }

    pub fn descriptor(&self, index: usize) -> *mut Descriptor {
        assert!(index < 128);
        self.memory.wrapping_add(64 * index).cast()
    }

    /// A descriptor of an operation with these segments: offset in the memory, and bytes.
    pub fn prepare(
        &self,
        index: usize,
        control: u16,
        segments: &[(usize, usize)],
    ) -> *mut Descriptor {
        let whole: usize = segments.iter().map(|(_, bytes)| bytes).sum();
        let descriptor = self.descriptor(index);
        // SAFETY: the descriptor lies in the end's memory, and what follows it, too.
        unsafe {
            (*descriptor).control = ControlSegment {
                next: 0,
                next_handle: 0,
                segments: segments.len() as u16,
                control,
                reserved: 0,
                immediate: 0,
                bytes: whole as u32,
                status: 0,
            };
            let place = (&raw mut (*descriptor).segments).cast::<Segment>();
            for (index, (offset, bytes)) in segments.iter().enumerate() {
                *place.add(index) = Segment {
                    address: self.memory.wrapping_add(*offset).expose_provenance() as u64,
                    handle: self.region,
                    bytes: *bytes as u32,
                };
            }
        }
        descriptor
    }

    /// One that names memory of another end's, at this offset.
    pub fn prepare_remote(
        &self,
        index: usize,
        control: u16,
        (offset, bytes): (usize, usize),
        other: &End,
        there: usize,
    ) -> *mut Descriptor {
        let descriptor = self.prepare(index, control, &[(0, 0), (offset, bytes)]);
        // SAFETY: as above.
        unsafe {
            (*descriptor).segments[0].address =
                other.memory.wrapping_add(there).expose_provenance() as u64;
            (*descriptor).segments[0].handle = other.region;
        }
        descriptor
    }

    pub fn post_send(&self, descriptor: *mut Descriptor) -> i32 {
        // SAFETY: the descriptor is the end's.
        unsafe { VipPostSend(self.vi, descriptor, self.region) }
    }

    pub fn post_receive(&self, descriptor: *mut Descriptor) -> i32 {
        // SAFETY: the descriptor is the end's.
        unsafe { VipPostRecv(self.vi, descriptor, self.region) }
    }

    /// Posts a send of these bytes of the memory.
    pub fn send(&self, index: usize, offset: usize, bytes: usize) {
        let descriptor = self.prepare(index, CONTROL_OP_SENDRECV, &[(offset, bytes)]);
        assert_eq!(self.post_send(descriptor), SUCCESS);
    }

    /// Posts a receive for so many bytes.
    pub fn receive(&self, index: usize, offset: usize, bytes: usize) {
        let descriptor = self.prepare(index, CONTROL_OP_SENDRECV, &[(offset, bytes)]);
        assert_eq!(self.post_receive(descriptor), SUCCESS);
    }

    /// What a function returned of the next descriptor, which one it was, and its control segment.
    fn next(
        &self,
        wait: unsafe extern "C" fn(*mut c_void, u64, *mut *mut Descriptor) -> i32,
    ) -> (i32, usize, ControlSegment) {
        let mut descriptor = null_mut();
        // SAFETY: the place is this function's; what comes is a descriptor of the end's, which is done.
        unsafe {
            let returned = wait(self.vi, LONG, &raw mut descriptor);
            assert!(!descriptor.is_null(), "returned {returned}");
            let index = (descriptor.addr() - self.memory.addr()) / 64;
            (returned, index, (*descriptor).control)
        }
    }

    pub fn sent(&self) -> (i32, usize, ControlSegment) {
        self.next(VipSendWait)
    }

    pub fn received(&self) -> (i32, usize, ControlSegment) {
        self.next(VipRecvWait)
    }

    #[allow(
        clippy::mut_from_ref,
        reason = "tests use each part of the memory by one name at a time"
    )]
    pub fn bytes(&self, offset: usize, bytes: usize) -> &mut [u8] {
        assert!(offset + bytes <= MEMORY);
        // SAFETY: they are in the memory, which lives as long as the end.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(offset), bytes) }
    }

    pub fn disconnect(&self) {
        // SAFETY: handles are numbers.
        assert_eq!(unsafe { VipDisconnect(self.vi) }, SUCCESS);
        assert_eq!(self.state(), STATE_IDLE);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: handles are numbers. Nobody reaches the memory after the NIC is closed.
        unsafe {
            VipCloseNic(self.nic);
            dealloc(self.memory, layout());
        }
    }
}

/// Two ends whose VIs are connected: the one that has called, and the one that has waited.
pub fn connected() -> (End, End) {
    connected_with(|_| {})
}

pub fn connected_with(change: fn(&mut ViAttributes)) -> (End, End) {
    let (client, server) = (End::with(change), End::with(change));
    connect(&client, &server);
    (client, server)
}

pub fn connect(client: &End, server: &End) {
    let who = discriminator();
    thread::scope(|scope| {
        // The whole of it is sent to the thread, and not the pointer in it.
        let server = Shared(server);
        let client = Shared(client);
        let asked = who.clone();
        let accepted = scope.spawn(move || {
            let server = { server }.0;
            let (caller, ..) = server.wait(&asked, LONG).expect("somebody calls");
            server.accept(caller)
        });
        let client = { client }.0;
        let requested = client.request(&server_host(client), &who, LONG);
        // Of a failure both sides are shown: the one tells how far the other has come.
        let accepted = accepted.join().map_err(drop);
        assert_eq!((requested, accepted), (SUCCESS, Ok(SUCCESS)));
    });
    assert_eq!(
        (client.state(), server.state()),
        (STATE_CONNECTED, STATE_CONNECTED)
    );
}

/// All ends are on this node.
fn server_host(end: &End) -> Vec<u8> {
    end.host.clone()
}

/// An end that threads share: its handles are numbers, its functions the library's.
#[derive(Clone, Copy)]
pub struct Shared<'a>(pub &'a End);

// SAFETY: as said; the tests' threads use different parts of its memory.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

pub const C89: &[&str] = &["cc", "-std=c89", "-pedantic"];
pub const C99: &[&str] = &["cc", "-std=c99", "-D_GNU_SOURCE"];
pub const C11: &[&str] = &["cc", "-std=c11", "-pedantic"];
pub const CPP98: &[&str] = &["c++", "-std=c++98", "-x", "c++"];
pub const CPP17: &[&str] = &["c++", "-std=c++17", "-x", "c++"];

/// A directory of programs, with the library as it would be installed.
pub struct Workshop {
    directory: TempDir,
}

impl Workshop {
    pub fn new() -> Workshop {
        let directory = tempfile::tempdir().expect("a directory");
        // Cargo builds the library beside the tests that depend on it.
        let test = std::env::current_exe().expect("is known");
        let library = test.with_file_name("libtabane_vipl.so");
        assert!(library.exists(), "{} is not there", library.display());
        for name in ["libtabane-vipl.so", "libtabane-vipl.so.1"] {
            std::os::unix::fs::symlink(&library, directory.path().join(name)).expect("links");
        }
        Workshop { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles a program, without a word of the compiler's.
    pub fn program(&self, compiler: &[&str], source: &Path, name: &str) -> PathBuf {
        let program = self.path(name);
        let here = self.directory.path().display().to_string();
        let mut command = Command::new(compiler[0]);
        command
            .args(&compiler[1..])
            .args(["-Wall", "-Wextra", "-Werror", "-pthread", "-O1"])
            .arg("-I")
            .arg(package("include"))
            .arg("-o")
            .arg(&program)
            .arg(source)
            .args(["-x", "none"])
            .args([
                &format!("-L{here}"),
                &format!("-Wl,-rpath,{here}"),
                "-ltabane-vipl",
            ]);
        let said = command.output().expect("there is a compiler");
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && errors.is_empty(), "{errors}");
        program
    }
}

/// A file of this package.
pub fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A process that is ended with this.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        command.env("TABANE_KEY", KEY);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("starts")))
    }

    /// What it says next.
    pub fn line(&mut self) -> String {
        let child = self.0.as_mut().expect("runs");
        let said = child.stdout.as_mut().expect("is a pipe");
        let (mut line, mut byte) = (String::new(), [0]);
        while !line.ends_with('\n') && said.read(&mut byte).expect("is read") == 1 {
            line.push(byte[0].into());
        }
        line
    }

    pub fn end(mut self) -> String {
        let child = self.0.take().expect("runs");
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{status}: {stderr}");
        String::from_utf8(stdout).expect("is text")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
