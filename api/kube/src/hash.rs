//! FNV-1a with 64 bits: the hash of shard selectors (KEP-5866).

/// Returns the 64-bit FNV-1a hash of raw bytes.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    bytes.iter().fold(OFFSET_BASIS, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let vectors = [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("abc", 0xe71f_a219_0541_574b),
            ("default", 0xebad_a516_8620_c5fe),
            ("kube-system", 0xdf65_c7bc_1d82_b35e),
            ("test-uid-12345", 0xd4c5_3b72_f928_7c28),
            (
                "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
                0x9375_4b72_48a0_0eb9,
            ),
            (
                "eb30a43a-54b2-441a-8c42-3b7dec491d44",
                0x9e05_6817_9e1a_d354,
            ),
            (
                "00000000-0000-0000-0000-000000000000",
                0x7c38_4c62_18f2_99f1,
            ),
        ];
        for (input, hash) in vectors {
            assert_eq!(fnv1a_64(input.as_bytes()), hash, "{input:?}");
        }
    }
}
