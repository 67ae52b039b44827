/* Golden pass tests: pass_golden check|update|kernels FILE.dir...
 *                    pass_golden parse FILE.ir...     printed graphs read back to themselves
 *
 * A file is text of the IR (ir/syntax/text.h), in which `#` starts a comment:
 *
 *   # What the case shows.
 *   # target: tier1                      a target as dopplerc knows it; FIELD=N behind it changes a limit
 *   # passes: regions fuse-prologue      in pipeline order whatever their order here; `all` for every pass but select, -NAME
 *                                        less one
 *   # apart: LABEL                       fusion switched off where a region has that label, as a kernel path does
 *   # expand: TYPE                       weights of every matmul expanded to f16 or f32, as a kernel path asks for it
 *   # pieces: BYTES                      that weights may take at most: larger ones are split
 *   # kernels: none WHY                 `kernels` leaves the case out
 *   # code: TEXT                        a generated kernel contains this text: for code that no device of the tests runs, each
 *                                       line on from where the one before it was found, or in a later kernel
 *   graph ... { ... }
 *   ---
 *   graph ... { ... }                    what the passes make of it
 *   ---
 *   region ...
 *   # fused    PASS RULE %a -> %b        the fusion log, one line per edge, with bytes and dispatches saved
 *   # refused  PASS REASON %a -> %b
 *   # order: @1 | @2 @3                  with the pass `place`: a bar is a barrier
 *
 * `check` compares everything behind the first `---` and shows a diff; `update` shows it too and rewrites the file.
 * `kernels` generates and compiles a kernel for every region: what the passes join must be code that exists. */
#include "base/program/options.h"
#include "compiler/pack/pack.h"
#include "compiler/report/report_rules.h"
#include "compiler/schedule/region_facts.h"
#include "compiler/target/target.h"
#include "ir/syntax/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CODE = 12 };

typedef struct options {
    dop_target target;
    dop_pass_options passes;
    char apart[64];
    dop_type expand;
    uint64_t pieces;
    bool seen_target, seen_passes;
    bool no_kernels;
    char code[MOST_CODE][120]; /* until the first that is empty */
    dop_diag *diag;
} options;

static bool
keep_apart(void *user, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const options *o = user;
    return dop_label_is(dop_region_label(g, a), o->apart) || dop_label_is(dop_region_label(g, b), o->apart);
}

static dop_type
expand(void *user, const dop_graph *g, dop_node_id matmul)
{
    const options *o = user;
    (void)g;
    (void)matmul;
    return o->expand;
}

static uint32_t
piece_rows(void *user, const dop_graph *g, dop_node_id weight)
{
    const options *o = user;
    const dop_node *w = dop_node_at(g, weight);
    return dop_pack_piece_rows(w->type, &w->shape, o->pieces);
}

static dop_status
select_kernel(void *user, const dop_graph *g, dop_region_id r, const char **out_variant, dop_tile *out_tile)
{
    options *o = user;
    dop_selection choice;
    dop_status st = dop_kernel_select(g, &g->regions[r], &o->target, NULL, o->diag, &choice);
    *out_variant = dop_variant_of(choice.variant)->name;
    *out_tile = choice.tile;
    return st;
}

static dop_status
set_limit(dop_target *t, char *word, dop_diag *diag)
{
    char *eq = strchr(word, '=');
    if (!eq)
        return DOP_FAIL(diag, DOP_E_USAGE, "target: %s is not FIELD=N", word);
    *eq = 0;
    uint32_t v = (uint32_t)strtoul(eq + 1, NULL, 10);
    if (strcmp(word, "shared_bytes") == 0)
        t->shared_bytes = v;
    else if (strcmp(word, "registers") == 0)
        t->registers = v;
    else if (strcmp(word, "cores") == 0)
        t->cores = v;
    else if (strcmp(word, "merges") == 0)
        t->merges = v != 0;
    else
        return DOP_FAIL(diag, DOP_E_USAGE, "target: no limit %s here", word);
    return DOP_OK;
}

