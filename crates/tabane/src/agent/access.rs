//! Who may use the daemon for `tabane run`: compares `[run]` of the cluster file with the kernel's word on who
//! connects.

use std::collections::BTreeSet;
use std::io;

use tabane_cluster::RunUsers;
use tabane_io::credentials::Credentials;
use tabane_io::users;

use super::rights::ROOT;

/// Who may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Every user.
    #[default]
    Everybody,
    /// Not even root.
    Nobody,
    /// Root, and these.
    Some {
        /// By number.
        users: BTreeSet<u32>,
        /// And the members of this group.
        group: Option<u32>,
    },
}

impl Access {
    /// As the cluster file has it, and what of it this machine does not know, in words: the file is the same on all
    /// nodes, and a user need not be on each.
    pub fn of(file: &RunUsers) -> (Access, Vec<String>) {
        let mut unknown = Vec::new();
        if file.off {
            return (Access::Nobody, unknown);
        }
        if file.users.is_none() && file.group.is_none() {
            return (Access::Everybody, unknown);
        }
        let mut known = |kind: &str, name: &str, looked_up: io::Result<Option<u32>>| {
            let number = name.parse().ok();
            let found = number.or(looked_up.ok().flatten());
            if found.is_none() {
                unknown.push(format!(
                    "`[run]` names the {kind} {name:?}, which this machine does not have"
                ));
            }
            found
        };
        let names = file.users.iter().flatten();
        let uid = |name: &str| users::user(name).map(|found| found.map(|(uid, _)| uid));
        let uids = names.filter_map(|name| known("user", name, uid(name)));
        let users = uids.collect();
        let name = file.group.as_deref();
        let group = name.and_then(|name| known("group", name, users::group(name)));
        (Access::Some { users, group }, unknown)
    }

    /// Whether this user may. `groups`: the groups of the connecting process besides the effective one.
    pub fn has(&self, who: Credentials, groups: impl FnOnce() -> Vec<u32>) -> bool {
        match self {
            Access::Everybody => true,
            Access::Nobody => false,
            Access::Some { users, group } => {
                who.uid == ROOT
                    || users.contains(&who.uid)
                    || group.is_some_and(|group| who.gid == group || groups().contains(&group))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn who(uid: u32, gid: u32) -> Credentials {
        Credentials { pid: 1, uid, gid }
    }

    #[test]
    fn everybody_may_if_the_file_does_not_say_and_nobody_if_it_says_off() {
        let off = RunUsers {
            off: true,
            users: Some(vec!["root".to_owned()]),
            group: None,
        };
        assert!(Access::of(&RunUsers::default()).0.has(who(7, 7), Vec::new));
        assert!(!Access::of(&off).0.has(who(ROOT, 0), Vec::new));
    }

    #[test]
    fn users_and_members_of_the_group_may_and_unknown_ones_are_told() {
        let file = RunUsers {
            off: false,
            users: Some(vec!["12345".to_owned(), "there-is-no-such-user".to_owned()]),
            group: Some("777".to_owned()),
        };
        let (access, unknown) = Access::of(&file);
        assert_eq!(unknown.len(), 1);
        assert!(unknown[0].contains("there-is-no-such-user"));
        for (uid, gid, groups, may) in [
            (ROOT, 0, vec![], true),
            (12_345, 1, vec![], true),
            (1, 777, vec![], true),
            (1, 1, vec![2, 777], true),
            (1, 1, vec![2], false),
        ] {
            assert_eq!(access.has(who(uid, gid), || groups), may, "{uid} {gid}");
        }
    }
}
