//! Objects that C holds by a pointer to their beginning, and that hold each other.
//!
//! Each is counted: C has one reference until it closes the object, objects that use another have one each. So an object
//! that is closed too early is refused, or lives on until the last that needs it; C's memory is never a dangling one.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{Fid, FidOps};
use crate::guard;

/// The part of an object that C sees, and may write into.
#[repr(transparent)]
pub struct Face<F>(UnsafeCell<F>);

// SAFETY: this only accesses `fid` and `FabricObject::api_version`, which C wrote before, and `taken`, while nobody
// else uses the object. Its pointers are to tables that never change, and the program's own.
unsafe impl<F> Sync for Face<F> {}
// SAFETY: as above.
unsafe impl<F> Send for Face<F> {}

impl<F> Face<F> {
    pub const fn new(face: F) -> Face<F> {
        Face(UnsafeCell::new(face))
    }

    /// Its address.
    pub const fn get(&self) -> *mut F {
        self.0.get()
    }
}

impl<F> Face<F> {
    /// The program's context for the object.
    pub fn context(&self) -> *mut c_void {
        // SAFETY: every face begins with a `Fid`; nobody writes there while the object is in use.
        unsafe { (*self.get().cast::<Fid>()).context }
    }
}

/// A type that begins with a [`Face`], which begins with a [`Fid`].
///
/// # Safety
/// It is `repr(C)` and its first field is a `Face<F>`, where `F` is `repr(C)` and its first field is a `Fid`.
pub unsafe trait Object: Sized + Send + Sync {
    /// Its class, as libfabric numbers it.
    const CLASS: usize;

    /// How many others use it.
    fn users(&self) -> &Users;

    /// C has closed it: it releases everything that it holds or is registered with.
    fn closed(&self) {}
}

/// How many objects use another one.
#[derive(Default)]
pub struct Users(AtomicUsize);

impl Users {
    /// Whether any does.
    pub fn are_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Another object in use: it cannot be closed meanwhile.
pub struct Held<T: Object>(Arc<T>);

impl<T: Object> Held<T> {
    pub fn new(object: Arc<T>) -> Held<T> {
        object.users().0.fetch_add(1, Ordering::AcqRel);
        Held(object)
    }

    /// Whether it is the same object.
    pub fn is(&self, other: &Arc<T>) -> bool {
        Arc::ptr_eq(&self.0, other)
    }

    /// The object itself, without the claim.
    pub fn shared(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Object> Drop for Held<T> {
    fn drop(&mut self) {
        self.0.users().0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<T: Object> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The beginning of an object of class `T`.
pub fn fid<T: Object>(context: *mut c_void, ops: &'static FidOps) -> Fid {
    Fid {
        class: T::CLASS,
        context,
        ops,
    }
}

/// Gives an object to C.
///
/// # Safety
/// The place is null, or memory for a pointer that nobody else uses now; `F` is the type of the object's face.
pub unsafe fn give<T: Object, F>(place: *mut *mut F, object: Arc<T>) -> Outcome<()> {
    if place.is_null() {
        return Err(errors::INVAL);
    }
    let pointer = Arc::into_raw(object).cast_mut().cast();
    // SAFETY: as above.
    unsafe { place.write(pointer) };
    Ok(())
}

/// The object that C speaks of.
///
/// # Safety
/// The pointer is null, or to an object that was [given](give) and is not closed for `'a`.
pub unsafe fn object<'a, T: Object>(face: *const c_void) -> Outcome<&'a T> {
    let fid = face.cast::<Fid>();
    // SAFETY: every object begins with a `Fid`.
    if fid.is_null() || unsafe { (*fid).class } != T::CLASS {
        return Err(errors::INVAL);
    }
    // SAFETY: an object of this class is a `T`, see [`Object`], and lives for `'a`.
    Ok(unsafe { &*face.cast() })
}

/// One more reference to it.
///
/// # Safety
/// As [`object`].
pub unsafe fn shared<T: Object>(face: *const c_void) -> Outcome<Arc<T>> {
    // SAFETY: as above.
    let object: *const T = unsafe { object::<T>(face) }?;
    // SAFETY: `give` made the pointer from an Arc, and C still has that reference.
    unsafe {
        Arc::increment_strong_count(object);
        Ok(Arc::from_raw(object))
    }
}

/// `ops->close`: takes C's reference back, unless something uses the object.
///
/// # Safety
/// As [`object`], and C does not use the pointer any more if this returns 0.
pub unsafe extern "C" fn close<T: Object>(fid: *mut Fid) -> c_int {
    guard::status(|| {
        // SAFETY: as above.
        let object: &T = unsafe { object(fid.cast()) }?;
        if object.users().are_any() {
            return Err(errors::BUSY);
        }
        object.closed();
        // SAFETY: C has handed the object over. If C closes it twice, its class is gone, as long as the memory is not
        // used for something else.
        unsafe {
            (*fid).class = 0;
            drop(Arc::from_raw(fid.cast_const().cast::<T>()));
        }
        Ok(())
    })
}
