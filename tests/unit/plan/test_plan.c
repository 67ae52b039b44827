/* The plan loader: a good plan, a damaged one, a hostile one whose digests are right. */
#include "plan/disasm.h"
#include "plan/plan_names.h"
#include "plan/plan_ranges.h"
#include "tests/unit/plan_builder.h"

#include "plan/plan_weights.h"
#include "runtime/device/memory.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A copy whose alignment open_memory accepts, and that sanitizers see the end of. */
static uint8_t *
copy_of(const void *bytes, size_t size)
{
    uint8_t *p = aligned_alloc(16, dop_align_u64(size ? size : 1, 16));
    cr_assert(p);
    if (size)
        memcpy(p, bytes, size);
    return p;
}

static void
toy_file(dop_buf *out)
{
    plan_builder b;
    pb_toy(&b);
    pb_build(&b, out);
    plan_builder_finish(&b);
}

Test(plan, opens_and_gives_its_rows)
{
    dop_buf file;
    dop_plan plan;
    dop_diag diag = {0};
    toy_file(&file);
    cr_assert_eq(dop_plan_open_memory(file.data, file.size, &diag, &plan), DOP_OK, "%s", diag.message);
    cr_assert_eq(plan.n_kernels, 3);
    cr_assert_eq(plan.n_slots, 4);
    cr_assert_eq(plan.n_schedules, 4);
    cr_assert_eq(plan.n_dispatches, 11);
    cr_assert_eq(plan.step_slot, 2);
    cr_assert_eq(plan.model->vocab, TOY_VOCAB);
    cr_assert_eq(plan.card_size, 2);
    cr_assert_str_eq(dop_plan_string(&plan, plan.model->name), "toy");
    cr_assert_str_eq(dop_plan_string(&plan, plan.tensors[0].name), "head");
    float w;
    uint64_t left;
    memcpy(&w, dop_plan_slot_bytes(&plan, 0, 4 * 65, &left), sizeof w);
    cr_assert_eq(left, plan.slots[0].size - 4 * 65);
    cr_assert_float_eq(w, toy_weight(1, 1), 0);
    cr_assert_eq(dop_plan_verify_weights(&plan, NULL, &diag), DOP_OK);
    dop_plan_close(&plan);
    dop_buf_finish(&file);
}

Test(plan, disassembly)
{
    dop_buf file, text = {0};
    dop_plan plan;
    toy_file(&file);
    cr_assert_eq(dop_plan_open_memory(file.data, file.size, NULL, &plan), DOP_OK);
    dop_plan_disasm(&plan, &text);
    cr_assert(strstr(text.data, "schedule 0 decode1 profile any dispatches 3 (body 1) barriers 2 greedy\n"), "%s",
              text.data);
    cr_assert(strstr(text.data, "| pick             toy_pick "), "%s", text.data);
    cr_assert(strstr(text.data, "step+0:82496"), "%s", text.data);
    dop_buf_finish(&text);
    dop_plan_close(&plan);
    dop_buf_finish(&file);
}

/* No byte of the file is outside of some check. */
Test(plan, every_changed_byte_is_noticed)
{
    dop_buf file;
    toy_file(&file);
    uint8_t *bytes = copy_of(file.data, file.size);
    size_t by_weights = 0;
    for (size_t i = 0; i < file.size; i++) {
        dop_plan plan;
        dop_diag diag = {0};
        bytes[i] ^= (uint8_t)(1u << (i % 8));
        dop_status st = dop_plan_open_memory(bytes, file.size, &diag, &plan);
        if (st == DOP_OK) {
            st = dop_plan_verify_weights(&plan, NULL, &diag);
            by_weights++;
            dop_plan_close(&plan);
        }
        cr_assert_eq(st, DOP_E_INPUT, "byte %zu changed and nobody noticed", i);
        cr_assert(diag.message[0] && !strchr(diag.message, '\n'));
        bytes[i] ^= (uint8_t)(1u << (i % 8));
    }
    cr_assert_eq(by_weights, 64 * 64 * 4);
    free(bytes);
    dop_buf_finish(&file);
}

Test(plan, every_truncation_is_noticed)
{
    dop_buf file;
    toy_file(&file);
    for (size_t n = 0; n < file.size; n += n < 1024 ? 1 : 97) {
        uint8_t *bytes = copy_of(file.data, n);
        dop_plan plan;
        dop_diag diag = {0};
        cr_assert_eq(dop_plan_open_memory(bytes, n, &diag, &plan), DOP_E_INPUT, "%zu bytes", n);
        cr_assert(strstr(diag.message, n < 8 ? "not a Doppler plan" : "truncated"), "%zu bytes: %s", n, diag.message);
        free(bytes);
    }
    dop_buf_finish(&file);
}

