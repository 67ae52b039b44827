/* Random tiles of every kernel variant: those that the check accepts give what the interpreter gives, each as one region, and the others
 * are refused with a reason before anything is generated.  `fuzz_tiles` (tests/fuzz) goes on for as long as wanted. */
#include "tests/unit/kernels_tiles.h"

#include "runtime/device/device.h"

#include <criterion/criterion.h>

enum { TILES = 3, WHOLE = 250, SHARES = 4 };

static void
check_share(uint32_t share, uint32_t n)
{
    const int failures = tile_check_cases(share, SHARES, n, "nvidia-hopper");
    if (failures < 0)
        cr_skip_test("no device");
    cr_expect_eq(failures, 0, "%d failures", failures);
}

#define SHARE(i)                                  \
    Test(tiles, share_##i, .timeout = 1500)       \
    {                                             \
        check_share(i, TILES);                    \
    }                                             \
    Test(tiles_whole, share_##i, .timeout = 3000) \
    {                                             \
        check_share(i, WHOLE);                    \
    }

SHARE(0)
SHARE(1)
SHARE(2)
SHARE(3)
