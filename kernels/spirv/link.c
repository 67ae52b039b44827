#include "kernels/spirv/link.h"

#include "kernels/spirv/spirv.h"

/* The header defines a non-static constant of this name; renamed to avoid clashes. */
#define kDefaultMaxIdBound dop_link_max_id_bound
#include <spirv-tools/libspirv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_BUILT_IN = -1, MAX_POOLS = 64 };

/* An instruction of a module. */
typedef struct inst {
    uint32_t op, first, n; /* opcode; index of the first word; number of words */
    uint32_t type, result; /* ids of the result's type and of the result; 0: none */
} inst;

typedef struct module {
    dop_buf words, is_id; /* words of all instructions (uint32_t); 1 for words that are ids (uint8_t) */
    dop_buf insts;
    uint32_t bound, version, main;
    uint32_t *map;     /* id -> id in the result, 0: not assigned yet */
    uint32_t *defined; /* id -> index of its instruction + 1 */
    int32_t *built_in; /* id -> its BuiltIn decoration, or NO_BUILT_IN */
    bool *dropped;     /* id -> replaced by another module's id, which is already decorated */
} module;

/* A Workgroup variable that arrays or scalars of several modules share. */
typedef struct pool {
    uint32_t element, length; /* id of the element type; number of elements, 0: a scalar */
    uint32_t id;
} pool;

typedef struct linker {
    dop_diag *diag;
    uint32_t next_id;
    dop_buf capabilities, extensions, imports, modes, decorations, globals, functions, interface;
    uint32_t memory_model[3]; /* the OpMemoryModel instruction */
    uint32_t stage_record;
    uint32_t built_ins[64]; /* BuiltIn -> id of its variable or constant, 0: none yet */
    uint32_t n_pools;
    pool pools[MAX_POOLS];
} linker;

static const inst *
insts(const module *m, uint32_t *n)
{
    *n = (uint32_t)(m->insts.size / sizeof(inst));
    return (const inst *)(const void *)m->insts.data;
}

static const uint32_t *
instruction_words(const module *m, const inst *i)
{
    return (const uint32_t *)(const void *)m->words.data + i->first;
}

/* --- reading ----------------------------------------------------------------------------------------------------------- */

static spv_result_t
on_header(void *user, spv_endianness_t endian, uint32_t magic, uint32_t version, uint32_t generator, uint32_t bound,
          uint32_t schema)
{
    module *m = user;
    (void)endian, (void)magic, (void)generator, (void)schema;
    m->bound = bound;
    m->version = version;
    return SPV_SUCCESS;
}

static bool
is_id_type(spv_operand_type_t t)
{
    return t == SPV_OPERAND_TYPE_ID || t == SPV_OPERAND_TYPE_TYPE_ID || t == SPV_OPERAND_TYPE_RESULT_ID ||
           t == SPV_OPERAND_TYPE_MEMORY_SEMANTICS_ID || t == SPV_OPERAND_TYPE_SCOPE_ID;
}

static spv_result_t
on_instruction(void *user, const spv_parsed_instruction_t *p)
{
    module *m = user;
    inst i = {p->opcode, (uint32_t)(m->words.size / 4), p->num_words, p->type_id, p->result_id};
    dop_buf_append(&m->words, p->words, p->num_words * 4u);
    size_t at = m->is_id.size;
    for (uint32_t k = 0; k < p->num_words; k++)
        dop_buf_append(&m->is_id, "", 1);
    if (m->is_id.failed)
        return SPV_ERROR_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < p->num_operands; k++)
        if (is_id_type(p->operands[k].type))
            m->is_id.data[at + p->operands[k].offset] = 1;
    dop_buf_append(&m->insts, &i, sizeof i);
    return m->words.failed || m->insts.failed ? SPV_ERROR_OUT_OF_MEMORY : SPV_SUCCESS;
}

static void
module_finish(module *m)
{
    dop_buf_finish(&m->words);
    dop_buf_finish(&m->is_id);
    dop_buf_finish(&m->insts);
    free(m->map);
    free(m->defined);
    free(m->built_in);
    free(m->dropped);
}