/* Opens changed bytes and expects one message. */
static void
expect_bytes(const uint8_t *bytes, size_t size, const char *want)
{
    dop_plan plan;
    dop_diag diag = {0};
    cr_assert_eq(dop_plan_open_memory(bytes, size, &diag, &plan), DOP_E_INPUT, "accepted; expected: %s", want);
    cr_assert(strstr(diag.message, want), "\"%s\" does not say \"%s\"", diag.message, want);
}

Test(plan, header_errors_have_their_own_message)
{
    dop_buf file;
    toy_file(&file);
    uint8_t *b = copy_of(file.data, file.size);
    dop_plan_header *h = (dop_plan_header *)(void *)b;
    dop_plan_section *s = (dop_plan_section *)(void *)(b + sizeof *h);

    h->magic[3] = 'x';
    expect_bytes(b, file.size, "not a Doppler plan");
    h->magic[3] = 'P';
    h->version = DOP_PLAN_VERSION + 1;
    char want[96];
    snprintf(want, sizeof want, "format version %u and this program reads version %u: compile it again",
             DOP_PLAN_VERSION + 1, DOP_PLAN_VERSION);
    expect_bytes(b, file.size, want);
    h->version = DOP_PLAN_VERSION;
    h->file_size--;
    expect_bytes(b, file.size, "where its header says");
    h->file_size += 2;
    expect_bytes(b, file.size, "truncated: ");
    h->file_size--;
    h->digest++;
    expect_bytes(b, file.size, "the digest of its header does not match");
    h->digest--;
    h->n_sections = 1000000;
    expect_bytes(b, file.size, "its section table does not fit (1000000 sections)");
    h->n_sections = 0;
    h->digest = dop_plan_header_digest(h, s, 0);
    expect_bytes(b, file.size, "padding at its end is not 0"); /* what was the table belongs to nobody */
    free(b);
    dop_buf_finish(&file);
}

/* Changes the section table (digests follow) and expects one message. */
#define EXPECT_TABLE(change, want)                                         \
    do {                                                                   \
        uint8_t *b = copy_of(file.data, file.size);                        \
        dop_plan_header *h = (dop_plan_header *)(void *)b;                 \
        dop_plan_section *s = (dop_plan_section *)(void *)(b + sizeof *h); \
        change;                                                            \
        h->digest = dop_plan_header_digest(h, s, h->n_sections);           \
        expect_bytes(b, file.size, want);                                  \
        free(b);                                                           \
    } while (0)

Test(plan, section_table_errors)
{
    dop_buf file;
    toy_file(&file);
    EXPECT_TABLE(s[1].kind = 30, "section kind 30 is not known");
    EXPECT_TABLE(s[1].kind = UINT32_MAX, "section kind 4294967295 is not known");
    EXPECT_TABLE(s[2].kind = DOP_SEC_STRINGS, "section STRINGS"); /* row size 1 fits: twice */
    EXPECT_TABLE(s[4].row_bytes = 20, "section PROFILES has rows of 20 bytes");
    EXPECT_TABLE(s[4].row_bytes = 0, "section PROFILES has rows of 0 bytes");
    EXPECT_TABLE(s[5].size -= 4, "section KERNELS has rows of");
    EXPECT_TABLE(s[3].offset = UINT64_MAX - 15, "leaves the file");
    EXPECT_TABLE(s[3].size = UINT64_MAX - 15, "leaves the file");
    EXPECT_TABLE(s[3].size = file.size, "leaves the file");
    EXPECT_TABLE(s[3].offset += 1, "is misaligned");
    EXPECT_TABLE(s[3].offset = s[2].offset, "overlaps");
    EXPECT_TABLE(s[0].digest++, "the digest of section STRINGS does not match");
    EXPECT_TABLE(s[6].digest++, "the digest of section SPIRV does not match");
    dop_buf_finish(&file);
}

/* Builds a changed toy and expects a message, or NULL for acceptance. */
static void
expect_rows(plan_builder *b, const char *want)
{
    dop_buf file;
    dop_plan plan;
    dop_diag diag = {0};
    pb_build(b, &file);
    dop_status st = dop_plan_open_memory(file.data, file.size, &diag, &plan);
    cr_assert_eq(st, want ? DOP_E_INPUT : DOP_OK, "expected \"%s\", got \"%s\"", want ? want : "acceptance",
                 diag.message);
    if (want)
        cr_assert(strstr(diag.message, want), "\"%s\" does not say \"%s\"", diag.message, want);
    else
        dop_plan_close(&plan);
    dop_buf_finish(&file);
}

#define EXPECT_ROW(name, type, row, field, value, want) \
    do {                                                \
        type *r = PB_AT(&b, name, type, row);           \
        type was = *r;                                  \
        r->field = (value);                             \
        expect_rows(&b, want);                          \
        *r = was;                                       \
    } while (0)

