/* A library that holds memory: a planted regression for `scripts/bench compare`.
 *
 *   LD_PRELOAD=held.so HELD_MIB=24 PROGRAM…
 *
 * Maps HELD_MIB MiB when the program starts, and writes to each of its pages, so that they are private memory of
 * the program for as long as it runs. Ends the program where it cannot: a regression that is not planted would
 * not be found. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

__attribute__((constructor)) static void hold(void) {
    const char *mib = getenv("HELD_MIB");
    size_t bytes = mib ? strtoul(mib, NULL, 10) << 20 : 0;
    if (bytes == 0)
        abort();
    void *held = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED)
        abort();
    memset(held, 1, bytes);
}
