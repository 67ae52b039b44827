/* Pictures: every kind equal to Pillow's pixels (tests/pictures/pictures.txt), damaged and huge ones refused with
 * one line. */
#include "media/picture/picture.h"

#include "tests/unit/picture_util.h"

static dop_status
decode(const dop_map *map, uint64_t size, uint64_t max_pixels, dop_budget *budget, dop_diag *diag, dop_picture *out)
{
    *diag = (dop_diag){0};
    return dop_picture_decode(map->data, size, max_pixels, budget, diag, out);
}

/* One line for a terminal. */
static void
check_refused(dop_status st, dop_status want, const dop_diag *diag, const dop_picture *p, const char *what)
{
    cr_assert_eq(st, want, "%s: %d: %s", what, st, diag->message);
    cr_assert_null(p->rgb);
    cr_assert(diag->message[0] && !strchr(diag->message, '\n'), "%s: \"%s\"", what, diag->message);
}

Test(picture, equals_pillow)
{
    FILE *table = fopen(PICTURES "/pictures.txt", "r");
    cr_assert(table);
    char name[64];
    uint32_t w, h, n = 0;
    unsigned long long want;
    for (; fscanf(table, "%63s %u %u %llx", name, &w, &h, &want) == 4; n++) {
        dop_diag diag = {0};
        dop_budget budget = DOP_BUDGET_UNLIMITED;
        budget.bytes = 1 << 20;
        dop_picture p = picture_read(name, &budget);
        cr_expect(p.width == w && p.height == h, "%s: %u x %u", name, p.width, p.height);
        cr_expect_eq(bytes_hash(p.rgb, (size_t)p.width * p.height * 3), want, "%s: other pixels", name);
        cr_expect_eq(budget.bytes, (1 << 20) - (uint64_t)w * h * 3, "%s: %llu bytes left", name,
                     (unsigned long long)budget.bytes);
        cr_expect_eq(diag.code, DOP_OK);
        dop_picture_finish(&p);
    }
    fclose(table);
    cr_assert_gt(n, 30);
}