static dop_status
module_read(const dop_buf *spirv, dop_diag *diag, module *out)
{
    module *m = out;
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    spv_result_t r = context ? spvBinaryParse(context, m, (const uint32_t *)(const void *)spirv->data, spirv->size / 4,
                                              on_header, on_instruction, NULL)
                             : SPV_ERROR_OUT_OF_MEMORY;
    spvContextDestroy(context);
    if (r == SPV_ERROR_OUT_OF_MEMORY)
        return DOP_NO_MEMORY(diag);
    if (r != SPV_SUCCESS)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "linking kernels: a module cannot be read (%d)", (int)r);
    m->map = calloc(m->bound, sizeof *m->map);
    m->defined = calloc(m->bound, sizeof *m->defined);
    m->built_in = calloc(m->bound, sizeof *m->built_in);
    m->dropped = calloc(m->bound, sizeof *m->dropped);
    if (!m->map || !m->defined || !m->built_in || !m->dropped)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < m->bound; i++)
        m->built_in[i] = NO_BUILT_IN;
    uint32_t n;
    const inst *list = insts(m, &n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *w = instruction_words(m, &list[i]);
        if (list[i].result)
            m->defined[list[i].result] = i + 1;
        if (list[i].op == SpvOpDecorate && list[i].n == 4 && w[2] == SpvDecorationBuiltIn)
            m->built_in[w[1]] = (int32_t)w[3];
        if (list[i].op == SpvOpEntryPoint)
            m->main = w[2];
    }
    return DOP_OK;
}

/* --- ids --------------------------------------------------------------------------------------------------------------- */

static uint32_t
map_id(linker *l, module *m, uint32_t id)
{
    if (!m->map[id])
        m->map[id] = l->next_id++;
    return m->map[id];
}

static void
copy_instruction(linker *l, module *m, const inst *i, dop_buf *out)
{
    const uint32_t *w = instruction_words(m, i);
    const size_t before = out->size;
    dop_buf_append(out, w, 4);
    for (uint32_t k = 1; k < i->n; k++) {
        uint32_t word = m->is_id.data[i->first + k] ? map_id(l, m, w[k]) : w[k];
        dop_buf_append(out, &word, 4);
    }
    if (out->failed) /* find_same reads only complete instructions */
        out->size = before;
}

/* Finds an instruction in `out` that equals these words except for its result. Returns the id of its result (1 if it has
 * none); 0: not found. */
static uint32_t
find_same(const dop_buf *out, const uint32_t *w, uint32_t n, uint32_t result_at)
{
    const uint32_t *p = (const uint32_t *)(const void *)out->data;
    for (size_t at = 0; at < out->size / 4; at += dop_spv_len(p + at)) {
        bool same = p[at] == w[0];
        for (uint32_t k = 1; k < n && same; k++)
            same = k == result_at || p[at + k] == w[k];
        if (same)
            return result_at ? p[at + result_at] : 1;
    }
    return 0;
}

/* Appends the instruction unless `out` has an equal one. In that case maps the instruction's result to that of the equal
 * one. */
static void
copy_once(linker *l, module *m, const inst *i, dop_buf *out)
{
    uint32_t words[64];
    const uint32_t *w = instruction_words(m, i);
    uint32_t at = i->result ? i->type ? 2 : 1 : 0;
    if (i->n > 64 || (i->result && m->map[i->result])) {
        copy_instruction(l, m, i, out);
        return;
    }
    for (uint32_t k = 0; k < i->n; k++)
        words[k] = k != at && m->is_id.data[i->first + k] ? map_id(l, m, w[k]) : w[k];
    uint32_t same = find_same(out, words, i->n, at);
    if (same && i->result)
        m->map[i->result] = same;
    else if (!same)
        copy_instruction(l, m, i, out);
}

/* --- module scope ------------------------------------------------------------------------------------------------------ */

static const inst *
definition(const module *m, uint32_t id)
{
    uint32_t n;
    return insts(m, &n) + m->defined[id] - 1;
}

/* Returns the number of elements of a Workgroup variable; 0 if it is not an array. */
static uint32_t
shared_length(const module *m, const inst *i)
{
    const inst *type = definition(m, instruction_words(m, definition(m, instruction_words(m, i)[1]))[3]);
    return type->op == SpvOpTypeArray ? instruction_words(m, definition(m, instruction_words(m, type)[3]))[3] : 0;
}

