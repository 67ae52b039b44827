#include "compiler/parts/stage_times.h"

#include "base/yaml/yaml_fields.h"
#include "kernels/kernel.h"

#include <stdlib.h>
#include <string.h>

/* A row of the file: either the first row, a whole step or a kind of dispatch. */
typedef struct row {
    char device[128], driver[512], model[128], date[32];
    char step[16], op[64], kernel[40], storage[64];
    uint32_t rows, count, dispatches;
    double us, weights, bytes, products;
} row;

static const dop_field fields[] = {
    DOP_FIELD(row, COUNT, rows),      DOP_FIELD(row, COUNT, count),  DOP_FIELD(row, COUNT, dispatches),
    DOP_FIELD(row, POSITIVE, us),     DOP_FIELD(row, AMOUNT, bytes), DOP_FIELD(row, AMOUNT, weights),
    DOP_FIELD(row, AMOUNT, products), DOP_FIELD(row, TEXT, step),    DOP_FIELD(row, TEXT, op),
    DOP_FIELD(row, TEXT, kernel),
};
static const dop_field first_fields[] = {
    DOP_FIELD(row, TEXT, device), DOP_FIELD(row, TEXT, driver),
    DOP_FIELD(row, TEXT, model),  {"weights", DOP_FIELD_TEXT, offsetof(row, storage), sizeof((row *)NULL)->storage},
    DOP_FIELD(row, TEXT, date),
};
enum { N_FIELDS = sizeof fields / sizeof *fields, N_FIRST = sizeof first_fields / sizeof *first_fields };

static const char *const kinds[DOP_STEP_KINDS] = {"decode", "prefill", "rows"};

static dop_status
append_stage_time(dop_stage_times *io, const dop_stage_time *x, dop_diag *diag)
{
    if (io->n == io->cap) {
        const uint32_t cap = io->cap ? 2 * io->cap : 64;
        dop_stage_time *items = realloc(io->items, cap * sizeof *items);
        if (!items)
            return DOP_NO_MEMORY(diag);
        io->items = items;
        io->cap = cap;
    }
    io->items[io->n++] = *x;
    return DOP_OK;
}

/* Finds the measurement of x's stage that x replaces; NULL if there is none. */
static dop_stage_time *
find_stage_time(dop_stage_times *t, const dop_stage_time *x)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->items[i].step == x->step && t->items[i].rows == x->rows && strcmp(t->items[i].op, x->op) == 0 &&
            strcmp(t->items[i].kernel, x->kernel) == 0)
            return &t->items[i];
    return NULL;
}

static dop_status
read_stage_row(dop_yaml *y, const yaml_node_t *node, const char *path, dop_stage_times *io, dop_diag *diag)
{
    row r = {.rows = 0};
    uint32_t seen;
    dop_status st = DOP_OK;
    if (node->type == YAML_MAPPING_NODE && dop_yaml_value(y, node, "device")) {
        st = dop_yaml_fields(y, node, path, "where it was measured", first_fields, N_FIRST, diag, &r, &seen);
        memcpy(io->device, r.device, sizeof io->device);
        memcpy(io->model, r.model, sizeof io->model);
        memcpy(io->storage, r.storage, sizeof io->storage);
        return st;
    }
    st = dop_yaml_fields(y, node, path, "a stage time", fields, N_FIELDS, diag, &r, &seen);
    if (st != DOP_OK)
        return st;
    dop_stage_time x = {.rows = r.rows,
                        .count = r.op[0] ? r.count : r.dispatches,
                        .us = r.us,
                        .weights = r.weights,
                        .bytes = r.bytes,
                        .products = r.products};
    memcpy(x.op, r.op, sizeof x.op);
    memcpy(x.kernel, r.kernel, sizeof x.kernel);
    while (x.step < DOP_STEP_KINDS && strcmp(kinds[x.step], r.step) != 0)
        x.step++;
    if (x.step == DOP_STEP_KINDS)
        return DOP_FAIL_NODE(diag, path, node, "step is decode, prefill or rows");
    if (x.rows == 0 || x.us == 0 || x.bytes == 0 || x.count == 0)
        return DOP_FAIL_NODE(diag, path, node, "a stage time needs step, rows, us, bytes, and %s",
                             r.op[0] ? "count" : "dispatches");
    dop_stage_time *old = find_stage_time(io, &x);
    if (old)
        *old = x;
    return old ? DOP_OK : append_stage_time(io, &x, diag);
}

dop_status
dop_stage_times_add(dop_stage_times *io, const char *path, dop_diag *diag)
{
    dop_yaml y;
    dop_status st = dop_yaml_open(path, YAML_SEQUENCE_NODE, "a file of stage times is a list of rows", diag, &y);
    if (st != DOP_OK)
        return st;
    for (yaml_node_item_t *i = y.root->data.sequence.items.start; i < y.root->data.sequence.items.top && st == DOP_OK;
         i++)
        st = read_stage_row(&y, yaml_document_get_node(&y.doc, *i), path, io, diag);
    dop_yaml_close(&y);
    return st;
}