Test(plan, model_and_profile_rows)
{
    plan_builder b;
    pb_toy(&b);
    expect_rows(&b, NULL);
    EXPECT_ROW(MODEL, dop_plan_model, 0, vocab, 0, "vocabulary of 0 tokens");
    EXPECT_ROW(MODEL, dop_plan_model, 0, vocab, UINT32_MAX, "vocabulary of 4294967295 tokens");
    EXPECT_ROW(MODEL, dop_plan_model, 0, ctx, 0, "context of 0 positions");
    EXPECT_ROW(MODEL, dop_plan_model, 0, ctx, UINT32_MAX, "context of");
    EXPECT_ROW(MODEL, dop_plan_model, 0, page, 3, "0 pages of 3 positions");
    EXPECT_ROW(MODEL, dop_plan_model, 0, page, 4, "0 pages of 4 positions");
    EXPECT_ROW(MODEL, dop_plan_model, 0, n_pages, 7, "7 pages of 0 positions");
    EXPECT_ROW(MODEL, dop_plan_model, 0, bos_id, -2, "BOS id -2");
    EXPECT_ROW(MODEL, dop_plan_model, 0, bos_id, 64, "BOS id 64");
    EXPECT_ROW(MODEL, dop_plan_model, 0, n_end_ids, 17, "17 end ids");
    EXPECT_ROW(MODEL, dop_plan_model, 0, end_ids[0], 64, "end id 64");
    EXPECT_ROW(MODEL, dop_plan_model, 0, name, 1u << 30, "a string of the model row");
    EXPECT_ROW(MODEL, dop_plan_model, 0, kernel_path, UINT32_MAX, "a string of the model row");
    EXPECT_ROW(MODEL, dop_plan_model, 0, temperature, (float)(0.0 / 0.0 * 0), "sampling defaults are not numbers");
    /* the largest ids, and room for adapters at its limits */
    EXPECT_ROW(MODEL, dop_plan_model, 0, bos_id, TOY_VOCAB - 1, NULL);
    EXPECT_ROW(MODEL, dop_plan_model, 0, end_ids[0], TOY_VOCAB - 1, NULL);
    dop_plan_model *m = PB_AT(&b, MODEL, dop_plan_model, 0), none = *m;
    m->adapters = m->adapter_uses = 1;
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapter_rank, 0, "room for 1 adapters of rank 0");
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapter_rank, 1, "no factors of 1 adapters of rank 1");
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapter_rank, 512, "no factors of 1 adapters of rank 512");
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapter_rank, 513, "room for 1 adapters of rank 513");
    m->adapter_rank = 8;
    m->adapter_uses = DOP_PLAN_MAX_USES;
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapters, 64, "no factors of 64 adapters of rank 8");
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapters, 65, "room for 65 adapters of rank 8");
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapter_uses, DOP_PLAN_MAX_USES + 1, "room for 1 adapters of rank 8");
    EXPECT_ROW(MODEL, dop_plan_model, 0, adapter_uses, 0, "room for 1 adapters of rank 8");
    EXPECT_ROW(MODEL, dop_plan_model, 0, tied, 2, "room for 1 adapters of rank 8");
    EXPECT_ROW(MODEL, dop_plan_model, 0, tied, 1, "no factors of 1 adapters of rank 8");
    *m = none;
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, name, UINT32_MAX, "the name of profile 0");
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, subgroup, 12, "subgroup size of 12");
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, matrix, 0x1101010, "profile 0 has matrix units of shape 0x1101010");
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, chunks.tile, 0, "profile 0 has chunks of tiles of 0 tokens");
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, chunks.full, 1u << 31, "profile 0 has chunks of tiles of 128 tokens");
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, chunks.lack, 0, "profile 0 has chunks of tiles of 128 tokens");
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, max_workgroup, 1, "profile any says less than its kernel");
    PB_AT(&b, KERNELS, dop_plan_kernel, 0)->caps = 2;
    PB_AT(&b, KERNELS, dop_plan_kernel, 0)->shared_bytes = 100;
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, caps, 1, "profile any says less than its kernel");
    EXPECT_ROW(PROFILES, dop_plan_profile, 0, shared_bytes, 99, "profile any says less than its kernel");
    plan_builder_finish(&b);
}

Test(plan, kernel_rows)
{
    plan_builder b;
    pb_toy(&b);
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, name, UINT32_MAX, "a string of kernel 0");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 1, spirv_first, UINT32_MAX, "lie outside section SPIRV");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 1, spirv_words, UINT32_MAX, "lie outside section SPIRV");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 1, spirv_words, 0, "kernel toy_rows is not a SPIR-V module");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 1, spirv_first, 1, "kernel toy_rows is not a SPIR-V module");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, spirv_words, 40, "kernel toy_write is not a");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, local[0], 32, "its module has workgroups of 64 x 1 x 1, its row says 32");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, local[1], 0, "workgroup of 64 x 0 x 1");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, local[2], 4096, "262144 invocations");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, subgroup, 3, "subgroup size 3");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, rounding, 3, "rounding 3 is not known");
    EXPECT_ROW(KERNELS, dop_plan_kernel, 0, n_args, 3, "passes 2 arguments to kernel toy_write, which takes 3");
    plan_builder_finish(&b);
}

