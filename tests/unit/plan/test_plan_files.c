/* Plans whose weights are in other files: a file beside the plan, and ranges of the model's own. */
#include "plan/plan_ranges.h"
#include "tests/unit/plan_builder.h"

#include "base/storage/types.h"
#include "plan/plan_weights.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct folder {
    char dir[32], plan[64], weights[64];
} folder;

static void
write_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, size, f), size);
    cr_assert_eq(fclose(f), 0);
}

/* A toy whose weights are a file beside it, with `name` in its row. */
static void
external_toy(folder *f, const char *name)
{
    plan_builder b;
    dop_buf file;
    strcpy(f->dir, "/tmp/doppler-test-XXXXXX");
    cr_assert(mkdtemp(f->dir));
    snprintf(f->plan, sizeof f->plan, "%s/toy.plan", f->dir);
    snprintf(f->weights, sizeof f->weights, "%s/toy.weights", f->dir);
    pb_toy(&b);
    dop_buf *w = &b.sections[DOP_SEC_WEIGHTS];
    dop_plan_file row = {.name = pb_string(&b, name), .size = w->size, .digest = dop_plan_digest(w->data, w->size)};
    PB_ROW(&b, FILES, row);
    write_bytes(f->weights, w->data, w->size);
    dop_buf_finish(w);
    PB_AT(&b, SLOTS, dop_plan_slot, 0)->file = 0;
    pb_build(&b, &file);
    write_bytes(f->plan, file.data, file.size);
    dop_buf_finish(&file);
    plan_builder_finish(&b);
}

static void
remove_folder(folder *f)
{
    unlink(f->plan);
    unlink(f->weights);
    cr_assert_eq(rmdir(f->dir), 0);
}

static void
expect_external(const folder *f, const char *want)
{
    dop_plan plan;
    dop_diag diag = {0};
    dop_status st = dop_plan_open(f->plan, &diag, &plan);
    if (st == DOP_OK) {
        st = dop_plan_verify_weights(&plan, NULL, &diag);
        dop_plan_close(&plan);
    }
    cr_assert_eq(st == DOP_OK, want == NULL, "%s", diag.message);
    if (want) {
        char all[2048];
        snprintf(all, sizeof all, "%s: %s", diag.path, diag.message);
        cr_assert(strstr(all, want), "\"%s\" does not say \"%s\"", all, want);
    }
}

Test(plan_files, external_weights)
{
    folder f;
    external_toy(&f, "toy.weights");
    expect_external(&f, NULL);
    dop_map map;
    cr_assert_eq(dop_map_open(f.weights, NULL, &map), DOP_OK);
    uint8_t *bytes = malloc((size_t)map.size);
    cr_assert(bytes);
    memcpy(bytes, map.data, (size_t)map.size);
    size_t size = map.size;
    dop_map_close(&map);
    bytes[100] ^= 1;
    write_bytes(f.weights, bytes, size);
    expect_external(&f, "the digest of the external weights toy.weights does not match");
    write_bytes(f.weights, bytes, size - 1);
    expect_external(&f, "16383 bytes where the plan expects 16384");
    unlink(f.weights);
    expect_external(&f, "toy.weights: cannot open");
    free(bytes);
    remove_folder(&f);
}

/* A toy of whose weights a file of the model has the second 4096 bytes. */
static void
ranged_toy(folder *f, void (*change)(dop_plan_range *r, dop_plan_file *file))
{
    plan_builder b;
    dop_buf file, own = {0};
    strcpy(f->dir, "/tmp/doppler-test-XXXXXX");
    cr_assert(mkdtemp(f->dir));
    snprintf(f->plan, sizeof f->plan, "%s/toy.plan", f->dir);
    snprintf(f->weights, sizeof f->weights, "%s/toy.gguf", f->dir);
    pb_toy(&b);
    dop_buf *w = &b.sections[DOP_SEC_WEIGHTS];
    dop_plan_file row = {.name = pb_string(&b, f->weights), .model = 1, .size = 4100};
    dop_plan_range range = {
        .offset = 4096, .size = 4096, .file_offset = 4, .digest = dop_plan_digest(w->data + 4096, 4096)};
    uint8_t bytes[4100] = {1, 2, 3, 4};
    memcpy(bytes + 4, w->data + 4096, 4096);
    write_bytes(f->weights, bytes, sizeof bytes);
    dop_buf_append(&own, w->data, 4096);
    dop_buf_append(&own, w->data + 8192, w->size - 8192);
    dop_buf_finish(w);
    *w = own;
    dop_buf_finish(&b.sections[DOP_SEC_TENSORS]); /* the toy's tensor is larger than the range */
    if (change)
        change(&range, &row);
    PB_ROW(&b, FILES, row);
    PB_ROW(&b, RANGES, range);
    pb_build(&b, &file);
    write_bytes(f->plan, file.data, file.size);
    dop_buf_finish(&file);
    plan_builder_finish(&b);
}

