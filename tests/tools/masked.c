/* Masks of drawings that begin with a picture.
 *
 *   masked make FILE WIDTH HEIGHT LEFT TOP RIGHT BOTTOM    a PNG file that is transparent in this rectangle
 *   masked compare GIVEN DRAWN MASK                        three pictures of one size: is every pixel of DRAWN that is of GIVEN where MASK
 *                                                          is opaque, and are at least half of the others not? */
#include "media/picture/picture.h"
#include "media/picture/picture_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
must(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(2);
}

static dop_picture
read_picture(const char *path, bool alpha)
{
    dop_diag diag = {0};
    dop_map map = {0};
    dop_picture p = {0};
    must(dop_map_open(path, &diag, &map), &diag);
    must((alpha ? dop_picture_decode_alpha : dop_picture_decode)(map.data, map.size, 0, NULL, &diag, &p), &diag);
    dop_map_close(&map);
    return p;
}

static int
make(char **args)
{
    uint32_t v[6];
    dop_diag diag = {0};
    dop_buf png = {0};
    for (int i = 0; i < 6; i++)
        v[i] = (uint32_t)strtoul(args[1 + i], NULL, 10);
    uint8_t *alpha = malloc((size_t)v[0] * v[1]);
    for (size_t i = 0; alpha && i < (size_t)v[0] * v[1]; i++)
        alpha[i] = i % v[0] >= v[2] && i / v[0] >= v[3] && i % v[0] < v[4] && i / v[0] < v[5] ? 0 : 255;
    must(alpha ? dop_picture_write_alpha_png(v[0], v[1], alpha, &diag, &png) : DOP_E_NOMEM, &diag);
    must(dop_write_file(args[0], png.data, png.size, &diag), &diag);
    dop_buf_finish(&png);
    free(alpha);
    return 0;
}

static int
compare(char **args)
{
    dop_picture given = read_picture(args[0], false), drawn = read_picture(args[1], false),
                mask = read_picture(args[2], true);
    const size_t n = (size_t)given.width * given.height;
    size_t kept = 0, changed = 0, others = 0;
    if (drawn.width != given.width || drawn.height != given.height || mask.width != given.width ||
        mask.height != given.height)
        return 2;
    for (size_t i = 0; i < n; i++) {
        const bool same = memcmp(given.rgb + 3 * i, drawn.rgb + 3 * i, 3) == 0;
        kept += mask.rgb[3 * i] != 0;
        changed += mask.rgb[3 * i] != 0 && !same;
        others += mask.rgb[3 * i] == 0 && !same;
    }
    printf("of %zu pixels that are kept %zu differ, of %zu that are drawn %zu\n", kept, changed, n - kept, others);
    dop_picture_finish(&given);
    dop_picture_finish(&drawn);
    dop_picture_finish(&mask);
    return changed > 0 || 2 * others < n - kept;
}

int
main(int argc, char **argv)
{
    if (argc == 9 && strcmp(argv[1], "make") == 0)
        return make(argv + 2);
    if (argc == 5 && strcmp(argv[1], "compare") == 0)
        return compare(argv + 2);
    fprintf(stderr, "usage: masked make FILE WIDTH HEIGHT LEFT TOP RIGHT BOTTOM, or masked compare GIVEN DRAWN MASK\n");
    return 2;
}
