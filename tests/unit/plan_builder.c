#include "tests/unit/plan_builder.h"

#include "plan/plan_weights.h"

#include "base/caps.h"
#include "tests/unit/buf_align.h"

#include <criterion/criterion.h>
#include <shaderc/shaderc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
plan_builder_init(plan_builder *b)
{
    memset(b, 0, sizeof *b);
    dop_buf_append(&b->sections[DOP_SEC_STRINGS], "", 1);
}

void
plan_builder_finish(plan_builder *b)
{
    for (size_t i = 0; i < DOP_SEC_LIMIT; i++)
        dop_buf_finish(&b->sections[i]);
}

uint32_t
pb_string(plan_builder *b, const char *s)
{
    dop_buf *buf = &b->sections[DOP_SEC_STRINGS];
    uint32_t at = (uint32_t)buf->size;
    dop_buf_append(buf, s, strlen(s) + 1);
    return at;
}

uint32_t
pb_row(plan_builder *b, uint32_t section, const void *row, size_t row_bytes)
{
    dop_buf *buf = &b->sections[section];
    uint32_t index = (uint32_t)(buf->size / row_bytes);
    dop_buf_append(buf, row, row_bytes);
    return index;
}

void *
pb_at(plan_builder *b, uint32_t section, uint32_t row, size_t row_bytes)
{
    cr_assert_lt((row + 1) * row_bytes, b->sections[section].size + 1);
    return b->sections[section].data + row * row_bytes;
}