Test(plan, slot_and_argument_rows)
{
    plan_builder b;
    pb_toy(&b);
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, kind, 0, "slot 0 has kind 0");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, kind, 11, "slot 0 has kind 11");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, name, UINT32_MAX, "the name of slot 0");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, size, 0, "slot 0 has 0 bytes");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, size, UINT64_MAX, "slot 0 has 18446744073709551615 bytes");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, size, 64 * 64 * 4 + 1, "slot 0 reads past the end of the weights");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, file_offset, UINT64_MAX, "slot 0 reads past the end of the weights");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, file_offset, 1, "slot 0 reads past the end of the weights");
    EXPECT_ROW(SLOTS, dop_plan_slot, 0, file, 0, "slot 0 is in external file 0 of 0");
    EXPECT_ROW(SLOTS, dop_plan_slot, 1, kind, DOP_SLOT_STEP, "the step record has 512 bytes");
    EXPECT_ROW(SLOTS, dop_plan_slot, 2, size, sizeof(dop_step) + TOY_VOCAB / 8 + sizeof(dop_row_way) - 1,
               "the step record has 82535 bytes");
    EXPECT_ROW(SLOTS, dop_plan_slot, 2, kind, DOP_SLOT_SCRATCH, "no step record");
    EXPECT_ROW(SLOTS, dop_plan_slot, 1, state, 0, "slot 1 holds state of kind 0");
    EXPECT_ROW(SLOTS, dop_plan_slot, 1, state, 3, "slot 1 holds state of kind 3");
    EXPECT_ROW(SLOTS, dop_plan_slot, 2, state, 1, "slot 2 holds state of kind 1");
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, flags, 2, "dispatch 1 has flags 2");
    EXPECT_ROW(ARGS, dop_plan_arg, 3, slot, 4, "argument 3 is in slot 4 of 4");
    EXPECT_ROW(ARGS, dop_plan_arg, 3, value, UINT32_MAX, "the name of argument 3");
    EXPECT_ROW(ARGS, dop_plan_arg, 3, view, DOP_N_VIEWS + 1, "argument 3 () begins at byte");
    EXPECT_ROW(ARGS, dop_plan_arg, 3, view, DOP_VIEW_VALUE, "has a view, which kernel");
    EXPECT_ROW(ARGS, dop_plan_arg, 3, size, 513, "argument 3 () leaves its slot");
    EXPECT_ROW(ARGS, dop_plan_arg, 3, offset, UINT64_MAX - 511, "argument 3 () leaves its slot");
    uint32_t second = pb_slot(&b, DOP_SLOT_STEP, "step again", sizeof(dop_step));
    expect_rows(&b, "more than one step record");
    PB_AT(&b, SLOTS, dop_plan_slot, second)->kind = DOP_SLOT_SCRATCH;
    expect_rows(&b, NULL);
    plan_builder_finish(&b);
}

Test(plan, part_rows)
{
    plan_builder b;
    pb_toy(&b);
    const uint32_t n = (uint32_t)(b.sections[DOP_SEC_SCHEDULES].size / sizeof(dop_plan_schedule));
    const uint32_t sent = pb_slot(&b, DOP_SLOT_SENT, "sent", 64 * 32);
    PB_AT(&b, MODEL, dop_plan_model, 0)->n_layers = 4;
    for (uint32_t i = 0; i < n; i++)
        PB_ROW(&b, CROSSINGS,
               (dop_plan_crossing){.schedule = i, .way = DOP_CROSSING_SENT, .slot = sent, .row_bytes = 64});
    expect_rows(&b, "values cross in a plan that is no part");
    PB_ROW(&b, PART, (dop_plan_part){.n_parts = 2, .end_layer = 3});
    expect_rows(&b, NULL);
    EXPECT_ROW(PART, dop_plan_part, 0, n_parts, 1, "part 0 of 1, layers 0 to 3 of 4");
    EXPECT_ROW(PART, dop_plan_part, 0, n_parts, 65, "part 0 of 65");
    EXPECT_ROW(PART, dop_plan_part, 0, number, 2, "part 2 of 2");
    EXPECT_ROW(PART, dop_plan_part, 0, number, 1, "crossing 0 leads out of the model");
    EXPECT_ROW(PART, dop_plan_part, 0, n_parts, 3, NULL);
    EXPECT_ROW(PART, dop_plan_part, 0, first_layer, 3, "layers 3 to 3 of 4");
    EXPECT_ROW(PART, dop_plan_part, 0, end_layer, 5, "layers 0 to 5 of 4");
    EXPECT_ROW(PART, dop_plan_part, 0, flags, 4, "part 0 of 2");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, schedule, n, "crossing 1 is of schedule");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, schedule, 0, "schedule 1 of part 0 receives 0 values and sends 0");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, way, 0, "crossing 1 is of schedule");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, way, DOP_CROSSING_RECEIVED, "crossing 1 leads out of the model");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, name, UINT32_MAX, "crossing 1 is of schedule");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, one_row, 2, "crossing 1 is of schedule");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, slot, 0, "crossing 1 is in slot 0, which is not for it");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, slot, sent + 1, "which is not for it");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, row_bytes, 0, "leaves its slot");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, row_bytes, 2048, "leaves its slot");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, offset, UINT64_MAX - 3, "leaves its slot");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, logits_slot, DOP_PLAN_NO_SLOT, "schedule 0 picks and has no logits");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 3, logits_slot, DOP_PLAN_NO_SLOT, NULL);
    PB_AT(&b, PART, dop_plan_part, 0)->number = 1; /* the last one has logits */
    for (uint32_t i = 0; i < n; i++)
        PB_AT(&b, CROSSINGS, dop_plan_crossing, i)->way = DOP_CROSSING_RECEIVED;
    PB_AT(&b, SLOTS, dop_plan_slot, sent)->kind = DOP_SLOT_RECEIVED;
    expect_rows(&b, NULL);
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 3, logits_slot, DOP_PLAN_NO_SLOT, "schedule 3 has its logits in slot");
    PB_ROW(&b, PART, (dop_plan_part){.n_parts = 2, .end_layer = 3});
    expect_rows(&b, "it is 2 parts");
    plan_builder_finish(&b);
}

