/* Results of --bench: a table for people, CSV and JSON for programs. */
#include "base/os/system.h"
#include "plan/plan_names.h"
#include "tools/bench/bench.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_COLUMNS = 13, CELL = 280 };
enum {
    C_PLAN,
    C_MODEL,
    C_WEIGHTS,
    C_SIZE,
    C_BACKEND,
    C_DEVICE,
    C_TEST,
    C_RATE,
    C_MEDIAN,
    C_GBPS,
    C_FLOOR,
    C_DRAFTS,
    C_RATIO
};

typedef struct table {
    char (*cells)[N_COLUMNS][CELL]; /* row 0 holds the headings */
    size_t n_rows;
    bool shown[N_COLUMNS];
} table;

static const char *
get_plan_text(const dop_bench_plan *p, uint32_t string)
{
    const char *s = dop_plan_string(p->info.plan, string);
    return s[0] ? s : "?";
}

static double
accepted_share(const dop_bench_row *r)
{
    return r->drafts.drafted ? (double)r->drafts.accepted / (double)r->drafts.drafted : 0;
}

static void
fill_row(const dop_bench *b, size_t plan, size_t test, char (*cell)[CELL])
{
    const dop_bench_plan *p = &b->plans[plan];
    const dop_bench_row *r = &b->rows[plan * b->n_tests + test];
    const dop_plan_model *m = p->info.plan->model;
    snprintf(cell[C_PLAN], CELL, "%s", dop_path_name(p->path));
    snprintf(cell[C_MODEL], CELL, "%s", get_plan_text(p, m->name));
    snprintf(cell[C_WEIGHTS], CELL, "%s", get_plan_text(p, m->quant));
    snprintf(cell[C_SIZE], CELL, "%.2f MiB", (double)p->weights_bytes / (1 << 20));
    snprintf(cell[C_BACKEND], CELL, "Vulkan");
    snprintf(cell[C_DEVICE], CELL, "%s", p->info.device->name);
    snprintf(cell[C_TEST], CELL, "%s", b->tests[test].name);
    snprintf(cell[C_RATE], CELL, "%.2f +- %.2f", r->mean, r->stddev);
    snprintf(cell[C_MEDIAN], CELL, "%.2f", r->median);
    if (r->gbps > 0)
        snprintf(cell[C_GBPS], CELL, "%.2f", r->gbps);
    if (r->floor_share > 0)
        snprintf(cell[C_FLOOR], CELL, "%.1f%%", 100 * r->floor_share);
    if (r->drafts.drafted > 0)
        snprintf(cell[C_DRAFTS], CELL, "%.1f%% of %llu, %llu of %llu rounds in doubt", 100 * accepted_share(r),
                 (unsigned long long)r->drafts.drafted, (unsigned long long)r->drafts.again,
                 (unsigned long long)r->drafts.steps);
    if (plan > 0)
        snprintf(cell[C_RATIO], CELL, "%.3f (%.3f .. %.3f)", r->ratio, r->ratio_min, r->ratio_max);
    else
        snprintf(cell[C_RATIO], CELL, "1");
}

static void
print_table(const table *t, dop_buf *out)
{
    int width[N_COLUMNS] = {0};
    for (size_t i = 0; i < t->n_rows; i++)
        for (int c = 0; c < N_COLUMNS; c++)
            if ((int)strlen(t->cells[i][c]) > width[c])
                width[c] = (int)strlen(t->cells[i][c]);
    for (size_t i = 0; i < t->n_rows; i++) {
        for (int c = 0; c < N_COLUMNS; c++)
            if (t->shown[c])
                dop_buf_printf(out, c >= C_RATE || c == C_SIZE ? "| %*s " : "| %-*s ", width[c], t->cells[i][c]);
        dop_buf_puts(out, "|\n");
        for (int c = 0; c < N_COLUMNS && i == 0; c++)
            if (t->shown[c]) {
                dop_buf_puts(out, "| ");
                for (int k = 0; k < width[c]; k++)
                    dop_buf_puts(out, k == width[c] - 1 && (c >= C_RATE || c == C_SIZE) ? ":" : "-");
                dop_buf_puts(out, " ");
            }
        if (i == 0)
            dop_buf_puts(out, "|\n");
    }
}

