/* Reads and prints the section `schedule` of target files: numbers and tables of ir/schedule_numbers.def. */
#include "base/storage/types.h"
#include "compiler/target/target_files.h"

#include <stdlib.h>
#include <string.h>

enum { TILE_UNIT = 16, PART_UNIT = 8, TOKENS_OF_PART = 3, ROWS_OF_PART = 4 };
enum { MOST_TILE = 4096, MOST_NUMBER = 1 << 24 };

static const struct number {
    const char *name;
    size_t offset;
    uint32_t least;
} numbers[] = {
#define NUMBER(name, least, what) {#name, offsetof(dop_schedule_numbers, name), least},
#define TABLE(name, row, most, tiles, words, what)
#include "ir/schedule_numbers.def"
#undef NUMBER
#undef TABLE
};

static const struct table {
    const char *name;
    size_t offset, count; /* byte offsets in dop_schedule_numbers: the table's rows, and its row count */
    uint32_t columns, most, tiles;
    const char *words;
} tables[] = {
#define NUMBER(name, least, what)
#define TABLE(name, row, most, tiles, words, what) \
    {#name,                                        \
     offsetof(dop_schedule_numbers, name),         \
     offsetof(dop_schedule_numbers, n_##name),     \
     sizeof(row) / 4,                              \
     most,                                         \
     tiles,                                        \
     words},
#include "ir/schedule_numbers.def"
#undef NUMBER
#undef TABLE
};

static bool
read_schedule_number(const char *text, uint32_t *out)
{
    char *end = NULL;
    const unsigned long n = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : MOST_NUMBER + 1ul;
    *out = (uint32_t)n;
    return n <= MOST_NUMBER && !*end;
}

/* Finds the index of a word in a list of words separated by blanks. */
static bool
read_table_word(const char *words, const char *text, uint32_t *out)
{
    const size_t len = text ? strlen(text) : 0;
    *out = 0;
    for (const char *at = words; at && len; at = *at ? at + 1 : NULL, ++*out) {
        const size_t n = strcspn(at, " ");
        if (n == len && memcmp(at, text, n) == 0)
            return true;
        at += n;
    }
    return false;
}

static bool
read_storage_type(const char *text, uint32_t *out)
{
    dop_type type;
    const bool good = text && dop_type_parse(text, strlen(text), &type);
    *out = good ? (uint32_t)type : 0;
    return good;
}

/* Returns the unit of a column: a tile size must be a multiple of it. A subgroup's share of a tile (its tokens and
 * weight rows) may be 8, because some matrix units have 8 rows or columns. All other tile sizes are multiples of 16. */
static uint32_t
get_tile_unit(const struct table *t, uint32_t column)
{
    const bool parts = t->offset == offsetof(dop_schedule_numbers, coop_tiles) ||
                       t->offset == offsetof(dop_schedule_numbers, coop_block_tiles);
    return parts && (column == TOKENS_OF_PART || column == ROWS_OF_PART) ? PART_UNIT : TILE_UNIT;
}

static dop_status
read_table_row(const struct table *t, const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag,
               uint32_t *out)
{
    if (list->type != YAML_SEQUENCE_NODE ||
        list->data.sequence.items.top - list->data.sequence.items.start != (ptrdiff_t)t->columns)
        return DOP_FAIL_NODE(diag, path, list, "schedule: %s: expected rows of %u values", t->name, t->columns);
    for (uint32_t i = 0; i < t->columns; i++) {
        const yaml_node_t *node = yaml_document_get_node(doc, list->data.sequence.items.start[i]);
        const char *text = dop_yaml_text(node);
        const bool last = i + 1 == t->columns;
        const bool good = last && !t->words   ? read_storage_type(text, &out[i])
                          : last && *t->words ? read_table_word(t->words, text, &out[i])
                                              : read_schedule_number(text, &out[i]);
        if (!good)
            return DOP_FAIL_NODE(diag, path, node, "schedule: %s: %.40s is no value %u of its rows%s%s", t->name,
                                 text ? text : "a list", i + 1, last && t->words && *t->words ? "; known: " : "",
                                 last && t->words ? t->words : "");
        if (i < t->tiles && (out[i] == 0 || out[i] % get_tile_unit(t, i) || out[i] > MOST_TILE))
            return DOP_FAIL_NODE(diag, path, node, "schedule: %s: %s is no multiple of %d up to %d", t->name, text,
                                 (int)get_tile_unit(t, i), MOST_TILE);
    }
    return DOP_OK;
}

static dop_status
read_table(const struct table *t, const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag,
           dop_schedule_numbers *out)
{
    uint32_t *rows = (uint32_t *)(void *)((char *)out + t->offset), *n = (uint32_t *)(void *)((char *)out + t->count);
    if (list->type != YAML_SEQUENCE_NODE)
        return DOP_FAIL_NODE(diag, path, list, "schedule: %s: expected a list of rows", t->name);
    *n = 0;
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
        const yaml_node_t *row = yaml_document_get_node(doc, *i);
        if (*n == t->most)
            return DOP_FAIL_NODE(diag, path, row, "schedule: %s: more than %u rows", t->name, t->most);
        const dop_status st = read_table_row(t, row, doc, path, diag, rows + *n * t->columns);
        if (st != DOP_OK)
            return st;
        ++*n;
    }
    return DOP_OK;
}