/* What the programs of a vision part are given. */
Test(plan, rows_of_vision_programs)
{
    plan_builder b;
    pb_toy(&b);
    const uint32_t received = pb_slot(&b, DOP_SLOT_RECEIVED, "received", 64 * 32);
    PB_AT(&b, SCHEDULES, dop_plan_schedule, 1)->kind = DOP_SCHED_IMAGE;
    PB_AT(&b, SCHEDULES, dop_plan_schedule, 1)->greedy = DOP_PICKS_NONE;
    PB_AT(&b, SCHEDULES, dop_plan_schedule, 3)->kind = DOP_SCHED_FEATURES;
    PB_AT(&b, SCHEDULES, dop_plan_schedule, 3)->greedy = DOP_PICKS_NONE;
    expect_rows(&b, "schedule 1 takes");
    PB_ROW(&b, PROGRAMS, (dop_plan_program){.kind = DOP_SCHED_IMAGE, .width = 2});
    expect_rows(&b, "program 0 is of kind 7");
    PB_ROW(&b, PROGRAMS, (dop_plan_program){.kind = DOP_SCHED_FEATURES, .width = 2, .merge = 4});
    expect_rows(&b, "schedule 1 receives other values");
    for (uint32_t i = 1; i < 4; i += 2)
        PB_ROW(&b, CROSSINGS,
               (dop_plan_crossing){.schedule = i, .way = DOP_CROSSING_RECEIVED, .slot = received, .row_bytes = 32});
    expect_rows(&b, NULL);
    EXPECT_ROW(PROGRAMS, dop_plan_program, 1, merge, 0, "program 1 is of kind 8");
    EXPECT_ROW(PROGRAMS, dop_plan_program, 1, merge, 2, "schedule 3 receives other values");
    EXPECT_ROW(PROGRAMS, dop_plan_program, 0, pool, 1, "program 0 is of kind 7");
    EXPECT_ROW(PROGRAMS, dop_plan_program, 0, class_row, 2, "program 0 is of kind 7");
    EXPECT_ROW(PROGRAMS, dop_plan_program, 0, kind, DOP_SCHED_FEATURES, "program 0 is of kind 8");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, one_row, 1, "schedule 3 receives other values");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 1, way, DOP_CROSSING_SENT, "schedule 3 receives other values");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 0, schedule, 0, "has rows of 32 bytes");
    EXPECT_ROW(CROSSINGS, dop_plan_crossing, 0, schedule, 3, "schedule 1 receives other values");
    plan_builder_finish(&b);
}

