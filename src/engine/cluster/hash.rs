//! A hash that is the same in every build and on every machine: what the leader before this one
//! chose by it, this one chooses too.

/// FNV-1a over the parts, each closed by an octet that no UTF-8 text contains, then stirred so
/// that every bit depends on every octet (MurmurHash3's finish).
pub(super) fn stable_hash(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for octet in parts.iter().flat_map(|part| part.iter().chain(&[0xff])) {
        hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_changes_and_keeps_parts_apart() {
        // Computed by another program; another value would move every VRID of every cluster.
        assert_eq!(stable_hash(&[b"cluster", b"web-v4-0"]), 0x35f1_2d81_098c_81ff);
        assert_ne!(stable_hash(&[b"ab", b"c"]), stable_hash(&[b"a", b"bc"]));
    }
}
