//! The size of frames, and the size from which on records are referenced.

/// Size of a full frame, bytes. Most receivers allow less in one DATA frame; HTTP/2 then splits it,
/// and every size allowed in practice divides it.
pub const TARGET_BYTES: usize = 256 * 1024;

/// Records smaller than this are copied, larger ones referenced, bytes.
pub const COPY_BELOW_BYTES: usize = 4 * 1024;
