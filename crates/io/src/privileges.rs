//! Dropping the privileges that a daemon started by root does not need.

use std::io;

use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::users;

/// The capabilities that the daemon keeps, if it has them: for the virtual NIC and large socket buffers; for its far end's
/// packet socket; for the cluster file at a reload, which may be root's alone; for ports of root's programs.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// From now on this thread, and all threads and programs that it starts, have only what the daemon needs: at most four
/// capabilities (capabilities(7)), no new privileges (`PR_SET_NO_NEW_PRIVS`), and no memory that another process of the user
/// may read (`PR_SET_DUMPABLE`). Call it while there is no other thread: those keep what they have.
///
/// Root becomes the user `user`, if the machine has one; `hand_over` gives that user, by its number, what it must own. Returns
/// that number if so.
///
/// # Errors
/// The system refuses any of it. Everything else is dropped.
pub fn give_up(
    user: &str,
    hand_over: impl FnOnce(u32) -> io::Result<()>,
) -> io::Result<Option<u32>> {
    set_no_new_privs(true)?;
    let other = if geteuid().is_root() {
        forbid_others();
        users::user(user)?
    } else {
        None
    };
    if let Some((uid, gid)) = other {
        hand_over(uid)?;
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_keep_capabilities(true)?;
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        set_keep_capabilities(false)?;
    }
    let kept = capabilities(None)?.permitted & KEPT;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: kept,
    };
    set(sets)?;
    clear_ambient_capability_set()?;
    for capability in kept.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    // Last: changing users has set it anew.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(other.map(|(uid, _)| uid))
}

/// From now on this thread, and all threads and programs that it starts, have no other capabilities than those that help to
/// replace a file of somebody else by one of the same owner and mode. The user stays who it is.
///
/// # Errors
/// The system refuses it, as a service manager may have told it to.
pub fn keep_files_only() -> io::Result<()> {
    set_no_new_privs(true)?;
    let files = CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
    let kept = capabilities(None)?.permitted & files;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set(sets)?;
    clear_ambient_capability_set()?;
    Ok(())
}

/// Sets the capabilities, unless they are these already: a service manager that has seen to it may forbid the call (our unit
/// does, by `~@privileged`).
fn set(sets: CapabilitySets) -> io::Result<()> {
    if capabilities(None)? != sets {
        set_capabilities(None, sets)?;
    }
    Ok(())
}

/// Puts the other capabilities out of reach of programs that this one may start. A process that may not do so has none to
/// lose.
fn forbid_others() {
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated::isolated;

    /// In a process of its own: the dropped privileges are gone for good, and a process that cannot be dumped makes no user
    /// namespaces for other tests.
    #[test]
    fn no_more_than_four_capabilities_are_left() {
        let name = "privileges::tests::no_more_than_four_capabilities_are_left";
        isolated(name, || {
            let before = capabilities(None).unwrap();
            assert_eq!(give_up("there-is-no-such-user", |_| Ok(())).unwrap(), None);
            let after = capabilities(None).unwrap();
            assert_eq!(after.permitted, before.permitted & KEPT);
            assert_eq!(after.effective, after.permitted);
            assert_eq!(after.inheritable, after.permitted);
            assert!(rustix::thread::no_new_privs().unwrap());
        });
    }
}
