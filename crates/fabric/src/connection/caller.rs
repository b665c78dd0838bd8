//! Callers that wait for an answer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use tabane_rank::{Address, Peer};

use crate::abi::constants as c;
use crate::abi::fabric::{Fid, FidOps};
use crate::guard;
use crate::station::Station;

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: guard::no_close,
    bind: guard::no_bind,
    control: guard::no_control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

/// The handle of a request. A caller that is dropped was rejected.
#[repr(C)]
pub struct Caller {
    fid: Fid,
    who: Who,
    peer: Peer,
    ears: Weak<Station>,
    is_answered: bool,
}

/// A caller.
#[derive(Clone, Copy)]
pub struct Who {
    /// Whom the answer goes to.
    pub address: Address,
    /// Its address, as programs know it.
    pub from: Option<SocketAddr>,
    /// The address that it called.
    pub at: Option<SocketAddr>,
}

// SAFETY: the pointers are to a table that never changes, and null.
unsafe impl Send for Caller {}

impl Caller {
    /// Somebody who has called at these ears.
    pub fn new(who: Who, peer: Peer, ears: Weak<Station>) -> Box<Caller> {
        Box::new(Caller {
            fid: Fid {
                class: c::CLASS_CONNREQ,
                context: core::ptr::null_mut(),
                ops: &raw const FID_OPS,
            },
            who,
            peer,
            ears,
            is_answered: false,
        })
    }

    /// The program's handle for it.
    pub fn handle(&self) -> *mut Fid {
        (&raw const self.fid).cast_mut()
    }

    /// The caller.
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// The same; it will be answered from elsewhere.
    pub fn accept(mut self) -> Who {
        self.is_answered = true;
        self.who
    }

    /// Says no, and why.
    pub fn reject(mut self, data: &[u8]) {
        self.answer_no(data);
    }

    fn answer_no(&mut self, data: &[u8]) {
        if !core::mem::replace(&mut self.is_answered, true)
            && let Some(ears) = self.ears.upgrade()
        {
            ears.reject(self.peer, data);
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.answer_no(&[]);
    }
}

/// All callers, by their handles. A program's handle is only compared with these.
#[derive(Default)]
pub struct Callers(Mutex<HashMap<usize, Box<Caller>>>);

impl Callers {
    fn all(&self) -> MutexGuard<'_, HashMap<usize, Box<Caller>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub fn insert(&self, caller: Box<Caller>) {
        self.all().insert(caller.handle().addr(), caller);
    }

    /// The one of this handle, which is stale from now on.
    pub fn take(&self, handle: *mut Fid) -> Option<Caller> {
        let caller = self.all().remove(&handle.addr())?;
        Some(*caller)
    }

    /// How many wait at these ears.
    pub fn count(&self, ears: &Weak<Station>) -> usize {
        let all = self.all();
        let theirs = all.values().filter(|caller| caller.ears.ptr_eq(ears));
        theirs.count()
    }

    /// Those who wait at these ears, taken out.
    pub fn of(&self, ears: &Weak<Station>) -> Vec<Caller> {
        let mut all = self.all();
        let theirs = all.extract_if(|_, caller| caller.ears.ptr_eq(ears));
        theirs.map(|(_, caller)| *caller).collect()
    }
}
