//! What making network namespaces needs, and what to do where it is missing.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// CAP_SYS_ADMIN's bit in the capability sets of /proc/self/status.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// Makes an ordinary user root of a user namespace of its own, in which it may do to the network
/// what it likes. Whoever may do that anyway keeps what it has.
///
/// Only a process of one thread can do this, so it comes first in `main`.
///
/// # Errors
/// Where the kernel refuses, with the setting that would allow it.
pub fn become_root_of_a_user_namespace() -> anyhow::Result<()> {
    if has_cap_sys_admin() {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(refused).context("cannot make a user namespace")?;
    // An ordinary user may map its group only after it has given up setgroups(2).
    for (file, line) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        let path = Path::new("/proc/self").join(file);
        fs::write(&path, line)
            .with_context(|| format!("cannot write {}: {}", path.display(), advice()))?;
    }
    Ok(())
}

/// The kernel's refusal to make a namespace, with what to do about it.
pub(super) fn refused(error: Errno) -> anyhow::Error {
    if error == Errno::EINVAL {
        anyhow!(
            "{error}: the process already runs several threads, or the kernel has no such namespaces"
        )
    } else {
        anyhow!("{error}: {}", advice())
    }
}

fn has_cap_sys_admin() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .is_some_and(|set| set & CAP_SYS_ADMIN != 0)
    })
}

/// Which knob is turned against namespaces on this machine.
fn advice() -> String {
    let knob = |name: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(name)).map(|text| text.trim().to_owned())
    };
    let refusals = [
        ("user/max_user_namespaces", "0", "15000"),
        ("user/max_net_namespaces", "0", "15000"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    refusals
        .iter()
        .find(|(name, refusing, _)| knob(name).is_ok_and(|value| value == *refusing))
        .map_or_else(
            || {
                "run it as root, or under `unshare --user --map-root-user`; in a container as root \
                 with CAP_SYS_ADMIN and CAP_NET_ADMIN (for example docker run --privileged)"
                    .to_owned()
            },
            |(name, refusing, allowing)| {
                let name = name.replace('/', ".");
                format!(
                    "{name} is {refusing}: run `sysctl -w {name}={allowing}`, or run it as root"
                )
            },
        )
}