/* The records of a schedule's dispatches and stages fill its table behind the stages, so that none lies in another. */
Test(plan, record_rows)
{
    plan_builder b;
    pb_toy(&b);
    const uint32_t table = pb_toy_record(&b);
    const char *order = "the parameter records of schedule 0 do not follow each other";
    const char *none = "schedule 0 has the table of its stages and records in slot";
    expect_rows(&b, NULL);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 0, record, 8, order); /* it has none */
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, record, 8, order);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, record, UINT64_MAX - 7, order);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, n_args, 19, "dispatch 1 passes 19 arguments to kernel toy_record");
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, n_args, UINT32_MAX, "dispatch 1 has arguments");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, table_slot, DOP_PLAN_NO_SLOT, none);
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, table_slot, 1, none);
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, table_slot, 1000, none);
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 3, table_slot, table,
               "schedule 3 has the table of its stages and records");
    EXPECT_ROW(SLOTS, dop_plan_slot, table, size, 152, none);
    EXPECT_ROW(SLOTS, dop_plan_slot, table, size, 168, none);
    EXPECT_ROW(SLOTS, dop_plan_slot, table, kind, DOP_SLOT_SCRATCH, none);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 0, n_args, 20, "dispatch 0 passes 20 arguments to kernel toy_write");
    /* Also a stage may have one. */
    dop_plan_schedule *s = PB_AT(&b, SCHEDULES, dop_plan_schedule, 3);
    s->kind = DOP_SCHED_DECODE;
    s->max_rows = 1;
    s->greedy = DOP_PICKS_NEXT;
    s->ordering = DOP_ORDER_PERSISTENT;
    s->n_stages = 1;
    s->first_stage = (uint32_t)(b.sections[DOP_SEC_DISPATCHES].size / sizeof(dop_plan_dispatch));
    s->table_slot = pb_slot(&b, DOP_SLOT_TABLE, "stages", sizeof(dop_stage_row) + 160);
    dop_plan_dispatch stage = *PB_AT(&b, DISPATCHES, dop_plan_dispatch, 1);
    stage.record = sizeof(dop_stage_row);
    PB_ROW(&b, DISPATCHES, stage);
    expect_rows(&b, NULL);
    PB_AT(&b, DISPATCHES, dop_plan_dispatch, PB_AT(&b, SCHEDULES, dop_plan_schedule, 3)->first_stage)->record = 0;
    expect_rows(&b, "the parameter records of schedule 3 do not follow each other");
    plan_builder_finish(&b);
}

Test(plan, stage_rows)
{
    plan_builder b;
    pb_toy(&b);
    uint32_t table = pb_slot(&b, DOP_SLOT_TABLE, "table", sizeof(dop_stage_row));
    dop_plan_schedule *s = PB_AT(&b, SCHEDULES, dop_plan_schedule, 0);
    s->ordering = DOP_ORDER_PERSISTENT;
    s->n_stages = 1;
    s->first_stage = 1;
    s->table_slot = table;
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, table_slot, 0, "the table of its stages and records in slot 0");
    EXPECT_ROW(SLOTS, dop_plan_slot, table, size, 8, "which is none");
    const char *no = "stage 0 of schedule 0 has more workgroups or functions than there can be";
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, grid[0], 65536, no);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, grid[2], 65536, no);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, flags, 65536, no);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, short_function, 65536, no);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, short_positions, 1, no); /* by no workgroups */
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, stage_rounding, 3, "stage 0 of schedule 0: rounding 3 is not known");
    plan_builder_finish(&b);
}

Test(plan, dispatch_schedule_and_tensor_rows)
{
    char kind[48];
    plan_builder b;
    pb_toy(&b);
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, kernel, 3, "dispatch 1 runs kernel 3 of 3");
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, label, UINT32_MAX, "a string of dispatch 1");
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, grid[2], 0, "dispatch 1 has a grid of 1 x 1 x 0");
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, n_args, 17, "passes 17 arguments to kernel toy_rows, which takes 4");
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, first_arg, UINT32_MAX - 1, "dispatch 1 has arguments");
    EXPECT_ROW(DISPATCHES, dop_plan_dispatch, 1, n_args, 3, "passes 3 arguments to kernel toy_rows, which takes 4");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, ordering, 2, "schedule 0 has ordering 2");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, n_stages, 1, "schedule 0 has stages 0..+1 of");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, ordering, DOP_ORDER_PERSISTENT, "schedule 0 has stages 0..+0 of");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, ordering, DOP_ORDER_PERSISTENT, "ordered by persistent and no greedy");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, kind, 0, "schedule 1 has kind 0");
    snprintf(kind, sizeof kind, "schedule 1 has kind %d", DOP_SCHED_END);
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, kind, DOP_SCHED_END, kind);
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, profile, 1, "profile 1");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, kind, DOP_SCHED_PREFILL, "no decode schedule for profile any");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, greedy, 2, "greedy 2");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 0, max_rows, 2, "schedule 0 takes 2 rows");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, max_rows, 0, "schedule 1 takes 0 rows");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, max_rows, 4097, "schedule 1 takes 4097 rows");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, n_dispatches, 0, "schedule 1 has dispatches");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, first_dispatch, UINT32_MAX, "schedule 1 has dispatches");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, n_body, 4, "schedule 1 has dispatches");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, logits_slot, 0, "which is none for results");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, logits_slot, 9, "schedule 1 has its logits in slot 9");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, logits_offset, 8 * 256 - 252, "the logits of schedule 1 leave");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, logits_offset, 2, "the logits of schedule 1 leave");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 1, logits_offset, UINT64_MAX - 3, "the logits of schedule 1 leave");
    EXPECT_ROW(SCHEDULES, dop_plan_schedule, 3, max_rows, 9, "the logits of schedule 3 leave");
    EXPECT_ROW(TENSORS, dop_plan_tensor, 0, name, UINT32_MAX, "the name of tensor 0");
    EXPECT_ROW(TENSORS, dop_plan_tensor, 0, slot, 4, "tensor head leaves its slot");
    EXPECT_ROW(TENSORS, dop_plan_tensor, 0, offset, UINT64_MAX, "tensor head leaves its slot");
    EXPECT_ROW(TENSORS, dop_plan_tensor, 0, experts, 0, "tensor head has 0 experts of 16384 bytes every 0");
    EXPECT_ROW(TENSORS, dop_plan_tensor, 0, experts, 3, "tensor head has 3 experts of 16384 bytes every 0");
    plan_builder_finish(&b);
}