static void
print_start(const dop_bench *b, dop_buf *out)
{
    for (size_t i = 0; i < b->n_plans; i++) {
        const dop_bench_plan *p = &b->plans[i];
        const dop_model_info *s = &p->info;
        uint32_t ordering = s->plan->schedules[s->decode].ordering;
        if (ordering == DOP_ORDER_PERSISTENT)
            dop_buf_printf(out, "%s: decode steps are persistent dispatches\n", dop_path_name(p->path));
        dop_buf_printf(out,
                       "%s: load %.1f ms (side by side: pipelines %.1f, upload %.1f, digests %.1f), then %u tokens to "
                       "the first new one %.1f ms",
                       dop_path_name(p->path), s->load_ms, s->pipelines_ms, s->upload_ms, s->verify_ms,
                       p->first_token_prompt, p->first_token_ms);
        if (p->start_to_first_token_ms > 0)
            dop_buf_printf(out, "; process start to first token %.1f ms", p->start_to_first_token_ms);
        dop_buf_puts(out, "\n");
    }
}

void
dop_bench_markdown(const dop_bench *bench, dop_buf *out)
{
    const dop_bench *b = bench;
    static const char *const headings[N_COLUMNS] = {"plan", "model", "weights", "size", "backend",    "device",
                                                    "test", "t/s",   "median",  "GB/s", "% of floor", "drafts accepted",
                                                    "ratio"};
    table t = {.n_rows = 1 + b->n_plans * b->n_tests};
    t.cells = calloc(t.n_rows, sizeof *t.cells);
    if (!t.cells) {
        out->failed = true;
        return;
    }
    for (int c = 0; c < N_COLUMNS; c++) {
        snprintf(t.cells[0][c], CELL, "%s", headings[c]);
        t.shown[c] = true;
    }
    t.shown[C_PLAN] = t.shown[C_RATIO] = b->n_plans > 1;
    t.shown[C_FLOOR] = t.shown[C_GBPS] = t.shown[C_DRAFTS] = false;
    size_t at = 1;
    for (size_t i = 0; i < b->n_tests; i++)
        for (size_t p = 0; p < b->n_plans; p++) {
            const dop_bench_row *r = &b->rows[p * b->n_tests + i];
            t.shown[C_GBPS] |= r->gbps > 0;
            t.shown[C_FLOOR] |= r->floor_share > 0;
            t.shown[C_DRAFTS] |= r->drafts.drafted > 0;
            fill_row(b, p, i, t.cells[at++]);
        }
    print_table(&t, out);
    free(t.cells);
    dop_buf_puts(out, "\n");
    print_start(b, out);
}

static void
csv_text(const char *s, dop_buf *out)
{
    dop_buf_puts(out, "\"");
    for (; *s; s++)
        dop_buf_printf(out, *s == '"' ? "\"%c" : "%c", *s);
    dop_buf_puts(out, "\",");
}

/* Appends a value and a comma. A value of 0 means unknown and is left empty. */
static void
append_csv_value(double value, dop_buf *out)
{
    if (value > 0)
        dop_buf_printf(out, "%.6g", value);
    dop_buf_puts(out, ",");
}

void
dop_bench_csv(const dop_bench *bench, dop_buf *out)
{
    const dop_bench *b = bench;
    dop_buf_puts(out, "plan,model,weights,backend,device,driver,test,size_bytes,bytes_per_token,n_prompt,n_gen,n_depth,"
                      "rounds,avg_ts,stddev_ts,median_ts,gbps,floor_share,ratio,ratio_min,ratio_max,load_ms,"
                      "pipelines_ms,upload_ms,digests_ms,first_token_ms,draft_rounds,drafted,accepted,in_doubt\n");
    for (size_t i = 0; i < b->n_tests; i++)
        for (size_t k = 0; k < b->n_plans; k++) {
            const dop_bench_plan *p = &b->plans[k];
            const dop_bench_row *r = &b->rows[k * b->n_tests + i];
            const dop_bench_test *t = &b->tests[i];
            const dop_model_info *s = &p->info;
            csv_text(p->path, out);
            csv_text(get_plan_text(p, s->plan->model->name), out);
            csv_text(get_plan_text(p, s->plan->model->quant), out);
            csv_text("Vulkan", out);
            csv_text(s->device->name, out);
            csv_text(s->device->driver, out);
            csv_text(t->name, out);
            dop_buf_printf(out, "%llu,%llu,%u,%u,%u,%u,", (unsigned long long)p->weights_bytes,
                           (unsigned long long)p->bytes_per_token, t->n_prompt, t->n_gen, t->depth, b->rounds);
            dop_buf_printf(out, "%.6g,", r->mean);
            if (b->rounds > 1) /* one round has no spread */
                dop_buf_printf(out, "%.6g", r->stddev);
            dop_buf_printf(out, ",%.6g,", r->median);
            append_csv_value(r->gbps, out);
            append_csv_value(r->floor_share, out);
            dop_buf_printf(out, "%.6g,%.6g,%.6g,", r->ratio, r->ratio_min, r->ratio_max);
            dop_buf_printf(out, "%.6g,%.6g,%.6g,%.6g,%.6g,", s->load_ms, s->pipelines_ms, s->upload_ms, s->verify_ms,
                           p->first_token_ms);
            if (t->drafts)
                dop_buf_printf(out, "%llu,%llu,%llu,%llu\n", (unsigned long long)r->drafts.steps,
                               (unsigned long long)r->drafts.drafted, (unsigned long long)r->drafts.accepted,
                               (unsigned long long)r->drafts.again);
            else
                dop_buf_puts(out, ",,,\n");
        }
}