static dop_status
read_key(const yaml_node_t *key, const yaml_node_t *value, yaml_document_t *doc, const char *path, dop_diag *diag,
         dop_schedule_numbers *out)
{
    const char *k = dop_yaml_text(key) ? dop_yaml_text(key) : "", *v = dop_yaml_text(value);
    if (strcmp(k, "like") == 0) /* load_yaml_target() has copied the numbers of that target */
        return v ? DOP_OK : DOP_FAIL_NODE(diag, path, value, "schedule: like: expected the name of a target");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strcmp(tables[i].name, k) == 0)
            return read_table(&tables[i], value, doc, path, diag, out);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, k) == 0) {
            uint32_t *at = (uint32_t *)(void *)((char *)out + numbers[i].offset);
            return read_schedule_number(v, at) && *at >= numbers[i].least
                       ? DOP_OK
                       : DOP_FAIL_NODE(diag, path, value, "schedule: %s: %.40s is not a whole number from %u to %d", k,
                                       v ? v : "a list", numbers[i].least, MOST_NUMBER);
        }
    return DOP_FAIL_NODE(diag, path, key, "schedule: unknown number %.40s", k);
}

/* Checks what kernels rely on: subgroup shares divide each tile, the last row of a list of tiles fits any product, and
 * each purpose of small tiles has a row. */
static dop_status
check_schedule_tiles(const dop_schedule_numbers *s, const char *path, dop_diag *diag)
{
    const struct {
        const char *name;
        const dop_coop_shape *rows;
        uint32_t n;
    } lists[] = {{"coop_tiles", s->coop_tiles, s->n_coop_tiles},
                 {"coop_block_tiles", s->coop_block_tiles, s->n_coop_block_tiles}};
    uint32_t purposes = 0;
    for (size_t l = 0; l < 2; l++) {
        const dop_coop_shape *x = lists[l].rows;
        for (uint32_t i = 0; i < lists[l].n; i++)
            if (x[i].bm % x[i].wm || x[i].bn % x[i].wn)
                return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                                   "schedule: %s: row %u: parts of subgroups do not divide the tile", lists[l].name,
                                   i + 1);
        if (lists[l].n == 0 || x[lists[l].n - 1].kind != DOP_SHAPE_ANY)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "schedule: %s: the last row must be of kind any",
                               lists[l].name);
    }
    for (uint32_t i = 0; i < s->n_small_tiles; i++)
        purposes |= 1u << s->small_tiles[i].list;
    if (purposes + 1 != 1u << DOP_N_FEW_LISTS)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "schedule: small_tiles: each purpose must have a row");
    if (s->n_attention_tiles == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "schedule: attention_tiles: there must be a row");
    for (uint32_t i = 0; i < s->n_attention_tiles; i++) {
        const dop_attention_groups *x[] = {&s->attention_tiles[i].many, &s->attention_tiles[i].few};
        for (size_t j = 0; j < 2; j++)
            if (x[j]->row_groups == 0 || x[j]->position_groups == 0 || x[j]->positions == 0 ||
                x[j]->positions % (TILE_UNIT * x[j]->position_groups))
                return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                                   "schedule: attention_tiles: row %u: positions are no multiples of 16 for each group",
                                   i + 1);
    }
    return DOP_OK;
}