static const dop_stage_time *
find_whole_step(const dop_stage_times *t, dop_step_kind step, uint32_t rows)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->items[i].step == step && t->items[i].rows == rows && !t->items[i].op[0])
            return &t->items[i];
    return NULL;
}

dop_status
dop_stage_times_ready(dop_stage_times *io, const char *path, dop_diag *diag)
{
    for (uint32_t i = 0; i < io->n; i++) {
        const dop_stage_time *whole = find_whole_step(io, io->items[i].step, io->items[i].rows);
        if (!whole)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s of %s rows %u has no row of the whole step",
                               io->items[i].op, kinds[io->items[i].step], io->items[i].rows);
        if (whole != &io->items[i]) /* a stage, which is scaled with its whole step */
            continue;
        double sum = 0;
        for (uint32_t k = 0; k < io->n; k++)
            if (io->items[k].step == whole->step && io->items[k].rows == whole->rows && io->items[k].op[0])
                sum += io->items[k].us * io->items[k].count;
        for (uint32_t k = 0; k < io->n && sum > 0; k++)
            if (io->items[k].step == whole->step && io->items[k].rows == whole->rows && io->items[k].op[0])
                io->items[k].us *= whole->us / sum;
    }
    return io->n > 0 ? DOP_OK : DOP_FAIL_IN(diag, DOP_E_INPUT, path, "no stage times are in this file");
}

void
dop_stage_times_finish(dop_stage_times *t)
{
    free(t->items);
    memset(t, 0, sizeof *t);
}

/* Returns how similar a measured and the wanted dispatch are. 2: equal op and kernel; 1: equal op, kernels of one
 * template; 0: not similar. */
static int
rate_likeness(const dop_stage_time *x, const dop_stage_wanted *w)
{
    dop_variant_id a, b;
    if (strcmp(x->op, w->op) != 0)
        return 0;
    if (strcmp(x->kernel, w->kernel) == 0)
        return 2;
    return dop_variant_parse(x->kernel, &a) && dop_variant_parse(w->kernel, &b) &&
           dop_variant_of(a)->tpl == dop_variant_of(b)->tpl;
}

/* Returns the microseconds that the wanted dispatch would take with as many rows as the measured dispatch x. */
static double
scale_stage_time(const dop_stage_time *x, const dop_stage_wanted *w, double fixed_us, double byte_speed,
                 double product_speed)
{
    const double share = (double)x->rows / w->rows;
    const double fixed = fixed_us * (x->op[0] ? 1 : x->count), rest = x->us > fixed ? x->us - fixed : 0;
    const bool by_products = x->rows > DOP_STAGE_BYTES_ROWS && x->products > 0 && w->products > 0;
    const double ratio =
        by_products ? w->products * share / x->products : (w->weights + (w->bytes - w->weights) * share) / x->bytes;
    return (x->us < fixed ? x->us / (x->op[0] ? 1 : x->count) : fixed_us) +
           rest * ratio / (x->rows > DOP_STAGE_BYTES_ROWS ? product_speed : byte_speed);
}

double
dop_stage_times_of(const dop_stage_times *t, const dop_stage_wanted *w, double fixed_us, double byte_speed,
                   double product_speed, bool *out_guessed)
{
    const dop_stage_time *below = NULL, *above = NULL; /* measurements with the nearest row counts <= and > w->rows */
    int like[2] = {0, 0};
    bool any = false;
    for (uint32_t i = 0; i < t->n && !any; i++)
        any = t->items[i].step == w->step && rate_likeness(&t->items[i], w) > 0;
    *out_guessed = !any;
    for (uint32_t i = 0; i < t->n; i++) {
        const dop_stage_time *x = &t->items[i];
        const int how = x->step != w->step ? 0 : any ? rate_likeness(x, w) : !x->op[0];
        const bool more = x->rows > w->rows;
        const dop_stage_time **to = more ? &above : &below;
        if (how == 0)
            continue;
        const bool nearer = !*to || (more ? x->rows < (*to)->rows : x->rows > (*to)->rows);
        if (nearer || (x->rows == (*to)->rows && how > like[more])) {
            *to = x;
            like[more] = how;
        }
    }
    if (!below && !above)
        return -1;
    const double low = below ? scale_stage_time(below, w, fixed_us, byte_speed, product_speed) : 0;
    const double high = above ? scale_stage_time(above, w, fixed_us, byte_speed, product_speed) : 0;
    if (!below)
        return w->rows <= DOP_STAGE_BYTES_ROWS ? high : high * w->rows / above->rows;
    if (!above)
        return low * w->rows / below->rows;
    return low + (high - low) * (w->rows - below->rows) / (above->rows - below->rows);
}