static json_t *
json_known(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *
plan_json(const dop_bench_plan *p)
{
    const dop_model_info *s = &p->info;
    const dop_plan_model *m = s->plan->model;
    char digest[17];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)s->plan->digest);
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s}", "plan", p->path, "digest", digest,
                          "model", get_plan_text(p, m->name), "weights", get_plan_text(p, m->quant), "target",
                          get_plan_text(p, s->plan->profiles[s->profile].name), "context", (json_int_t)m->ctx,
                          "weightsBytes", (json_int_t)p->weights_bytes, "bytesPerToken", (json_int_t)p->bytes_per_token,
                          "backend", "Vulkan", "device", s->device->name, "driver", s->device->driver);
    if (!o)
        return NULL;
    json_object_set_new(o, "decodeOrdering",
                        json_string(dop_plan_ordering_name(s->plan->schedules[s->decode].ordering)));
    json_object_set_new(o, "floorGBps", json_known(p->floor_gbps));
    json_object_set_new(o, "start",
                        json_pack("{s:f, s:f, s:f, s:f, s:I, s:f, s:o}", "loadMs", s->load_ms, "pipelinesMs",
                                  s->pipelines_ms, "uploadMs", s->upload_ms, "digestsMs", s->verify_ms,
                                  "firstTokenPrompt", (json_int_t)p->first_token_prompt, "firstTokenMs",
                                  p->first_token_ms, "startToFirstTokenMs", json_known(p->start_to_first_token_ms)));
    return o;
}

static json_t *
drafts_json(const dop_bench_test *t, const dop_bench_row *r)
{
    const dop_speculation_counts *c = &r->drafts;
    if (!t->drafts)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:f, s:I}", "rounds", (json_int_t)c->steps, "drafted", (json_int_t)c->drafted,
                     "accepted", (json_int_t)c->accepted, "acceptedShare", accepted_share(r), "inDoubt",
                     (json_int_t)c->again);
}

static json_t *
row_json(const dop_bench *b, size_t plan, size_t test)
{
    const dop_bench_row *r = &b->rows[plan * b->n_tests + test];
    const dop_bench_test *t = &b->tests[test];
    json_t *samples = json_array();
    for (uint32_t i = 0; i < b->rounds; i++)
        json_array_append_new(samples, json_real((t->n_prompt + t->n_gen) * 1e3 / r->ms[i]));
    return json_pack("{s:I, s:s, s:I, s:I, s:I, s:f, s:o, s:f, s:o, s:o, s:f, s:f, s:f, s:o, s:o}", "plan",
                     (json_int_t)plan, "test", t->name, "nPrompt", (json_int_t)t->n_prompt, "nGen",
                     (json_int_t)t->n_gen, "depth", (json_int_t)t->depth, "mean", r->mean, "stddev",
                     b->rounds > 1 ? json_real(r->stddev) : json_null(), "median", r->median, "GBps",
                     json_known(r->gbps), "floorShare", json_known(r->floor_share), "ratio", r->ratio, "ratioMin",
                     r->ratio_min, "ratioMax", r->ratio_max, "samples", samples, "drafts", drafts_json(t, r));
}

void
dop_bench_json(const dop_bench *bench, dop_buf *out)
{
    const dop_bench *b = bench;
    char date[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_t *plans = json_array(), *results = json_array();
    for (size_t i = 0; i < b->n_plans; i++)
        json_array_append_new(plans, plan_json(&b->plans[i]));
    for (size_t i = 0; i < b->n_tests; i++)
        for (size_t p = 0; p < b->n_plans; p++)
            json_array_append_new(results, row_json(b, p, i));
    json_t *root =
        json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "program", "doppler-exec " DOP_VERSION, "date", date, "rounds",
                  (json_int_t)b->rounds, "unit", "tokens per second", "plans", plans, "results", results);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(7)) : NULL;
    if (text)
        dop_buf_printf(out, "%s\n", text);
    else
        out->failed = true;
    free(text);
    json_decref(root);
}