Test(plan, missing_sections)
{
    static const struct {
        uint32_t section;
        const char *want;
    } cases[] = {
        {DOP_SEC_STRINGS, "section STRINGS is missing"},
        {DOP_SEC_MODEL, "section MODEL is missing"},
        {DOP_SEC_PROFILES, "section PROFILES is missing"},
        {DOP_SEC_KERNELS, "section KERNELS is missing"},
        {DOP_SEC_SPIRV, "section SPIRV is missing"},
        {DOP_SEC_SLOTS, "section SLOTS is missing"},
        {DOP_SEC_SCHEDULES, "section SCHEDULES is missing"},
        {DOP_SEC_DISPATCHES, "dispatches 0..+3 of 0"},
        {DOP_SEC_ARGS, "arguments 0..+2 of 0"},
        {DOP_SEC_WEIGHTS, "reads past the end of the weights"},
        {DOP_SEC_CARD, NULL},
        {DOP_SEC_IR, NULL},
        {DOP_SEC_TENSORS, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_builder b;
        pb_toy(&b);
        dop_buf_finish(&b.sections[cases[i].section]);
        expect_rows(&b, cases[i].want);
        plan_builder_finish(&b);
    }
    plan_builder b;
    pb_toy(&b);
    dop_buf_append(&b.sections[DOP_SEC_STRINGS], "x", 1);
    expect_rows(&b, "section STRINGS does not start and end with a 0 byte");
    dop_buf_append(&b.sections[DOP_SEC_STRINGS], "\033[2J", 5);
    expect_rows(&b, "section STRINGS holds control character 0x1b");
    plan_builder_finish(&b);
}

/* Any row bytes behind right digests: refused, or good enough to be walked. */
Test(plan, random_rows_do_no_harm)
{
    dop_buf file;
    toy_file(&file);
    uint8_t *b = copy_of(file.data, file.size);
    uint64_t seed = 1;
    size_t accepted = 0;
    const dop_plan_section *s = (const dop_plan_section *)(const void *)(b + sizeof(dop_plan_header));
    for (int i = 0; i < 4000; i++) {
        memcpy(b, file.data, file.size);
        uint32_t n_changes = 1 + (uint32_t)(i % 4);
        for (uint32_t c = 0; c < n_changes; c++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const dop_plan_section *in = &s[(seed >> 33) % ((const dop_plan_header *)(const void *)b)->n_sections];
            uint64_t at = in->offset + (seed >> 20) % in->size;
            b[at] = (uint8_t)(seed >> 56);
        }
        pb_redigest(b);
        dop_plan plan;
        dop_diag diag = {0};
        if (dop_plan_open_memory(b, file.size, &diag, &plan) == DOP_OK) {
            dop_buf text = {0};
            dop_plan_disasm(&plan, &text);
            cr_assert_eq(dop_plan_verify_weights(&plan, NULL, &diag), DOP_OK);
            dop_buf_finish(&text);
            dop_plan_close(&plan);
            accepted++;
        }
    }
    cr_assert(accepted > 100 && accepted < 4000, "%zu accepted", accepted);
    free(b);
    dop_buf_finish(&file);
}

Test(plan, weights_digest_by_pieces)
{
    static const uint64_t sizes[] = {0, 1, 16u << 20, (16u << 20) + 1, (33u << 20) + 7};
    uint8_t *data = malloc(34u << 20);
    for (uint32_t i = 0; i < 34u << 20; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 24);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dop_weights_hash hash;
        uint64_t digest = 0, at = 0;
        cr_assert_eq(dop_weights_hash_init(&hash, NULL), DOP_OK);
        for (uint64_t n = 1; at < sizes[i]; at += n, n = n * 3 + 1) {
            n = n < sizes[i] - at ? n : sizes[i] - at;
            dop_weights_hash_add(&hash, data + at, n);
        }
        cr_assert_eq(dop_weights_hash_value(&hash, NULL, &digest), DOP_OK);
        dop_weights_hash_finish(&hash);
        dop_weights_range ranges[2] = {{data, sizes[i], 0}, {data, 5, 0}};
        cr_assert_eq(dop_weights_digest(ranges, 2, NULL, NULL), DOP_OK);
        cr_assert_eq(ranges[0].digest, digest, "%llu bytes", (unsigned long long)sizes[i]);
        cr_assert_eq(ranges[1].digest, dop_plan_digest(data, 5));
        if (sizes[i] > 16u << 20) {
            data[sizes[i] - 1] ^= 1;
            cr_assert_eq(dop_weights_digest(ranges, 1, NULL, NULL), DOP_OK);
            cr_assert_neq(ranges[0].digest, digest);
            data[sizes[i] - 1] ^= 1;
        }
    }
    free(data);
}