uint32_t
pb_kernel(plan_builder *b, const char *name, const char *glsl, uint32_t local_x, uint32_t n_args)
{
    /* Kept until the process ends: the first one parses glslang's built-ins, which takes longer than all kernels here. */
    static shaderc_compiler_t compiler;
    if (!compiler)
        compiler = shaderc_compiler_initialize();
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    shaderc_compile_options_set_target_env(options, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
    shaderc_compilation_result_t result =
        shaderc_compile_into_spv(compiler, glsl, strlen(glsl), shaderc_compute_shader, name, "main", options);
    cr_assert_eq(shaderc_result_get_compilation_status(result), shaderc_compilation_status_success, "%s: %s", name,
                 shaderc_result_get_error_message(result));
    dop_buf *spirv = &b->sections[DOP_SEC_SPIRV];
    dop_plan_kernel k = {
        .name = pb_string(b, name),
        .variant = pb_string(b, "toy"),
        .spirv_first = (uint32_t)(spirv->size / 4),
        .spirv_words = (uint32_t)(shaderc_result_get_length(result) / 4),
        .local = {local_x, 1, 1},
        .n_args = n_args,
    };
    dop_buf_append(spirv, shaderc_result_get_bytes(result), shaderc_result_get_length(result));
    shaderc_result_release(result);
    shaderc_compile_options_release(options);
    return PB_ROW(b, KERNELS, k);
}

uint32_t
pb_slot(plan_builder *b, uint32_t kind, const char *name, uint64_t size)
{
    dop_plan_slot s = {.kind = kind, .name = pb_string(b, name), .size = size, .file = UINT32_MAX};
    if (kind == DOP_SLOT_WEIGHTS)
        s.file_offset = 0;
    if (kind == DOP_SLOT_STATE) {
        s.state = DOP_PLAN_STATE_APPEND;
        s.rows = TOY_CTX;
    }
    return PB_ROW(b, SLOTS, s);
}

uint32_t
pb_arg(plan_builder *b, uint32_t slot, uint64_t offset, uint64_t size)
{
    dop_plan_arg a = {.slot = slot, .offset = offset, .size = size};
    return PB_ROW(b, ARGS, a);
}

void
pb_write(plan_builder *b, char *path)
{
    dop_buf file;
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    pb_build(b, &file);
    cr_assert_eq(write(fd, file.data, file.size), (ssize_t)file.size);
    close(fd);
    dop_buf_finish(&file);
}

void
pb_redigest(uint8_t *file)
{
    dop_plan_header *h = (dop_plan_header *)(void *)file;
    dop_plan_section *s = (dop_plan_section *)(void *)(file + sizeof *h);
    for (uint32_t i = 0; i < h->n_sections; i++) {
        dop_weights_range range = {file + s[i].offset, s[i].size, 0};
        s[i].digest = dop_plan_digest(range.data, range.size);
        if (s[i].kind == DOP_SEC_WEIGHTS && dop_weights_digest(&range, 1, NULL, NULL) == DOP_OK)
            s[i].digest = range.digest;
    }
    h->digest = dop_plan_header_digest(h, s, h->n_sections);
}

void
pb_build(plan_builder *b, dop_buf *out)
{
    dop_plan_header h = {.version = DOP_PLAN_VERSION};
    dop_plan_section table[DOP_SEC_LIMIT];
    memcpy(h.magic, DOP_PLAN_MAGIC, sizeof h.magic);
    for (uint32_t kind = 0; kind < DOP_SEC_LIMIT; kind++)
        if (b->sections[kind].size > 0)
            table[h.n_sections++] = (dop_plan_section){.kind = kind, .row_bytes = dop_plan_row_bytes(kind)};
    memset(out, 0, sizeof *out);
    dop_buf_zeros(out, sizeof h + h.n_sections * sizeof *table);
    for (uint32_t i = 0; i < h.n_sections; i++) {
        const dop_buf *s = &b->sections[table[i].kind];
        buf_align(out, table[i].kind == DOP_SEC_WEIGHTS ? 4096 : 16);
        table[i].offset = out->size;
        table[i].size = s->size;
        dop_buf_append(out, s->data, s->size);
    }
    h.file_size = out->size;
    cr_assert(!out->failed);
    memcpy(out->data, &h, sizeof h);
    memcpy(out->data + sizeof h, table, h.n_sections * sizeof *table);
    pb_redigest((uint8_t *)out->data);
}

/* ---- the toy model -------------------------------------------------------------------------------------------------*/

#define TOY_HEAD                                                                                            \
    "#version 460\n"                                                                                        \
    "#extension GL_EXT_buffer_reference : require\n"                                                        \
    "layout(local_size_x = 64) in;\n"                                                                       \
    "struct Row { uint token, position, sequence, flags; };\n"                                              \
    "layout(buffer_reference, std430) buffer Step { uint n_rows, n_out, flags, reserved[13], parity[64];\n" \
    "    Row rows[4096]; uint ids[4096]; };\n"                                                              \
    "layout(buffer_reference, std430) buffer U32 { uint at[]; };\n"                                         \
    "layout(buffer_reference, std430) buffer F32 { float at[]; };\n"

static const char toy_write[] =
    TOY_HEAD "layout(push_constant) uniform P { Step step; U32 state; };\n"
             "void main() {\n"
             "    for (uint t = gl_LocalInvocationID.x; t < step.n_rows; t += 64)\n"
             "        state.at[step.rows[t].sequence * 128 + step.rows[t].position] = step.rows[t].token;\n"
             "}\n";
/* Workgroup t of `rows` makes row t, or the last valid row when there is one row only. */
static const char toy_rows[] =
    TOY_HEAD "layout(push_constant) uniform P { Step step; U32 state; F32 w; F32 logits; };\n"
             "void main() {\n"
             "    uint t = gl_WorkGroupID.x, v = gl_LocalInvocationID.x;\n"
             "    if (t >= step.n_rows) return;\n"
             "    Row row = step.rows[gl_NumWorkGroups.x == 1 ? step.n_rows - 1 : t];\n"
             "    uint h = 0;\n"
             "    for (uint p = 0; p <= row.position; p++) h += (p + 1) * state.at[row.sequence * 128 + p];\n"
             "    logits.at[t * 64 + v] = w.at[(h % 64) * 64 + v];\n"
             "}\n";
static const char toy_pick[] =
    TOY_HEAD "layout(push_constant) uniform P { Step step; F32 logits; };\n"
             "void main() {\n"
             "    if (gl_LocalInvocationID.x != 0) return;\n"
             "    uint best = 0;\n"
             "    for (uint v = 1; v < 64; v++) if (logits.at[v] > logits.at[best]) best = v;\n"
             "    step.ids[step.n_out % 4096] = best;\n"
             "    step.n_out = step.n_out + 1;\n"
             "    step.rows[0].position = step.rows[step.n_rows - 1].position + 1;\n"
             "    step.rows[0].sequence = step.rows[step.n_rows - 1].sequence;\n"
             "    step.rows[0].token = best;\n"
             "    step.n_rows = 1;\n"
             "}\n";

float
toy_weight(uint32_t h, uint32_t v)
{
    uint32_t x = (h * 64 + v + 1) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(x % 100000) / 10000.0f - 5.0f;
}

void
toy_logits(const uint32_t *tokens, size_t n, float *out)
{
    uint32_t h = 0;
    for (size_t p = 0; p < n; p++)
        h += ((uint32_t)p + 1) * tokens[p];
    for (uint32_t v = 0; v < TOY_VOCAB; v++)
        out[v] = toy_weight(h % 64, v);
}

uint32_t
toy_argmax(const uint32_t *tokens, size_t n)
{
    float logits[TOY_VOCAB];
    toy_logits(tokens, n, logits);
    uint32_t best = 0;
    for (uint32_t v = 1; v < TOY_VOCAB; v++)
        if (logits[v] > logits[best])
            best = v;
    return best;
}

/* The same in two dispatches, the first of which has one stage.  It finds its arguments in the table, and its mailbox is a
 * word of which even and odd steps use a copy each: all ones before a step, cleared by the next one. */
#define TOY_PERSISTENT                                                                  \
    "#version 460\n"                                                                    \
    "#extension GL_EXT_buffer_reference : require\n"                                    \
    "#extension GL_EXT_buffer_reference_uvec2 : require\n"                              \
    "layout(local_size_x = 64) in;\n"                                                   \
    "struct Row { uint token, position, sequence, flags; };\n"                          \
    "layout(buffer_reference, std430) buffer Step { uint n_rows, n_out, flags, runs;\n" \
    "    uint reserved[12], parity[64]; Row rows[4096]; uint ids[4096]; };\n"           \
    "layout(buffer_reference, std430) buffer U32 { uint at[]; };\n"                     \
    "layout(buffer_reference, std430) buffer F32 { float at[]; };\n"                    \
    "layout(buffer_reference, std430) buffer Table { uvec2 args[16]; };\n"

static const char toy_stages[] =
    TOY_PERSISTENT "layout(push_constant) uniform P { Table table; Step step; };\n"
                   "void main() {\n"
                   "    U32 state = U32(table.args[1]), mailbox = U32(table.args[4]);\n"
                   "    F32 w = F32(table.args[2]), logits = F32(table.args[3]);\n"
                   "    uint v = gl_LocalInvocationID.x, h = 0, runs = step.runs, now = runs & 1u;\n"
                   "    if (v == 0) {\n"
                   "        if (mailbox.at[now] != 0xffffffffu || runs >= STALL_AT) step.flags |= 1u;\n"
                   "        mailbox.at[now] = step.rows[0].token;\n"
                   "        mailbox.at[1u - now] = 0xffffffffu;\n"
                   "        state.at[step.rows[0].position] = step.rows[0].token;\n"
                   "    }\n"
                   "    memoryBarrierBuffer();\n"
                   "    barrier();\n"
                   "    for (uint p = 0; p <= step.rows[0].position; p++) h += (p + 1) * state.at[p];\n"
                   "    if (runs >= STALL_AT) h++;\n"
                   "    logits.at[v] = w.at[(h % 64) * 64 + v] + float(v & 1u) * float(NUDGE);\n"
                   "}\n";
static const char toy_advance[] =
    TOY_PERSISTENT "layout(push_constant) uniform P { Step step; F32 logits; };\n"
                   "void main() {\n"
                   "    if (gl_LocalInvocationID.x != 0) return;\n"
                   "    uint best = 0;\n"
                   "    for (uint v = 1; v < 64; v++) if (logits.at[v] > logits.at[best]) best = v;\n"
                   "    step.ids[step.n_out % 4096] = best;\n"
                   "    step.n_out = step.n_out + 1;\n"
                   "    step.rows[0].position = step.rows[step.n_rows - 1].position + 1;\n"
                   "    step.rows[0].token = best;\n"
                   "    step.n_rows = 1;\n"
                   "    step.runs += 1u;\n"
                   "}\n";

typedef struct toy_parts {
    uint32_t write, rows, pick;            /* kernels */
    uint32_t weights, state, step, result; /* slots */
    uint32_t n_sequences;
} toy_parts;

static void
toy_schedule(plan_builder *b, const toy_parts *t, uint32_t kind, uint32_t max_rows)
{
    uint32_t rows = kind == DOP_SCHED_SCORE || kind == DOP_SCHED_ROWS ? max_rows : 1;
    uint64_t logits = (uint64_t)rows * TOY_VOCAB * 4;
    uint32_t first = (uint32_t)(b->sections[DOP_SEC_DISPATCHES].size / sizeof(dop_plan_dispatch));
    bool greedy = rows == 1;
    dop_plan_dispatch write = {.kernel = t->write, .grid = {1, 1, 1}, .n_args = 2, .label = pb_string(b, "write")};
    write.first_arg = pb_arg(b, t->step, 0, sizeof(dop_step));
    pb_arg(b, t->state, 0, t->n_sequences * TOY_CTX * 4);
    PB_ROW(b, DISPATCHES, write);
    dop_plan_dispatch head = {.kernel = t->rows,
                              .grid = {rows, 1, 1},
                              .n_args = 4,
                              .flags = DOP_DISPATCH_BARRIER,
                              .label = pb_string(b, "head")};
    head.first_arg = pb_arg(b, t->step, 0, sizeof(dop_step));
    pb_arg(b, t->state, 0, t->n_sequences * TOY_CTX * 4);
    pb_arg(b, t->weights, 0, 64 * 64 * 4);
    pb_arg(b, t->result, 0, logits);
    PB_ROW(b, DISPATCHES, head);
    if (greedy) {
        dop_plan_dispatch pick = {.kernel = t->pick,
                                  .grid = {1, 1, 1},
                                  .n_args = 2,
                                  .flags = DOP_DISPATCH_BARRIER,
                                  .label = pb_string(b, "pick")};
        pick.first_arg = pb_arg(b, t->step, 0, sizeof(dop_step));
        pb_arg(b, t->result, 0, logits);
        PB_ROW(b, DISPATCHES, pick);
    }
    dop_plan_schedule s = {.kind = kind,
                           .max_rows = max_rows,
                           .first_dispatch = first,
                           .n_dispatches = greedy ? 3 : 2,
                           .n_body = 1,
                           .logits_slot = t->result,
                           .greedy = greedy,
                           .table_slot = DOP_PLAN_NO_SLOT};
    PB_ROW(b, SCHEDULES, s);
}

void
pb_toy(plan_builder *b)
{
    pb_toy_of(b, 1);
}

void
pb_toy_of(plan_builder *b, uint32_t n_sequences)
{
    plan_builder_init(b);
    dop_plan_model m = {
        .vocab = TOY_VOCAB,
        .ctx = TOY_CTX,
        .ctx_train = TOY_CTX,
        .rewind = DOP_PLAN_NO_RINGS,
        .n_layers = 1,
        .n_sequences = n_sequences,
        .state_copies = 2,
        .bos_id = 1,
        .n_end_ids = 1,
        .end_ids = {2},
        .temperature = -1,
        .name = pb_string(b, "toy"),
        .family = pb_string(b, "toy"),
        .quant = pb_string(b, "f32"),
    };
    PB_ROW(b, MODEL, m);
    dop_buf_puts(&b->sections[DOP_SEC_CARD], "{}");
    dop_buf_puts(&b->sections[DOP_SEC_IR], "graph toy() {\n}\n");
    /* More than the kernels need: tests make single ones need more than any device has. */
    dop_plan_profile profile = {.name = pb_string(b, "any"),
                                .caps = UINT32_MAX,
                                .shared_bytes = UINT32_MAX,
                                .max_workgroup = 4096,
                                .submit_mib = {4096, 16384},
                                .chunks = {40, 128, 512, 12}};
    PB_ROW(b, PROFILES, profile);
    toy_parts t = {
        .write = pb_kernel(b, "toy_write", toy_write, 64, 2),
        .rows = pb_kernel(b, "toy_rows", toy_rows, 64, 4),
        .pick = pb_kernel(b, "toy_pick", toy_pick, 64, 2),
        .weights = pb_slot(b, DOP_SLOT_WEIGHTS, "weights", 64 * 64 * 4),
        .state = pb_slot(b, DOP_SLOT_STATE, "state", n_sequences * TOY_CTX * 4),
        .step =
            pb_slot(b, DOP_SLOT_STEP, "step", sizeof(dop_step) + n_sequences * (TOY_VOCAB / 8 + sizeof(dop_row_way))),
        .result = pb_slot(b, DOP_SLOT_RESULT, "logits", 8 * TOY_VOCAB * 4),
        .n_sequences = n_sequences,
    };
    for (uint32_t h = 0; h < 64; h++)
        for (uint32_t v = 0; v < 64; v++) {
            float w = toy_weight(h, v);
            dop_buf_append(&b->sections[DOP_SEC_WEIGHTS], &w, sizeof w);
        }
    toy_schedule(b, &t, DOP_SCHED_DECODE, 1);
    toy_schedule(b, &t, DOP_SCHED_PREFILL, 8);
    toy_schedule(b, &t, DOP_SCHED_PREFILL, 32);
    toy_schedule(b, &t, DOP_SCHED_SCORE, 8);
    if (n_sequences > 1) {
        toy_schedule(b, &t, DOP_SCHED_ROWS, 4);
        dop_plan_state state = {.name = pb_string(b, "tokens"),
                                .slot = t.state,
                                .rows = TOY_CTX,
                                .row_bytes = 4,
                                .sequence_stride = TOY_CTX * 4};
        PB_ROW(b, STATES, state);
    }
    dop_plan_tensor tensor = {
        .name = pb_string(b, "head"), .rows = 64, .cols = 64, .experts = 1, .slot = t.weights, .size = 64 * 64 * 4};
    PB_ROW(b, TENSORS, tensor);
}

/* Arguments 3 to 18 are numbers, which the logits are made of: they cancel out where each is where it belongs. */
static const char toy_record[] = TOY_HEAD
    "layout(buffer_reference, std430) buffer Record { Step step; U32 state; F32 w; uvec2 pad[16]; F32 logits; };\n"
    "layout(push_constant) uniform P { Record record; };\n"
    "void main() {\n"
    "    Step step = record.step;\n"
    "    uint h = 0, last = step.n_rows - 1, v = gl_LocalInvocationID.x;\n"
    "    for (uint p = 0; p <= step.rows[last].position; p++) h += (p + 1) * record.state.at[p];\n"
    "    for (uint i = 0; i < 16; i++) h += record.pad[i].x * record.pad[i].y - i * (100 + i);\n"
    "    record.logits.at[v] = record.w.at[(h % 64) * 64 + v];\n"
    "}\n";

uint32_t
pb_toy_record(plan_builder *b)
{
    enum { WEIGHTS, STATE, STEP, RESULT, N_ARGS = 20, N_SCHEDULES = 3 };
    const uint32_t kernel = pb_kernel(b, "toy_record", toy_record, 64, N_ARGS);
    const uint32_t first = pb_arg(b, STEP, 0, sizeof(dop_step));
    pb_arg(b, STATE, 0, TOY_CTX * 4);
    pb_arg(b, WEIGHTS, 0, 64 * 64 * 4);
    for (uint64_t i = 0; i < 16; i++)
        pb_arg(b, DOP_ARG_NUMBERS, i | (100 + i) << 32, 0);
    pb_arg(b, RESULT, 0, TOY_VOCAB * 4);
    uint32_t table = 0;
    for (uint32_t i = 0; i < N_SCHEDULES; i++) {
        dop_plan_schedule *s = PB_AT(b, SCHEDULES, dop_plan_schedule, i);
        dop_plan_dispatch *head = PB_AT(b, DISPATCHES, dop_plan_dispatch, s->first_dispatch + 1);
        head->kernel = kernel;
        head->first_arg = first;
        head->n_args = N_ARGS;
        table = pb_slot(b, DOP_SLOT_TABLE, "records", N_ARGS * 8);
        s->table_slot = table;
    }
    return table - (N_SCHEDULES - 1);
}

void
pb_toy_persistent(plan_builder *b, uint32_t stall_at, float nudge)
{
    enum { WEIGHTS, STATE, STEP, RESULT }; /* slots of pb_toy in its order */
    static const char version[] = "#version 460\n";
    uint32_t mailbox = pb_slot(b, DOP_SLOT_MAILBOX, "mailboxes", 8);
    uint32_t table = pb_slot(b, DOP_SLOT_TABLE, "stages", sizeof(dop_stage_row));
    dop_buf text = {0};
    dop_buf_printf(&text, "%s#define STALL_AT %uu\n#define NUDGE %.9g\n%s", version, stall_at, (double)nudge,
                   toy_stages + sizeof version - 1);
    cr_assert(!text.failed);
    dop_plan_dispatch stages = {.kernel = pb_kernel(b, "toy_stages", text.data, 64, 2),
                                .grid = {1, 1, 1},
                                .n_args = 2,
                                .label = pb_string(b, "stages")};
    dop_buf_finish(&text);
    dop_plan_schedule s = *PB_AT(b, SCHEDULES, dop_plan_schedule, 0);
    stages.first_arg = pb_arg(b, table, 0, sizeof(dop_stage_row));
    pb_arg(b, STEP, 0, sizeof(dop_step));
    s.first_dispatch = PB_ROW(b, DISPATCHES, stages);
    dop_plan_dispatch pick = {.kernel = pb_kernel(b, "toy_advance", toy_advance, 64, 2),
                              .grid = {1, 1, 1},
                              .n_args = 2,
                              .flags = DOP_DISPATCH_BARRIER,
                              .label = pb_string(b, "pick")};
    pick.first_arg = pb_arg(b, STEP, 0, sizeof(dop_step));
    pb_arg(b, RESULT, 0, TOY_VOCAB * 4);
    PB_ROW(b, DISPATCHES, pick);
    dop_plan_dispatch stage = {
        .kernel = stages.kernel, .grid = {1, 1, 1}, .n_args = 5, .label = pb_string(b, "write and head")};
    stage.first_arg = pb_arg(b, STEP, 0, sizeof(dop_step));
    pb_arg(b, STATE, 0, TOY_CTX * 4);
    pb_arg(b, WEIGHTS, 0, 64 * 64 * 4);
    pb_arg(b, RESULT, 0, TOY_VOCAB * 4);
    pb_arg(b, mailbox, 0, 8);
    s.first_stage = PB_ROW(b, DISPATCHES, stage);
    s.n_dispatches = s.n_body = 2;
    s.ordering = DOP_ORDER_PERSISTENT;
    s.n_stages = 1;
    s.table_slot = table;
    PB_ROW(b, SCHEDULES, s);
}