dop_status
dop_target_read_schedule(const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
                         dop_schedule_numbers *io_schedule)
{
    if (node->type != YAML_MAPPING_NODE)
        return DOP_FAIL_NODE(diag, path, node, "schedule: expected the name of a target or a mapping of numbers");
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++)
        DOP_RETURN_IF_ERROR(read_key(yaml_document_get_node(doc, p->key), yaml_document_get_node(doc, p->value), doc,
                                     path, diag, io_schedule));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (*(const uint32_t *)(const void *)((const char *)io_schedule + numbers[i].offset) < numbers[i].least)
            return DOP_FAIL_NODE(diag, path, node, "schedule: %s is missing", numbers[i].name);
    return check_schedule_tiles(io_schedule, path, diag);
}

/* --- editing and printing numbers
 * ------------------------------------------------------------------------------------- */

uint32_t
dop_schedule_count(void)
{
    return (uint32_t)(sizeof numbers / sizeof *numbers);
}

uint32_t *
dop_schedule_number(dop_schedule_numbers *s, uint32_t i, const char **out_name, uint32_t *out_least)
{
    *out_name = numbers[i].name;
    *out_least = numbers[i].least;
    return (uint32_t *)(void *)((char *)s + numbers[i].offset);
}

uint32_t
dop_schedule_table_count(void)
{
    return (uint32_t)(sizeof tables / sizeof *tables);
}

const char *
dop_schedule_table_name(uint32_t table)
{
    return tables[table].name;
}

uint32_t
dop_schedule_table_rows(const dop_schedule_numbers *s, uint32_t table)
{
    return *(const uint32_t *)(const void *)((const char *)s + tables[table].count);
}

bool
dop_schedule_table_drop(dop_schedule_numbers *s, uint32_t table, uint32_t row)
{
    const struct table *t = &tables[table];
    const size_t bytes = t->columns * sizeof(uint32_t);
    char *rows = (char *)s + t->offset;
    uint32_t *n = (uint32_t *)(void *)((char *)s + t->count);
    dop_diag ignored = {0};
    if (row >= *n)
        return false;
    memmove(rows + row * bytes, rows + (row + 1) * bytes, (*n - row - 1) * bytes);
    --*n;
    return check_schedule_tiles(s, "", &ignored) == DOP_OK;
}

static void
print_row(const struct table *t, const uint32_t *row, dop_buf *out)
{
    dop_buf_puts(out, "    - [");
    for (uint32_t i = 0; i < t->columns; i++) {
        const char *comma = i ? ", " : "", *word = t->words;
        if (i + 1 < t->columns || (word && !*word)) {
            dop_buf_printf(out, "%s%u", comma, row[i]);
        } else if (!word) {
            dop_buf_printf(out, "%s%s", comma, dop_type_of((dop_type)row[i])->name);
        } else {
            for (uint32_t k = 0; k < row[i]; k++)
                word = strchr(word, ' ') + 1;
            dop_buf_printf(out, "%s%.*s", comma, (int)strcspn(word, " "), word);
        }
    }
    dop_buf_puts(out, "]\n");
}

uint32_t
dop_schedule_print(const dop_schedule_numbers *base, const dop_schedule_numbers *now, dop_buf *out)
{
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const uint32_t was = *(const uint32_t *)(const void *)((const char *)base + numbers[i].offset),
                       is = *(const uint32_t *)(const void *)((const char *)now + numbers[i].offset);
        if (was != is)
            dop_buf_printf(out, "  %s: %u # %u before\n", numbers[i].name, is, was);
        n += was != is;
    }
    for (uint32_t i = 0; i < dop_schedule_table_count(); i++) {
        const struct table *t = &tables[i];
        const size_t bytes = t->columns * sizeof(uint32_t);
        const char *rows = (const char *)now + t->offset;
        const uint32_t is = dop_schedule_table_rows(now, i), was = dop_schedule_table_rows(base, i);
        if (is == was && memcmp(rows, (const char *)base + t->offset, is * bytes) == 0)
            continue;
        n++;
        dop_buf_printf(out, "  %s:\n", t->name);
        for (uint32_t k = 0; k < is; k++)
            print_row(t, (const uint32_t *)(const void *)(rows + k * bytes), out);
    }
    return n;
}