static dop_status
read_target(char *line, options *o, dop_diag *diag)
{
    char *save = NULL, *word = strtok_r(line, " ", &save);
    dop_status st = dop_target_resolve(word ? word : "", diag, &o->target);
    while (st == DOP_OK && (word = strtok_r(NULL, " ", &save)))
        st = set_limit(&o->target, word, diag);
    o->seen_target = true;
    return st;
}

static dop_status
read_passes(char *line, options *o, dop_diag *diag)
{
    bool on[DOP_PASS_COUNT] = {false};
    char *save = NULL;
    for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        dop_pass_id p;
        if (strcmp(word, "all") == 0)
            for (int i = 0; i < DOP_PASS_COUNT; i++)
                on[i] = i != DOP_PASS_select;
        else if (!dop_pass_parse(word + (*word == '-'), &p))
            return DOP_FAIL(diag, DOP_E_USAGE, "passes: no pass %s", word);
        else
            on[p] = *word != '-';
    }
    for (int i = 0; i < DOP_PASS_COUNT; i++)
        o->passes.skip[i] = !on[i];
    o->seen_passes = true;
    return DOP_OK;
}

static dop_status
read_options(const char *path, const char *text, options *o, dop_diag *diag)
{
    uint32_t n_code = 0;
    dop_status st = DOP_OK;
    memset(o, 0, sizeof *o);
    o->passes.stop_after = -1;
    o->passes.check = true;
    while (st == DOP_OK && *text == '#') {
        char line[512];
        size_t len = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        text += len + (text[len] == '\n');
        if (strncmp(line, "# target: ", 10) == 0)
            st = read_target(line + 10, o, diag);
        else if (strncmp(line, "# passes: ", 10) == 0)
            st = read_passes(line + 10, o, diag);
        else if (strncmp(line, "# apart: ", 9) == 0)
            snprintf(o->apart, sizeof o->apart, "%.63s", line + 9);
        else if (strncmp(line, "# expand: ", 10) == 0 && !dop_type_parse(line + 10, strlen(line + 10), &o->expand))
            st = DOP_FAIL_IN(diag, DOP_E_USAGE, path, "expand: no type %s", line + 10);
        else if (strncmp(line, "# pieces: ", 10) == 0)
            o->pieces = strtoull(line + 10, NULL, 10);
        else if (strncmp(line, "# kernels: none ", 16) == 0)
            o->no_kernels = true;
        else if (strncmp(line, "# code: ", 8) == 0 && n_code + 1 < MOST_CODE)
            snprintf(o->code[n_code++], sizeof o->code[0], "%.119s", line + 8);
        else if (strncmp(line, "# code: ", 8) == 0)
            st = DOP_FAIL_IN(diag, DOP_E_USAGE, path, "code: more than %d lines", MOST_CODE - 1);
    }
    if (st == DOP_OK && (!o->seen_target || !o->seen_passes))
        st = DOP_FAIL_IN(diag, DOP_E_USAGE, path, "no `# target:` or no `# passes:` before the graph");
    return st;
}

static void
put_log(const dop_graph *g, const dop_pass_ctx *cx, dop_buf *out)
{
    for (uint32_t i = 0; i < cx->log->n; i++) {
        const dop_fusion_event *e = &cx->log->items[i];
        bool fused = e->reason == DOP_REASON_none;
        dop_buf_printf(out, "# %-8s %-14s %-18s %%%s -> %%%s  %llu bytes", fused ? "fused" : "refused", e->pass,
                       fused ? dop_fusion_rule(g, e) : dop_reason_code(e->reason), dop_node_at(g, e->producer)->name,
                       dop_node_at(g, e->consumer)->name, (unsigned long long)e->bytes);
        dop_buf_printf(out, e->dispatches ? ", %u dispatch\n" : "\n", e->dispatches);
    }
    if (!(cx->facts & PF_PLACED))
        return;
    dop_buf_puts(out, "# order:");
    uint32_t n = 0;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        if (!g->regions[r].dead)
            dop_buf_printf(out, "%s @%u", cx->placement.barrier[r] ? " |" : "", ++n);
    dop_buf_puts(out, "\n");
}