/* The opacity of pixels; hashes of what an independent decoder of PNG gives for rgba.png, la.png, interlaced.png (turned: exif6.png). */
Test(picture, alpha)
{
    static const struct {
        const char *name;
        uint64_t hash; /* of one byte for each pixel */
        uint32_t transparent;
    } cases[] = {{"rgba.png", 0xcfdc074b36c6a672, 1},         {"la.png", 0xcfdc074b36c6a672, 1},
                 {"interlaced.png", 0xcfdc074b36c6a672, 1},   {"alpha.webp", 0xcfdc074b36c6a672, 1},
                 {"exif6.png", 0xf390989dadfd2bf2, 1},        {"palette4.png", 0x83cbda8ed3c35069, 25},
                 {"transparent.gif", 0x90a487ec5037bd25, 27}, {"rgb.png", 0x310aefce90b76330, 0},
                 {"small.gif", 0xdb58bd7933b78305, 0},        {"lossy.webp", 0x310aefce90b76330, 0},
                 {"cmyk.jpg", 0x310aefce90b76330, 0},         {"gray1.png", 0x310aefce90b76330, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_map map = picture_map(cases[i].name);
        dop_diag diag = {0};
        dop_picture p;
        dop_budget budget = {.steps = UINT64_MAX, .bytes = 1 << 20};
        cr_assert_eq(dop_picture_decode_alpha(map.data, map.size, 0, &budget, &diag, &p), DOP_OK, "%s", diag.message);
        const size_t n = (size_t)p.width * p.height;
        uint8_t alpha[32 * 21];
        uint32_t transparent = 0;
        cr_assert_leq(n, sizeof alpha);
        for (size_t k = 0; k < n; k++) {
            alpha[k] = p.rgb[3 * k];
            transparent += alpha[k] == 0;
            cr_expect(p.rgb[3 * k + 1] == alpha[k] && p.rgb[3 * k + 2] == alpha[k]);
        }
        cr_expect_eq(bytes_hash(alpha, n), cases[i].hash, "%s: another opacity", cases[i].name);
        cr_expect_eq(transparent, cases[i].transparent, "%s: %u transparent", cases[i].name, transparent);
        cr_expect_eq(budget.bytes, (1 << 20) - n * 3, "%s", cases[i].name);
        dop_picture_finish(&p);
        dop_map_close(&map);
    }
}

/* Cut off anywhere: never pixels that are made up.  What stands behind the last row may be missing. */
Test(picture, cut_off)
{
    static const char *const names[] = {"rgb.png",     "interlaced.png", "baseline.jpg",  "progressive.jpg",
                                        "cmyk.jpg",    "lossy.webp",     "lossless.webp", "animated.webp",
                                        "palette.gif", "animated.gif"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dop_map map = picture_map(names[i]);
        dop_picture whole = picture_read(names[i], NULL), p;
        dop_diag diag;
        const size_t bytes = (size_t)whole.width * whole.height * 3;
        uint32_t refused = 0;
        for (uint64_t n = 0; n < map.size; n++) {
            dop_budget budget = {.steps = UINT64_MAX, .bytes = 1 << 20};
            const dop_status st = decode(&map, n, 0, &budget, &diag, &p);
            refused += st != DOP_OK;
            if (st != DOP_OK) {
                check_refused(st, DOP_E_INPUT, &diag, &p, names[i]);
                cr_assert_eq(budget.bytes, 1 << 20, "%s of %llu bytes: %llu left", names[i], (unsigned long long)n,
                             (unsigned long long)budget.bytes);
            } else {
                cr_assert(memcmp(p.rgb, whole.rgb, bytes) == 0, "%s of %llu bytes", names[i], (unsigned long long)n);
                dop_picture_finish(&p);
            }
        }
        cr_assert_gt(refused, 200, "%s", names[i]);
        dop_picture_finish(&whole);
        dop_map_close(&map);
    }
}

Test(picture, other_kinds)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *message;
    } cases[] = {{"", 0, "the picture is empty"},
                 {"BM\0\0\0\0", 6, "the picture is a BMP file: PNG, JPEG, WebP and GIF are read"},
                 {"II*\0\10\0\0\0", 8, "the picture is a TIFF file: PNG, JPEG, WebP and GIF are read"},
                 {"\0\0\0\x20"
                  "ftypavif",
                  12, "the picture is an AVIF file: PNG, JPEG, WebP and GIF are read"},
                 {"\0\0\0\x20"
                  "ftypheic",
                  12, "the picture is a HEIC file: PNG, JPEG, WebP and GIF are read"},
                 {"<svg xmlns=", 11, "the picture is an SVG file: PNG, JPEG, WebP and GIF are read"},
                 {"<!DOCTYPE html>", 15, "the picture is markup (XML or HTML): PNG, JPEG, WebP and GIF are read"},
                 {"not found", 9, "this is no picture of a known kind: PNG, JPEG, WebP and GIF are read"},
                 {"RIFF\4\0\0\0WEBP", 12, "the picture is a damaged WebP: its blocks do not fit together"},
                 {"GIF89a\1\0\1\0\0\0\0;", 14, "the picture is a damaged GIF: it has no frame"},
                 {"\x89PNG\r\n\x1a\n", 8, "the picture is a damaged PNG: it ends too early"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_diag diag = {0};
        dop_picture p;
        cr_assert_eq(dop_picture_decode(cases[i].bytes, cases[i].n, 0, NULL, &diag, &p), DOP_E_INPUT);
        cr_assert_str_eq(diag.message, cases[i].message);
    }
}