Test(plan_files, weights_in_a_file_of_the_model)
{
    folder f;
    dop_plan plan;
    dop_diag diag = {0};
    uint8_t copy[16384];
    ranged_toy(&f, NULL);
    cr_assert_eq(dop_plan_open(f.plan, &diag, &plan), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_plan_verify_weights(&plan, NULL, &diag), DOP_OK, "%s", diag.message);
    dop_plan_copy_slot(&plan, 0, 0, sizeof copy, copy);
    for (uint32_t i = 0; i < sizeof copy / 4; i++) {
        float v;
        uint64_t left;
        memcpy(&v, copy + 4 * (size_t)i, sizeof v);
        cr_assert_float_eq(v, toy_weight(i / 64, i % 64), 0);
        cr_assert_eq(memcmp(dop_plan_slot_bytes(&plan, 0, 4 * (uint64_t)i, &left), copy + 4 * (size_t)i, 4), 0);
        cr_assert_eq(left, (i < 1024 ? 4096u : i < 2048 ? 8192u : 16384u) - 4u * i);
    }
    dop_plan_close(&plan);
    uint8_t other[4100] = {0};
    write_bytes(f.weights, other, sizeof other);
    expect_external(&f, "toy.gguf, which has weights of this plan, was changed: compile the plan again");
    write_bytes(f.weights, other, sizeof other - 1);
    expect_external(&f, "toy.gguf, which has weights of this plan, was changed: compile the plan again");
    unlink(f.weights);
    expect_external(&f, "toy.gguf, which has weights of this plan, is gone");
    write_bytes(f.weights, other, sizeof other);
    remove_folder(&f);
}

static void
range_of_no_slot(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->slot = 2;
}

static void
range_behind_file(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->file_offset = 5;
}

static void
range_out_of_order(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->before = 1;
}

static void
range_too_short(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->size = 4000;
}

static void
range_of_floats_in_blocks(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->blocks = 1;
}

static void
units_of_another_size(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->what = DOP_RANGE_UNITS;
    r->type = DOP_TYPE_q8_0;
    r->blocks = 4096 / 32 - 1;
}

static void
units_behind_file(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->what = DOP_RANGE_UNITS;
    r->type = DOP_TYPE_q8_0;
    r->blocks = 4096 / 32; /* of 34 bytes */
}

static void
units_of_no_type(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->what = DOP_RANGE_UNITS;
    r->type = DOP_TYPE_COUNT;
    r->blocks = 1;
}

static void
units_beyond_numbers(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->what = DOP_RANGE_UNITS;
    r->type = DOP_TYPE_q8_0;
    r->blocks = UINT64_MAX / 34 + 2;
}

static void
groups_without_units(dop_plan_range *r, dop_plan_file *file)
{
    (void)file;
    r->what = DOP_RANGE_GROUPS;
    r->type = DOP_TYPE_q8_0;
    r->blocks = 4096 / 64 * 32;
}

static void
name_is_relative(dop_plan_range *r, dop_plan_file *file)
{
    (void)r;
    file->name = 1;
}

Test(plan_files, hostile_ranges)
{
    static const struct {
        void (*change)(dop_plan_range *r, dop_plan_file *file);
        const char *want;
    } cases[] = {{range_of_no_slot, "range 0 is of slot 2 and file 0"},
                 {range_behind_file, "range 0 leaves slot 0 or file 0"},
                 {range_out_of_order, "range 0 is not in order"},
                 {range_too_short, "slot 0 reads past the end of the weights"},
                 {range_of_floats_in_blocks, "range 0 is no plane of a matrix"},
                 {units_of_another_size, "range 0 is no plane of a matrix"},
                 {units_behind_file, "range 0 leaves slot 0 or file 0"},
                 {units_of_no_type, "range 0 is no plane of a matrix"},
                 {units_beyond_numbers, "range 0 is no plane of a matrix"},
                 {groups_without_units, "range 0 is no plane of a matrix"},
                 {name_is_relative, "not an absolute path"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f;
        ranged_toy(&f, cases[i].change);
        expect_external(&f, cases[i].want);
        remove_folder(&f);
    }
}

Test(plan_files, external_weights_stay_in_the_folder)
{
    static const char *const names[] = {"/etc/passwd", "../toy.weights", "", "a/../../b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        folder f;
        external_toy(&f, names[i]);
        expect_external(&f, "not a name inside the plan's directory");
        remove_folder(&f);
    }
}

Test(plan_files, files_that_are_no_plans)
{
    dop_plan plan;
    dop_diag diag = {0};
    cr_assert_eq(dop_plan_open("/nonexistent.plan", &diag, &plan), DOP_E_IO);
    cr_assert(strstr(diag.message, "cannot open"));
    memset(&diag, 0, sizeof diag);
    cr_assert_eq(dop_plan_open("/tmp", &diag, &plan), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "this is a folder, not a plan"));
    memset(&diag, 0, sizeof diag);
    cr_assert_eq(dop_plan_open(DOP_SOURCE_DIR "/CMakeLists.txt", &diag, &plan), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "not a Doppler plan"));
    dop_plan_close(&plan);
}

/* The writer's digest of weights in portions of any size is the reader's by pieces. */