/* A reason that no case shows is a rule without a test. */
static int
missing_reasons(const bool *seen)
{
    int missing = 0;
    for (int r = 1; r < DOP_REASON_COUNT; r++)
        if (!seen[r]) {
            printf("FAILED  no case is refused for %s\n", dop_reason_code((dop_reason)r));
            missing++;
        }
    return missing;
}

static dop_status
make_kernels(const dop_graph *g, const options *o, dop_diag *diag)
{
    const dop_target *target = &o->target;
    const char(*code)[sizeof o->code[0]] = o->code;
    dop_templates templates;
    dop_status st = dop_templates_load(DOP_GLSL_SOURCE_DIR, &templates, diag);
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++) {
        dop_selection choice;
        dop_kernel k;
        dop_buf spirv = {0};
        uint32_t shared = 0;
        if (g->regions[r].dead)
            continue;
        st = dop_kernel_select(g, &g->regions[r], target, NULL, diag, &choice);
        if (st == DOP_OK)
            st = dop_kernel_generate(&templates, g, &g->regions[r], target, &choice, NULL, diag, &k);
        if (st == DOP_OK)
            st = dop_kernel_compile(g->name, &k, target, diag, &spirv, &shared);
        for (const char *at = k.glsl; st == DOP_OK && **code && (at = strstr(at, *code)); code++)
            at += strlen(*code);
        dop_buf_finish(&spirv);
    }
    dop_templates_finish(&templates);
    if (st == DOP_OK && **code)
        st = DOP_FAIL(diag, DOP_E_INPUT, "no kernel has, after the lines of code before: %s", *code);
    return st;
}

static dop_status
run(const char *path, const char *text, bool kernels, dop_arena *arena, dop_diag *diag, bool *seen, dop_buf *out,
    size_t *out_expected)
{
    options o;
    dop_graph g;
    size_t end = 0;
    dop_fusion_log log;
    dop_fusion_log_init(&log);
    dop_pass_ctx cx = {.arena = arena, .diag = diag, .target = &o.target, .log = &log};
    dop_status st = read_options(path, text, &o, diag);
    if (st == DOP_OK)
        st = dop_graph_parse(path, text, strlen(text), arena, diag, &g, &end);
    if (st != DOP_OK)
        goto error;
    cx.keep_apart = *o.apart ? keep_apart : NULL;
    cx.expand = o.expand != DOP_TYPE_none ? expand : NULL;
    cx.piece_rows = o.pieces ? piece_rows : NULL;
    cx.select = select_kernel;
    o.diag = diag;
    cx.user = &o;
    /* A case may begin with regions: the passes then take them as they are. */
    st = dop_passes_run(&cx, &o.passes, &g);
    if (st != DOP_OK)
        goto error;
    dop_graph_print(&g, out);
    put_log(&g, &cx, out);
    for (uint32_t i = 0; i < log.n; i++)
        seen[log.items[i].reason] = true;
    if (kernels && !o.no_kernels && (cx.facts & PF_PLACED))
        st = make_kernels(&g, &o, diag);
    *out_expected = end;
    if (strncmp(text + end, "---", 3) == 0)
        *out_expected += strcspn(text + end, "\n") + (strchr(text + end, '\n') != NULL);
error:
    dop_fusion_log_finish(&log);
    return st;
}

/* Line by line, from the first difference to the last: short texts need no better diff. */
static void
show_diff(const char *old, const char *now)
{
    const char *sides[2] = {old, now};
    for (int s = 0; s < 2; s++)
        for (const char *p = sides[s]; *p;) {
            size_t len = strcspn(p, "\n");
            bool found = false;
            for (const char *q = sides[!s]; *q && !found;) {
                size_t n = strcspn(q, "\n");
                found = n == len && memcmp(p, q, len) == 0;
                q += n + (q[n] == '\n');
            }
            if (!found)
                printf("    %c %.*s\n", s ? '+' : '-', (int)len, p);
            p += len + (p[len] == '\n');
        }
}

