//! Memory and CPU of a process, the server's and the generator's own, as exactly as the kernel and the allocator tell.