/* A size that a header states is refused before memory is taken for it. */
Test(picture, huge)
{
    static const char png[] = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"
                              "\x49\x48\x44\x52\x00\x00\x75\x30\x00\x00\x75\x30\x08\x02\x00\x00\x00\xe9\x45\x6f\xed"
                              "\x00\x00\x00\x00\x49\x44\x41\x54\x35\xaf\x06\x1e";
    static const char gif[] = "GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\1\0\1\0\0\2\2L\1\0;";
    dop_budget budget = {.steps = UINT64_MAX, .bytes = 1 << 20};
    dop_diag diag = {0};
    dop_picture p;
    check_refused(dop_picture_decode(gif, sizeof gif - 1, 0, &budget, &diag, &p), DOP_E_LIMIT, &diag, &p, "gif");
    cr_assert_str_eq(
        diag.message,
        "the picture has 65535 x 65535 pixels, more than the 33554432 (and 32767 to an edge) that are allowed");
    diag = (dop_diag){0};
    check_refused(dop_picture_decode(png, sizeof png - 1, 0, &budget, &diag, &p), DOP_E_LIMIT, &diag, &p, "png");
    dop_map map = picture_map("rgba.png");
    check_refused(decode(&map, map.size, 390, NULL, &diag, &p), DOP_E_LIMIT, &diag, &p, "23 x 17 of 390");
    cr_assert_str_eq(diag.message,
                     "the picture has 23 x 17 pixels, more than the 390 (and 32767 to an edge) that are allowed");
    cr_assert_eq(decode(&map, map.size, 391, NULL, &diag, &p), DOP_OK);
    dop_picture_finish(&p);
    budget = (dop_budget){.steps = UINT64_MAX, .bytes = 1000};
    check_refused(decode(&map, map.size, 0, &budget, &diag, &p), DOP_E_LIMIT, &diag, &p, "1000 bytes");
    cr_assert_str_eq(diag.message, "decoding the picture takes too much memory");
    budget = (dop_budget){.steps = 100, .bytes = UINT64_MAX};
    check_refused(decode(&map, map.size, 0, &budget, &diag, &p), DOP_E_LIMIT, &diag, &p, "100 steps");
    dop_map_close(&map);
}

/* Every byte changed once: decoded to something, or refused with one line. */
Test(picture, damaged)
{
    static const char *const names[] = {"palette4.png", "gray.jpg", "exif8.webp", "transparent.gif", "small.gif"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dop_map map = picture_map(names[i]);
        uint8_t *bytes = malloc(map.size);
        for (uint64_t at = 0; at < map.size; at++) {
            dop_diag diag = {0};
            dop_picture p;
            memcpy(bytes, map.data, map.size);
            bytes[at] ^= 0x55;
            const dop_status st = dop_picture_decode(bytes, map.size, 1 << 16, NULL, &diag, &p);
            if (st != DOP_OK)
                check_refused(st, st == DOP_E_LIMIT ? DOP_E_LIMIT : DOP_E_INPUT, &diag, &p, names[i]);
            dop_picture_finish(&p);
        }
        free(bytes);
        dop_map_close(&map);
    }
}

/* Files of several frames are told from those of one by their structure, and cut off ones count as pictures. */
Test(picture, animated)
{
    static const char two[] =
        "GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2L\1\0!\xf9\4\0\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2L\1\0;";
    static const char apng[] = "\x89PNG\r\n\x1a\n\0\0\0\x08"
                               "acTL\0\0\0\2\0\0\0\0crc.";
    static const char webp[] = "RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\0\0\0\0\0\0";
    cr_assert(dop_picture_is_animated(two, sizeof two - 1));
    cr_assert_not(dop_picture_is_animated(two, 28));
    cr_assert(dop_picture_is_animated(apng, sizeof apng - 1));
    cr_assert(dop_picture_is_animated(webp, sizeof webp - 1));
    static const char *const names[] = {"palette4.png", "gray.jpg", "exif8.webp", "transparent.gif", "small.gif"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dop_map map = picture_map(names[i]);
        for (uint64_t n = 0; n <= map.size; n++)
            cr_assert_not(dop_picture_is_animated(map.data, n), "%s", names[i]);
        dop_map_close(&map);
    }
}