/* Maps a module's Workgroup variable to the stage record (a struct), or to a pool. */
static dop_status
add_shared(linker *l, module *m, const inst *i, bool *used)
{
    const uint32_t *w = instruction_words(m, i);
    const inst *type = definition(m, instruction_words(m, definition(m, w[1]))[3]);
    if (type->op == SpvOpTypeStruct) {
        if (!l->stage_record) {
            copy_instruction(l, m, i, &l->globals);
            l->stage_record = map_id(l, m, w[2]);
            dop_buf_append(&l->interface, &l->stage_record, 4);
        }
        m->map[w[2]] = l->stage_record;
        return DOP_OK;
    }
    bool array = type->op == SpvOpTypeArray;
    const uint32_t *t = instruction_words(m, type);
    uint32_t element = map_id(l, m, array ? t[2] : t[1]), k = 0;
    uint32_t length = shared_length(m, i);
    while (k < l->n_pools && (used[k] || l->pools[k].element != element || (l->pools[k].length == 0) != (length == 0)))
        k++;
    if (k == MAX_POOLS)
        return DOP_FAIL(l->diag, DOP_E_INTERNAL, "linking kernels: too many shared variables");
    if (k == l->n_pools)
        l->pools[l->n_pools++] = (pool){element, length, l->next_id++};
    if (length > l->pools[k].length)
        l->pools[k].length = length;
    used[k] = true;
    m->map[w[2]] = l->pools[k].id;
    return DOP_OK;
}

static dop_status
add_global(linker *l, module *m, const inst *i)
{
    const uint32_t *w = instruction_words(m, i);
    int32_t b = i->result ? m->built_in[i->result] : NO_BUILT_IN;
    if (b != NO_BUILT_IN) {
        if (b >= 64)
            return DOP_FAIL(l->diag, DOP_E_INTERNAL, "linking kernels: built-in variable %d", b);
        if (l->built_ins[b]) {
            m->map[i->result] = l->built_ins[b];
            m->dropped[i->result] = true;
            return DOP_OK;
        }
        l->built_ins[b] = map_id(l, m, i->result);
    }
    if (i->op == SpvOpVariable && w[3] == SpvStorageClassWorkgroup)
        return DOP_OK; /* processed by add_all_shared */
    bool value = (i->op >= SpvOpTypeVoid && i->op <= SpvOpTypeMatrix) || i->op == SpvOpTypePointer ||
                 i->op == SpvOpTypeFunction || (i->op >= SpvOpConstantTrue && i->op <= SpvOpConstantComposite);
    if (value)
        copy_once(l, m, i, &l->globals);
    else
        copy_instruction(l, m, i, &l->globals);
    if (i->op == SpvOpVariable) {
        uint32_t id = map_id(l, m, w[2]);
        dop_buf_append(&l->interface, &id, 4);
    }
    return DOP_OK;
}

/* Assigns shared variables to pools, longest first, so that long variables share memory with long ones. */
static dop_status
add_all_shared(linker *l, module *m)
{
    bool used[MAX_POOLS] = {false}; /* pools in which this module already has a variable */
    uint32_t n, last = UINT32_MAX, last_at = 0;
    const inst *list = insts(m, &n);
    for (;;) {
        uint32_t best = 0, best_at = n;
        for (uint32_t i = 0; i < n && list[i].op != SpvOpFunction; i++) {
            if (list[i].op != SpvOpVariable || instruction_words(m, &list[i])[3] != SpvStorageClassWorkgroup)
                continue;
            uint32_t length = shared_length(m, &list[i]);
            bool later = length < last || (length == last && i > last_at);
            if (later && (best_at == n || length > best)) {
                best = length;
                best_at = i;
            }
        }
        if (best_at == n)
            return DOP_OK;
        dop_status st = add_shared(l, m, &list[best_at], used);
        if (st != DOP_OK)
            return st;
        last = best;
        last_at = best_at;
    }
}

static bool
is_debug(uint32_t op)
{
    return (op >= SpvOpSourceContinued && op <= SpvOpLine) || op == SpvOpNoLine || op == SpvOpModuleProcessed;
}

/* Merges memory models. They must be equal, except that some modules may not need addresses. */
static dop_status
add_memory_model(linker *l, const uint32_t *w)
{
    if (l->memory_model[0] && l->memory_model[2] != w[2])
        return DOP_FAIL(l->diag, DOP_E_INTERNAL, "linking kernels: memory models %u and %u", l->memory_model[2], w[2]);
    if (!l->memory_model[0] || l->memory_model[1] == SpvAddressingModelLogical)
        memcpy(l->memory_model, w, sizeof l->memory_model);
    return DOP_OK;
}

