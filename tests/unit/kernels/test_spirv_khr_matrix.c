/* The KHR form of matrices: real kernels of every target with matrix units, and modules made for one question each. */
#include "kernels/spirv/spirv_khr_matrix.h"

#include "kernels/spirv/spirv.h"

#include <criterion/criterion.h>
#include <shaderc/shaderc.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IDS = 65536 };

typedef struct module {
    dop_buf bytes;
    const uint32_t *w;
    size_t n;
} module;

/* What is known of each id of a module. */
typedef struct ids {
    uint32_t at[MAX_IDS]; /* word of the definition, 0: none */
    uint32_t type[MAX_IDS];
} ids;

static ids *known; /* one module at a time */

static void
finish(module *m)
{
    dop_buf_finish(&m->bytes);
    memset(m, 0, sizeof *m);
}

static void
view(module *m)
{
    m->w = (const uint32_t *)(const void *)m->bytes.data;
    m->n = m->bytes.size / 4;
}

static module
compile(const char *body, bool optimized)
{
    static const char head[] = "#version 460\n"
                               "#extension GL_NV_cooperative_matrix : require\n"
                               "#extension GL_KHR_memory_scope_semantics : require\n"
                               "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
                               "#extension GL_EXT_control_flow_attributes : require\n"
                               "#pragma use_vulkan_memory_model\n"
                               "layout(local_size_x = 32) in;\n"
                               "shared uvec4 words[512];\n"
                               "layout(std430, set = 0, binding = 0) buffer Numbers { float numbers[]; };\n"
                               "#define SUM fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>\n"
                               "#define FACTOR fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>\n";
    dop_buf text = {0};
    module m = {{0}, NULL, 0};
    dop_buf_puts(&text, head);
    dop_buf_puts(&text, body);
    shaderc_compiler_t c = shaderc_compiler_initialize();
    shaderc_compile_options_t o = shaderc_compile_options_initialize();
    shaderc_compile_options_set_target_env(o, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
    shaderc_compile_options_set_optimization_level(o, optimized ? shaderc_optimization_level_performance
                                                                : shaderc_optimization_level_zero);
    shaderc_compilation_result_t r =
        shaderc_compile_into_spv(c, text.data, text.size, shaderc_compute_shader, "test", "main", o);
    cr_assert_eq(shaderc_result_get_compilation_status(r), shaderc_compilation_status_success, "%s",
                 shaderc_result_get_error_message(r));
    dop_buf_append(&m.bytes, shaderc_result_get_bytes(r), shaderc_result_get_length(r));
    view(&m);
    shaderc_result_release(r);
    shaderc_compile_options_release(o);
    shaderc_compiler_release(c);
    dop_buf_finish(&text);
    return m;
}

static dop_status
rewrite(const module *nv, module *out, dop_diag *diag)
{
    memset(out, 0, sizeof *out);
    memset(diag, 0, sizeof *diag);
    dop_status st = dop_spirv_khr_matrix("test", nv->w, nv->n, diag, &out->bytes);
    view(out);
    return st;
}

static uint32_t
op_at(const module *m, size_t at)
{
    return m->w[at] & 0xffff;
}

static uint32_t
len_at(const module *m, size_t at)
{
    return m->w[at] >> 16;
}

/* Every id has one definition, below the bound; types come before what is made of them. */
static void
take_down(const module *m)
{
    static ids storage;
    known = &storage;
    memset(known, 0, sizeof *known);
    bool types = false;
    cr_assert_leq(m->w[3], MAX_IDS);
    for (size_t at = 5; at < m->n; at += len_at(m, at)) {
        const uint32_t *w = m->w + at;
        uint32_t op = op_at(m, at), id = 0;
        cr_assert(len_at(m, at) > 0 && at + len_at(m, at) <= m->n, "instruction at %zu", at);
        types = types || dop_spv_is_type(op);
        if (dop_spv_is_type(op))
            id = w[1];
        else if (types && op != 39 && len_at(m, at) > 2 && w[1] < m->w[3] && known->at[w[1]] &&
                 dop_spv_is_type(op_at(m, known->at[w[1]]))) {
            id = w[2];
            known->type[id] = w[1];
        }
        if (id) {
            cr_assert_lt(id, m->w[3], "id %u is past the bound", id);
            cr_assert_eq(known->at[id], 0, "id %u is there twice", id);
            known->at[id] = (uint32_t)at;
        }
        if (op == 28 || op == DOP_SPV_TYPE_MATRIX_KHR)
            cr_assert(known->at[w[2]], "type %u hangs on one that is not there: %u", id, w[2]);
        if (op == 32)
            cr_assert(known->at[w[3]], "pointer %u to a type that is not there: %u", id, w[3]);
        if (op == 30 || op == 33)
            for (uint32_t i = 2; i < len_at(m, at); i++)
                cr_assert(known->at[w[i]], "type %u hangs on one that is not there: %u", id, w[i]);
        cr_assert(op < SpvOpTypeCooperativeMatrixNV || op > SpvOpCooperativeMatrixLengthNV,
                  "an NV instruction is left: %u", op);
    }
}

static uint32_t
number_of(const module *m, uint32_t id)
{
    cr_assert_eq(op_at(m, known->at[id]), 43, "id %u is no constant", id);
    return m->w[known->at[id] + 3];
}

/* The use of a matrix type, of an array of them, or of a pointer to either. */
static uint32_t
use_of_type(const module *m, uint32_t type)
{
    const uint32_t *w = m->w + known->at[type];
    switch (w[0] & 0xffff) {
    case DOP_SPV_TYPE_MATRIX_KHR:
        return number_of(m, w[6]);
    case 28:
        return use_of_type(m, w[2]);
    case 32:
        return use_of_type(m, w[3]);
    default:
        return 99;
    }
}

static uint32_t
use_of(const module *m, uint32_t id)
{
    cr_assert(known->type[id], "id %u has no type", id);
    return use_of_type(m, known->type[id]);
}

typedef struct counts {
    uint32_t matrix_types, loads, stores, products, row_major;
} counts;

/* Products get an A, a B and a sum; loads and stores of memory operands, copies and calls agree with themselves. */
static counts
check(const module *m)
{
    counts c = {0};
    take_down(m);
    for (size_t at = 5; at < m->n; at += len_at(m, at)) {
        const uint32_t *w = m->w + at;
        uint32_t op = op_at(m, at);
        if (op == 17)
            cr_assert_neq(w[1], SpvCapabilityCooperativeMatrixNV);
        if (op == 10)
            cr_assert_str_neq((const char *)(w + 1), "SPV_NV_cooperative_matrix");
        c.matrix_types += op == DOP_SPV_TYPE_MATRIX_KHR;
        if (op == DOP_SPV_MATRIX_MUL_ADD_KHR) {
            cr_assert_eq(use_of(m, w[3]), DOP_MATRIX_A);
            cr_assert_eq(use_of(m, w[4]), DOP_MATRIX_B);
            cr_assert_eq(use_of(m, w[5]), DOP_MATRIX_SUM);
            cr_assert_eq(use_of(m, w[2]), DOP_MATRIX_SUM);
            c.products++;
        } else if (op == DOP_SPV_MATRIX_LOAD_KHR || op == DOP_SPV_MATRIX_STORE_KHR) {
            uint32_t layout = number_of(m, w[op == DOP_SPV_MATRIX_LOAD_KHR ? 4 : 3]);
            cr_assert_leq(layout, 1);
            c.row_major += layout == 0;
            c.loads += op == DOP_SPV_MATRIX_LOAD_KHR;
            c.stores += op == DOP_SPV_MATRIX_STORE_KHR;
        } else if (op == 61 && use_of(m, w[2]) != 99) { /* OpLoad */
            cr_assert_eq(use_of(m, w[2]), use_of(m, w[3]));
        } else if (op == 62 && use_of(m, w[2]) != 99) { /* OpStore */
            cr_assert_eq(use_of(m, w[1]), use_of(m, w[2]));
        } else if (op == 65 && use_of(m, w[2]) != 99) { /* OpAccessChain */
            cr_assert_eq(use_of(m, w[2]), use_of(m, w[3]));
        } else if (op == 57) { /* OpFunctionCall: the called function's type has the arguments' types */
            const uint32_t *f = m->w + known->at[w[3]], *type = m->w + known->at[f[4]];
            cr_assert_eq(type[2], w[1]);
            for (uint32_t i = 4; i < len_at(m, at); i++)
                cr_assert_eq(type[i - 1], known->type[w[i]], "argument %u of a call", i - 4);
        }
    }
    return c;
}

static counts
made(const char *body, bool optimized)
{
    module nv = compile(body, optimized), khr;
    dop_diag diag;
    cr_assert_eq(rewrite(&nv, &khr, &diag), DOP_OK, "%s", diag.message);
    counts c = check(&khr);
    finish(&nv);
    finish(&khr);
    return c;
}

static const char product[] = "void main() {\n"
                              "    FACTOR a, b;\n"
                              "    SUM s = SUM(0.0);\n"
                              "    coopMatLoadNV(a, words, 0, 2, false);\n"
                              "    coopMatLoadNV(b, words, 64, 2, true);\n"
                              "    s = coopMatMulAddNV(a, b, s);\n"
                              "    coopMatStoreNV(s, numbers, 0, 16, false);\n"
                              "}\n";

Test(khr_matrix, one_type_becomes_three)
{
    for (int optimized = 0; optimized < 2; optimized++) {
        counts c = made(product, optimized);
        cr_expect_eq(c.matrix_types, 3);
        cr_expect_eq(c.products, 1);
        cr_expect_eq(c.loads, 2);
        cr_expect_eq(c.stores, 1);
        cr_expect_eq(c.row_major, 2);
    }
}

/* Sums are changed element by element, and pass through memory as f16 ones to become a factor. */
Test(khr_matrix, elements_and_sums_of_halves)
{
    static const char text[] = "void main() {\n"
                               "    FACTOR a, b, p;\n"
                               "    SUM s = SUM(0.0);\n"
                               "    coopMatLoadNV(a, words, 0, 2, false);\n"
                               "    coopMatLoadNV(b, words, 64, 2, true);\n"
                               "    s = coopMatMulAddNV(a, b, s);\n"
                               "    for (uint e = 0u; e < 8u; e++)\n"
                               "        s[e] = exp2(s[e]);\n"
                               "    FACTOR h = FACTOR(s);\n"
                               "    coopMatStoreNV(h, words, 0, 2, false);\n"
                               "    coopMatLoadNV(p, words, 0, 2, false);\n"
                               "    s = coopMatMulAddNV(p, b, s);\n"
                               "    coopMatStoreNV(s, numbers, 0, 16, false);\n"
                               "}\n";
    for (int optimized = 0; optimized < 2; optimized++) {
        counts c = made(text, optimized);
        cr_expect_eq(c.matrix_types, 4);
        cr_expect_eq(c.products, 2);
        cr_expect_eq(c.stores, 2);
    }
}

Test(khr_matrix, arrays_and_functions)
{
    static const char text[] = "SUM twice(FACTOR q[2], SUM s) {\n"
                               "    FACTOR k[2];\n"
                               "    for (uint i = 0; i < 2; i++) {\n"
                               "        coopMatLoadNV(k[i], words, 64 * i, 2, true);\n"
                               "        s = coopMatMulAddNV(q[i], k[i], s);\n"
                               "    }\n"
                               "    return s;\n"
                               "}\n"
                               "SUM other(FACTOR q[2], SUM s) {\n" /* the same signature, but q is a second factor */
                               "    FACTOR k;\n"
                               "    coopMatLoadNV(k, words, 0, 2, true);\n"
                               "    return coopMatMulAddNV(k, q[1], s);\n"
                               "}\n"
                               "void main() {\n"
                               "    FACTOR q[2], r[2];\n"
                               "    for (uint i = 0; i < 2; i++) {\n"
                               "        coopMatLoadNV(q[i], words, 64 * i, 2, false);\n"
                               "        coopMatLoadNV(r[i], words, 64 * i, 2, true);\n"
                               "    }\n"
                               "    SUM s = other(r, twice(q, SUM(0.0)));\n"
                               "    coopMatStoreNV(s, numbers, 0, 16, false);\n"
                               "}\n";
    for (int optimized = 0; optimized < 2; optimized++) {
        counts c = made(text, optimized);
        cr_expect_eq(c.matrix_types, 3);
        cr_expect_geq(c.products, 2);
    }
}

/* The optimizer leaves types of what it removes.  A matrix type that nothing uses is left out, with its name and what is made of it. */
Test(khr_matrix, types_without_uses_are_left_out)
{
    module nv = compile(product, true), more = {{0}, NULL, 0}, khr;
    const uint32_t idle = nv.w[3], pointer = idle + 1;
    uint32_t last = 0, first = 0;
    for (uint32_t at = 5; at < nv.n; at += len_at(&nv, at)) {
        last = op_at(&nv, at) == SpvOpTypeCooperativeMatrixNV ? at : last;
        first = !first && op_at(&nv, at) == 71 ? at : first;
    }
    cr_assert(first && last);
    const uint32_t *type = nv.w + last, end = last + len_at(&nv, last);
    dop_buf_append(&more.bytes, nv.w, first * 4);
    dop_buf_append(&more.bytes, (uint32_t[]){3u << 16 | 5, idle, 0x656c64}, 12); /* OpName "dle" */
    dop_buf_append(&more.bytes, nv.w + first, (end - first) * 4);
    dop_buf_append(&more.bytes, (uint32_t[]){type[0], idle, type[2], type[3], type[5], type[4]}, 24);
    dop_buf_append(&more.bytes, (uint32_t[]){4u << 16 | 32, pointer, 7, idle}, 16);
    dop_buf_append(&more.bytes, nv.w + end, (nv.n - end) * 4);
    ((uint32_t *)(void *)more.bytes.data)[3] = pointer + 1;
    view(&more);
    dop_diag diag;
    cr_assert_eq(rewrite(&more, &khr, &diag), DOP_OK, "%s", diag.message);
    cr_expect_eq(check(&khr).matrix_types, 3);
    for (size_t at = 5; at < khr.n; at += len_at(&khr, at))
        cr_expect(op_at(&khr, at) != 5 || khr.w[at + 1] != idle, "a name is left");
    finish(&nv);
    finish(&more);
    finish(&khr);
}

/* The same constant for a factor and for another: each gets one of its type.  (The optimizer of 2023 stops at them.) */
Test(khr_matrix, constants_in_several_uses)
{
    static const char text[] = "void main() {\n"
                               "    SUM s = coopMatMulAddNV(FACTOR(1.0), FACTOR(1.0), SUM(0.0));\n"
                               "    s = s + SUM(2.0);\n"
                               "    s = -s * 0.5;\n"
                               "    coopMatStoreNV(s, numbers, 0, 16, false);\n"
                               "}\n";
    counts c = made(text, false);
    cr_expect_eq(c.products, 1);
    cr_expect_eq(c.matrix_types, 3);
}

/* Sums become factors only through a conversion, which keeps the use: there is none to a factor. */
Test(khr_matrix, one_matrix_of_two_uses)
{
    static const char text[] = "void main() {\n"
                               "    FACTOR a;\n"
                               "    SUM s = SUM(0.0);\n"
                               "    coopMatLoadNV(a, words, 0, 2, false);\n"
                               "    s = coopMatMulAddNV(a, a, s);\n"
                               "    coopMatStoreNV(s, numbers, 0, 16, false);\n"
                               "}\n";
    module nv = compile(text, true), khr;
    dop_diag diag;
    cr_expect_eq(rewrite(&nv, &khr, &diag), DOP_E_INTERNAL);
    cr_expect(strstr(diag.message, "kernel test: KHR form of its matrices: a matrix of two uses"), "%s", diag.message);
    cr_expect_eq(khr.bytes.size, 0);
    finish(&nv);
    finish(&khr);
}

Test(khr_matrix, no_matrices_no_change)
{
    module nv = compile("void main() { numbers[0] = 1.0; }\n", true), khr;
    dop_diag diag;
    cr_assert_eq(rewrite(&nv, &khr, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(nv.bytes.size, khr.bytes.size);
    cr_expect_eq(memcmp(nv.w, khr.w, nv.bytes.size), 0);
    finish(&nv);
    finish(&khr);
}

/* Whatever a word says, it is a module or an error. */
Test(khr_matrix, damaged_modules)
{
    module nv = compile(product, true), khr;
    uint32_t *w = (uint32_t *)(void *)nv.bytes.data;
    uint32_t values[] = {0, 1, 0xffffffffu, 0x00010000u, w[3], w[3] - 1};
    dop_diag diag;
    uint32_t refused = 0;
    for (size_t at = 0; at < nv.n; at++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            uint32_t keep = w[at];
            w[at] = values[i];
            refused += rewrite(&nv, &khr, &diag) != DOP_OK;
            finish(&khr);
            w[at] = keep;
        }
    for (size_t n = 0; n < nv.n; n++) {
        module part = {.w = nv.w, .n = n};
        (void)rewrite(&part, &khr, &diag);
        finish(&khr);
    }
    cr_expect_gt(refused, 100);
    finish(&nv);
}
