//! Stable hash of 64 bits that never changes: `H` in cron texts and spread offsets are
//! drawn from it, so a new version of Punctual must return the same numbers.
//!
//! FNV-1a over the parts (each followed by its length, so that `ab`,`c` and
//! `a`,`bc` differ), finished by the mixing step of splitmix64, because the low
//! bits of FNV alone are poor under a modulus. Not for secrets or hash tables.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the stable hash of a list of byte strings.
pub fn stable_hash(parts: &[&[u8]]) -> u64 {
    let mut state = FNV_OFFSET;
    for part in parts {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        for byte in part.iter().chain(&length.to_le_bytes()) {
            state = (state ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }
    mix(state)
}

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::stable_hash;

    #[test]
    fn never_changes() {
        assert_eq!(stable_hash(&[]), 0xf52a_15e9_a9b5_e89b);
        assert_eq!(stable_hash(&[b""]), 0x813f_0174_a236_7c13);
        assert_eq!(stable_hash(&[b"nightly-report"]), 0x6bf4_5eb7_97b2_ed9e);
        assert_eq!(stable_hash(&[b"ab", b"c"]), 0xa5b1_eaaa_a6c9_e9f3);
        assert_eq!(stable_hash(&[b"a", b"bc"]), 0xade5_d413_24c7_4c4a);
    }

    #[test]
    fn spreads_evenly() {
        let mut minutes = [0_u32; 60];
        for key in 0..60_000_u32 {
            let hash = stable_hash(&[format!("job-{key}").as_bytes(), b"minute"]);
            minutes[usize::try_from(hash % 60).unwrap()] += 1;
        }
        assert!(minutes.iter().all(|count| (850..1_150).contains(count)), "{minutes:?}");
    }
}