/* Adds everything before the functions. Decorations come last, when it is known which ids are replaced by another
 * module's. */
static dop_status
add_module_scope(linker *l, module *m, bool root)
{
    uint32_t n;
    const inst *list = insts(m, &n);
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < n && list[i].op != SpvOpFunction; i++) {
        uint32_t op = list[i].op;
        if (is_debug(op) || op == SpvOpEntryPoint || op == SpvOpDecorate || op == SpvOpMemberDecorate)
            continue;
        if (op == SpvOpCapability)
            copy_once(l, m, &list[i], &l->capabilities);
        else if (op == SpvOpExtension)
            copy_once(l, m, &list[i], &l->extensions);
        else if (op == SpvOpExtInstImport)
            copy_once(l, m, &list[i], &l->imports);
        else if (op == SpvOpMemoryModel)
            DOP_TRY(add_memory_model(l, instruction_words(m, &list[i])));
        else if (op == SpvOpExecutionMode && root)
            copy_instruction(l, m, &list[i], &l->modes);
        else if (op != SpvOpExecutionMode)
            DOP_TRY(add_global(l, m, &list[i]));
    }
    DOP_TRY(add_all_shared(l, m));
error:
    for (uint32_t i = 0; i < n && list[i].op != SpvOpFunction; i++)
        if ((list[i].op == SpvOpDecorate || list[i].op == SpvOpMemberDecorate) &&
            !m->dropped[instruction_words(m, &list[i])[1]])
            copy_instruction(l, m, &list[i], &l->decorations);
    return st;
}

static void
add_functions(linker *l, module *m, const bool *skipped)
{
    uint32_t n, i = 0;
    const inst *list = insts(m, &n);
    while (i < n && list[i].op != SpvOpFunction)
        i++;
    for (bool skip = false; i < n; i++) {
        if (list[i].op == SpvOpFunction)
            skip = skipped && skipped[list[i].result];
        if (!skip && list[i].op != SpvOpLine && list[i].op != SpvOpNoLine)
            copy_instruction(l, m, &list[i], &l->functions);
    }
}

/* Adds the root's functions, with calls of its placeholders redirected to the stages' main functions. */
static dop_status
add_root(linker *l, module *root, const uint32_t *mains, uint32_t n_stages)
{
    uint32_t n, found = 0;
    const inst *list = insts(root, &n);
    bool *skipped = calloc(root->bound, sizeof *skipped);
    if (!skipped)
        return DOP_NO_MEMORY(l->diag);
    for (uint32_t i = 0; i < n; i++) {
        unsigned stage;
        const uint32_t *w = instruction_words(root, &list[i]);
        if (list[i].op == SpvOpName && sscanf((const char *)(const void *)(w + 2), "dop_stage_%u(", &stage) == 1 &&
            stage < n_stages) {
            root->map[w[1]] = mains[stage];
            skipped[w[1]] = true;
            found++;
        }
    }
    add_functions(l, root, skipped);
    free(skipped);
    return found == n_stages
               ? DOP_OK
               : DOP_FAIL(l->diag, DOP_E_INTERNAL, "linking kernels: %u of %u stages have a place", found, n_stages);
}

/* --- writing ----------------------------------------------------------------------------------------------------------- */

static void
append_instruction(dop_buf *out, uint32_t op, const uint32_t *operands, uint32_t n)
{
    uint32_t first = (n + 1) << 16 | op;
    dop_buf_append(out, &first, 4);
    dop_buf_append(out, operands, n * 4u);
}

/* Returns the result id of an instruction in `globals`, which is added unless it exists. */
static uint32_t
result_of(linker *l, uint32_t op, uint32_t *operands, uint32_t n, uint32_t result_at)
{
    uint32_t words[8] = {(n + 1) << 16 | op};
    memcpy(words + 1, operands, n * sizeof *operands);
    uint32_t same = find_same(&l->globals, words, n + 1, result_at);
    if (same)
        return same;
    operands[result_at - 1] = l->next_id++;
    append_instruction(&l->globals, op, operands, n);
    return operands[result_at - 1];
}