static void
keep_line(void *user, const char *text)
{
    dop_buf_printf(user, "%s\n", text);
}

/* 32 MiB of weights and 64 MiB of cache, on a device with less than that, hardly more, and plenty. */
Test(plan, memory_and_what_would_save_some)
{
    static const char strings[] = "\0k", ir[] = "\n  %k:f16[Q,S,8,64] = state \"k\" kind=append\n";
    const dop_plan_model model = {.ctx = 8192, .n_sequences = 1};
    const dop_plan_slot slots[2] = {{.kind = DOP_SLOT_WEIGHTS},
                                    {.kind = DOP_SLOT_STATE, .state = DOP_PLAN_STATE_APPEND}};
    const dop_plan_tensor weight = {.type = 2, .rows = 4096, .cols = 4096, .experts = 1, .size = 32 << 20};
    const dop_plan_state cache = {.name = 1, .slot = 1, .rows = 8192, .row_bytes = 8192};
    const dop_plan plan = {.model = &model,
                           .strings = strings,
                           .slots = slots,
                           .tensors = &weight,
                           .n_tensors = 1,
                           .states = &cache,
                           .n_states = 1,
                           .ir = ir,
                           .ir_size = sizeof ir - 1};
    const bool used[2] = {true, true};
    const dop_memory_use use = {.slots = used};
    dop_device device = {.info.caps = {.name = "a device", .memory = 256 << 20}};
    const dop_memory m = {.device = &device,
                          .total = 96 << 20,
                          .bytes = {[DOP_SLOT_WEIGHTS] = 32 << 20, [DOP_SLOT_STATE] = 64 << 20},
                          .n_blocks = 1};
    dop_diag diag = {0};
    dop_buf text = {0};
    const dop_log log = {keep_line, &text};
    cr_assert_eq(dop_memory_check_fit(&m, &plan, &use, 50 << 20, &log, &diag), DOP_E_DEVICE);
    cr_expect(strstr(diag.message,
                     "the plan needs 96.0 MiB of device memory (weights 32.0 MiB, caches 64.0 MiB for 8192 "
                     "positions"));
    cr_expect(strstr(diag.message,
                     "a device has 50.0 MiB free of 256.0: compile it again: `ctx` 1024 saves 56.0 MiB, "
                     "`kv` q8_0 saves 30.0 MiB, `quant` q8_0 saves 15.0 MiB, `quant` q4_k saves 23.0 MiB, "
                     "or choose another `device`"),
              "%s", diag.message);
    cr_expect(strstr(text.data, "weights, 16   bits each       32.0 MiB\n"), "%s", text.data);
    text.size = 0;
    cr_assert_eq(dop_memory_check_fit(&m, &plan, &use, 100 << 20, &log, NULL), DOP_OK);
    cr_expect(strstr(text.data, "over 90% of what is free: compiled again, `ctx` 4096 saves 32.0 MiB, `kv` q8_0 "),
              "%s", text.data);
    text.size = 0;
    cr_assert_eq(dop_memory_check_fit(&m, &plan, &use, 1000 << 20, &log, NULL), DOP_OK);
    cr_expect(strstr(text.data, "everything goes to the device") && !strstr(text.data, "saves"), "%s", text.data);
    dop_buf_finish(&text);
}

/* Each kind of schedule has a name of its own, which ends with its rows. */
Test(plan, schedules_have_names)
{
    char names[DOP_SCHED_END][DOP_SCHEDULE_NAME];
    for (uint32_t kind = DOP_SCHED_DECODE; kind < DOP_SCHED_END; kind++) {
        dop_plan_schedule_name(&(dop_plan_schedule){.kind = kind, .max_rows = 4096}, names[kind]);
        cr_expect(strlen(names[kind]) > 4 && strcmp(strchr(names[kind], 0) - 4, "4096") == 0, "%s", names[kind]);
        for (uint32_t other = DOP_SCHED_DECODE; other < kind; other++)
            cr_expect_str_neq(names[kind], names[other]);
    }
    cr_expect_str_eq(names[DOP_SCHED_ENCODE_PIXELS], "encode_picture4096");
    cr_expect_str_eq(names[DOP_SCHED_ENCODE_2], "encode_24096");
}
