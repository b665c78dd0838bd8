//! Protection tags, and memory that descriptors may name and peers may reach.
//!
//! A peer reaches a region by its handle and by secrets of the tag, which it gets when it is connected to a VI of that tag: one
//! number for writing, another for reading, each only if the VI allows it. The sum is the region's key at the endpoint, so a
//! VI's rights are checked where the memory is.
//!
//! A VI without a tag (its handle is NULL) uses memory of every tag, and so does its peer: public programs give their memory a
//! tag, and their VIs none.

use tabane_rank::{Access, Core, Piece};

use crate::abi::{ERROR_RESOURCE, INVALID_PARAMETER, INVALID_PTAG, Outcome};
use crate::state::State;

/// The tag of objects without one.
pub const NO_TAG: u32 = 0;

/// Regions of a NIC at most.
pub const REGIONS_MAX: usize = 1 << 20;
/// Tags of a NIC at most.
pub const PTAGS_MAX: usize = 1 << 16;
/// Bytes of a region at most.
pub const REGION_BYTES_MAX: u64 = 1 << 40;

/// The state of a tag.
#[derive(Clone, Copy)]
pub struct Secrets {
    /// Leads to regions that may be written.
    pub write: u64,
    /// Leads to regions that may be read.
    pub read: u64,
    /// Regions and VIs of this tag.
    pub users: usize,
}

/// How others may use a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Its tag.
    pub ptag: u32,
    /// Peers may write.
    pub write: bool,
    /// Peers may read.
    pub read: bool,
}

/// Registered memory.
pub struct Region {
    /// Its first byte.
    pub base: usize,
    /// Its length in bytes.
    pub bytes: usize,
    /// How others may use it.
    pub rights: Rights,
    /// Descriptors that name it, and are not done.
    pub users: usize,
}

/// The key of a region, for holders of the secret.
pub const fn key(secret: u64, handle: u32) -> u64 {
    secret.wrapping_add(handle as u64)
}

/// An unpredictable number.
fn secret() -> Outcome<u64> {
    let seed = tabane_io::entropy::seed().map_err(|_| ERROR_RESOURCE)?;
    let mut word = [0; 8];
    word.copy_from_slice(&seed[..8]);
    Ok(u64::from_ne_bytes(word))
}