static void
write_pools(linker *l)
{
    for (uint32_t i = 0; i < l->n_pools; i++) {
        const pool *p = &l->pools[i];
        uint32_t type = p->element;
        if (p->length > 0) {
            uint32_t u32 = result_of(l, SpvOpTypeInt, (uint32_t[]){0, 32, 0}, 3, 1);
            uint32_t length = result_of(l, SpvOpConstant, (uint32_t[]){u32, 0, p->length}, 3, 2);
            type = l->next_id++;
            append_instruction(&l->globals, SpvOpTypeArray, (uint32_t[]){type, p->element, length}, 3);
        }
        uint32_t pointer = result_of(l, SpvOpTypePointer, (uint32_t[]){0, SpvStorageClassWorkgroup, type}, 3, 1);
        append_instruction(&l->globals, SpvOpVariable, (uint32_t[]){pointer, p->id, SpvStorageClassWorkgroup}, 3);
        dop_buf_append(&l->interface, &p->id, 4);
    }
}

static void
write_linked_module(linker *l, module *root, dop_buf *out)
{
    const uint32_t header[] = {SpvMagicNumber, root->version, 0, l->next_id, 0};
    dop_buf entry = {0};
    const uint32_t name[] = {SpvExecutionModelGLCompute, map_id(l, root, root->main), 0x6e69616d /* "main" */, 0};
    dop_buf_append(&entry, name, sizeof name);
    dop_buf_append(&entry, l->interface.data, l->interface.size);
    dop_buf_append(out, header, sizeof header);
    const dop_buf *before[] = {&l->capabilities, &l->extensions, &l->imports},
                  *after[] = {&l->modes, &l->decorations, &l->globals, &l->functions};
    for (size_t i = 0; i < 3; i++)
        dop_buf_append(out, before[i]->data, before[i]->size);
    dop_buf_append(out, l->memory_model, sizeof l->memory_model);
    append_instruction(out, SpvOpEntryPoint, (const uint32_t *)(const void *)entry.data, (uint32_t)(entry.size / 4));
    for (size_t i = 0; i < 4; i++)
        dop_buf_append(out, after[i]->data, after[i]->size);
    dop_buf_finish(&entry);
}

static void
linker_finish(linker *l)
{
    dop_buf *all[] = {&l->capabilities, &l->extensions, &l->imports,   &l->modes,
                      &l->decorations,  &l->globals,    &l->functions, &l->interface};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        dop_buf_finish(all[i]);
}

dop_status
dop_link(const dop_buf *root, const dop_buf *stages, uint32_t n_stages, dop_diag *diag, dop_buf *out_spirv)
{
    linker l = {.diag = diag, .next_id = 1};
    const uint64_t failures = dop_buf_failures();
    module top = {0}, *parts = calloc(n_stages + 1, sizeof *parts);
    uint32_t *mains = calloc(n_stages + 1, sizeof *mains);
    dop_status st = DOP_OK;
    DOP_TRY(parts && mains ? module_read(root, diag, &top) : DOP_NO_MEMORY(diag));
    DOP_TRY(add_module_scope(&l, &top, true));
    for (uint32_t i = 0; i < n_stages; i++) {
        DOP_TRY(module_read(&stages[i], diag, &parts[i]));
        DOP_TRY(add_module_scope(&l, &parts[i], false));
        mains[i] = map_id(&l, &parts[i], parts[i].main);
        add_functions(&l, &parts[i], NULL);
    }
    if (!l.stage_record)
        DOP_TRY(DOP_FAIL(diag, DOP_E_INTERNAL, "linking kernels: the root has no stage record"));
    DOP_TRY(add_root(&l, &top, mains, n_stages));
    write_pools(&l);
    write_linked_module(&l, &top, out_spirv);
    if (dop_buf_failures() != failures)
        DOP_TRY(DOP_NO_MEMORY(diag));
error:
    module_finish(&top);
    for (uint32_t i = 0; parts && i < n_stages; i++)
        module_finish(&parts[i]);
    free(parts);
    free(mains);
    linker_finish(&l);
    return st;
}

void
dop_shader_compiler_describe(dop_buf *out)
{
    dop_buf_printf(out, "shaderc %s, SPIRV-Tools %s", DOP_SHADERC_VERSION, spvSoftwareVersionString());
}