static char *
read_text(const char *path, dop_diag *diag)
{
    dop_map map;
    if (dop_map_open(path, diag, &map) != DOP_OK)
        return NULL;
    char *text = calloc((size_t)map.size + 1, 1);
    if (text && map.size)
        memcpy(text, map.data, (size_t)map.size);
    dop_map_close(&map);
    return text;
}

/* 0 the same, 1 another, 2 an error. */
static int
do_file(const char *path, bool update, bool kernels, bool *seen)
{
    dop_diag diag = {0};
    dop_arena arena;
    dop_buf out = {0};
    size_t expected = 0;
    int result = 2;
    dop_arena_init(&arena);
    char *text = read_text(path, &diag);
    if (!text || run(path, text, kernels, &arena, &diag, seen, &out, &expected) != DOP_OK || out.failed) {
        dop_diag_print(&diag, "pass_golden", false);
        goto done;
    }
    result = !kernels && strcmp(text + expected, out.data) != 0;
    if (result) {
        printf("%s\n", path);
        show_diff(text + expected, out.data);
    }
    if (result && update) {
        dop_buf whole = {0};
        dop_buf_append(&whole, text, expected);
        if (expected < 4 || strncmp(text + expected - 4, "---\n", 4) != 0)
            dop_buf_puts(&whole, "---\n");
        dop_buf_append(&whole, out.data, out.size);
        result = whole.failed || dop_write_file(path, whole.data, whole.size, &diag) != DOP_OK ? 2 : 0;
        dop_buf_finish(&whole);
    }
done:
    free(text);
    dop_buf_finish(&out);
    dop_arena_finish(&arena);
    return result;
}

/* A dump of dopplerc: graphs behind each other; a comment may stand before each. */
static int
parse_back(const char *path)
{
    dop_diag diag = {0};
    dop_arena arena;
    dop_buf out = {0};
    int result = 1;
    dop_arena_init(&arena);
    char *text = read_text(path, &diag);
    size_t size = text ? strlen(text) : 0, at = 0, end = 0;
    while (text && at < size) {
        dop_graph g;
        if (dop_graph_parse(path, text + at, size - at, &arena, &diag, &g, &end) != DOP_OK)
            goto done;
        while (text[at] == '#')
            at += strcspn(text + at, "\n") + 1;
        size_t from = out.size;
        dop_graph_print(&g, &out);
        if (out.failed || out.size - from > size - at || memcmp(out.data + from, text + at, out.size - from) != 0) {
            printf("%s: does not print as it was read\n", path);
            goto done;
        }
        at += out.size - from;
    }
    result = !text || size == 0;
done:
    if (diag.code != DOP_OK)
        dop_diag_print(&diag, "pass_golden", false);
    free(text);
    dop_buf_finish(&out);
    dop_arena_finish(&arena);
    return result;
}

int
main(int argc, char **argv)
{
    bool update = argc > 1 && strcmp(argv[1], "update") == 0;
    bool kernels = argc > 1 && strcmp(argv[1], "kernels") == 0;
    if (argc > 2 && strcmp(argv[1], "parse") == 0) {
        int bad = 0;
        for (int i = 2; i < argc; i++)
            bad += parse_back(argv[i]);
        return bad != 0;
    }
    if (argc < 3 || (!update && !kernels && strcmp(argv[1], "check") != 0)) {
        fprintf(stderr, "usage: pass_golden check|update|kernels FILE.dir...\n");
        return 2;
    }
    int worst = 0;
    uint32_t bad = 0;
    bool seen[DOP_REASON_COUNT] = {false};
    for (int i = 2; i < argc; i++) {
        int r = do_file(argv[i], update, kernels, seen);
        const char *slash = strrchr(argv[i], '/');
        printf("%s %s\n", r ? "FAILED " : "ok     ", slash ? slash + 1 : argv[i]);
        bad += r != 0;
        worst = r > worst ? r : worst;
    }
    int missing = argc > 10 ? missing_reasons(seen) : 0; /* not when single files are looked at */
    printf("# %d passed, %u failed, 0 skipped\n", argc - 2 - (int)bad, bad + (uint32_t)missing);
    return missing && worst == 0 ? 1 : worst;
}
