//! How large frames are, and from which size on bytes are pointed at.

/// Bytes a frame is filled to. More than most receivers allow in one DATA frame; HTTP/2 splits it to
/// what the receiver allows, and every size allowed in practice divides it.
pub const TARGET_BYTES: usize = 256 * 1024;

/// Records smaller than this are copied, larger ones are pointed at.
pub const COPY_BELOW_BYTES: usize = 4 * 1024;