impl State {
    /// The secrets of a new, unused tag.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new_secrets() -> Outcome<Secrets> {
        Ok(Secrets {
            write: secret()?,
            read: secret()?,
            users: 0,
        })
    }

    /// A new protection tag.
    ///
    /// # Errors
    /// There are too many.
    pub fn create_ptag(&mut self) -> Outcome<u32> {
        if self.ptags.len() >= PTAGS_MAX {
            return Err(ERROR_RESOURCE);
        }
        let secrets = State::new_secrets()?;
        let id = self.new_id();
        self.ptags.insert(id, secrets);
        Ok(id)
    }

    /// Destroys a tag.
    ///
    /// # Errors
    /// It is in use, or there is none.
    pub fn destroy_ptag(&mut self, ptag: u32) -> Outcome<()> {
        match self.ptags.get(&ptag).map(|secrets| secrets.users) {
            None => Err(INVALID_PARAMETER),
            Some(0) => {
                self.ptags.remove(&ptag);
                Ok(())
            }
            Some(_) => Err(ERROR_RESOURCE),
        }
    }

    /// Something is of this tag, or no longer.
    pub fn use_ptag(&mut self, ptag: u32, more: bool) {
        if let Some(secrets) = self.ptags.get_mut(&ptag) {
            match more {
                true => secrets.users += 1,
                false => secrets.users -= 1,
            }
        }
    }

    /// Registers memory; returns its handle.
    ///
    /// # Errors
    /// There is no such tag, the memory is invalid, or there is too much of it.
    pub fn register(
        &mut self,
        core: &mut dyn Core,
        base: usize,
        bytes: u64,
        rights: Rights,
    ) -> Outcome<u32> {
        if base == 0 || bytes == 0 {
            return Err(INVALID_PARAMETER);
        }
        if self.regions.len() >= REGIONS_MAX || bytes > REGION_BYTES_MAX {
            return Err(ERROR_RESOURCE);
        }
        let bytes = usize::try_from(bytes).map_err(|_| ERROR_RESOURCE)?;
        base.checked_add(bytes).ok_or(INVALID_PARAMETER)?;
        let handle = self.new_id();
        let region = Region {
            base,
            bytes,
            rights,
            users: 0,
        };
        self.expose(core, handle, &region)?;
        self.use_ptag(rights.ptag, true);
        self.regions.insert(handle, region);
        Ok(handle)
    }

    /// The keys of a region, with their rights: for VIs of its tag, and for those without a tag.
    fn keys(&self, handle: u32, rights: Rights) -> Vec<(u64, Access)> {
        let mut keys = Vec::new();
        let mut tags = vec![rights.ptag, NO_TAG];
        tags.dedup();
        for secrets in tags.iter().filter_map(|tag| self.ptags.get(tag)) {
            for (is_allowed, secret, remote_read) in [
                (rights.write, secrets.write, false),
                (rights.read, secrets.read, true),
            ] {
                let access = Access {
                    remote_read,
                    remote_write: !remote_read,
                    is_told: false,
                };
                keys.extend(is_allowed.then_some((key(secret, handle), access)));
            }
        }
        keys
    }

    /// Lets others at a region, as far as its rights say.
    fn expose(&self, core: &mut dyn Core, handle: u32, region: &Region) -> Outcome<()> {
        let piece = Piece {
            base: core::ptr::with_exposed_provenance_mut(region.base),
            bytes: region.bytes,
        };
        let keys = self.keys(handle, region.rights);
        for (index, (key, access)) in keys.iter().enumerate() {
            // SAFETY: the program has lent the memory until it deregisters it.
            let registered = unsafe { core.register(*key, piece, *access, region.base as u64) };
            if registered.is_err() {
                for (key, _) in &keys[..index] {
                    core.deregister(*key);
                }
                return Err(ERROR_RESOURCE);
            }
        }
        Ok(())
    }

    /// Ends all access to a region.
    fn hide(&self, core: &mut dyn Core, handle: u32, rights: Rights) {
        for (key, _) in self.keys(handle, rights) {
            core.deregister(key);
        }
    }

    /// The region with this handle that contains this address.
    ///
    /// # Errors
    /// There is none.
    pub fn region_at(&self, handle: u32, base: usize) -> Outcome<&Region> {
        let region = self.regions.get(&handle).ok_or(INVALID_PARAMETER)?;
        let offset = base.checked_sub(region.base);
        match offset.is_some_and(|offset| offset < region.bytes) {
            true => Ok(region),
            false => Err(INVALID_PARAMETER),
        }
    }

    /// Takes memory back from the NIC.
    ///
    /// # Errors
    /// There is no such region, or descriptors that are not done name it.
    pub fn deregister(&mut self, core: &mut dyn Core, handle: u32, base: usize) -> Outcome<()> {
        let region = self.region_at(handle, base)?;
        let (users, rights) = (region.users, region.rights);
        if users > 0 {
            return Err(ERROR_RESOURCE);
        }
        self.hide(core, handle, rights);
        self.regions.remove(&handle);
        self.use_ptag(rights.ptag, false);
        Ok(())
    }

    /// Changes who may use a region.
    ///
    /// # Errors
    /// There is no such region or tag, or descriptors that are not done name it.
    pub fn set_rights(
        &mut self,
        core: &mut dyn Core,
        handle: u32,
        base: usize,
        rights: Rights,
    ) -> Outcome<()> {
        let region = self.region_at(handle, base)?;
        let before = region.rights;
        if !self.ptags.contains_key(&rights.ptag) {
            return Err(INVALID_PTAG);
        }
        if region.users > 0 {
            return Err(ERROR_RESOURCE);
        }
        self.hide(core, handle, before);
        let changed = Region { rights, ..*region };
        let exposed = self.expose(core, handle, &changed);
        if exposed.is_err()
            && let Some(region) = self.regions.get(&handle)
        {
            // As it was: there was room for that.
            let _ = self.expose(core, handle, region);
            return exposed;
        }
        self.use_ptag(before.ptag, false);
        self.use_ptag(rights.ptag, true);
        self.regions.insert(handle, changed);
        Ok(())
    }

    /// Whether a descriptor of a VI with this tag may name this range.
    pub fn covers(&self, handle: u32, ptag: u32, at: u64, bytes: u64) -> bool {
        self.regions.get(&handle).is_some_and(|region| {
            let offset = at.checked_sub(region.base as u64);
            let end = offset.and_then(|offset| offset.checked_add(bytes));
            let is_right = ptag == NO_TAG || region.rights.ptag == ptag;
            is_right && end.is_some_and(|end| end <= region.bytes as u64)
        })
    }
}
