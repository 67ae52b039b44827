#include "compiler/parts/simulate.h"

#include "compiler/parts/parts.h"
#include "compiler/report/report.h"
#include "compiler/schedule/region_facts.h"
#include "passes/fusion/region.h"
#include "plan/chunks.h"

#include <stdio.h>
#include <string.h>

typedef struct simulation {
    const dop_sim_setup *setup;
    const char *path;
    const dop_compilation *parts;
    uint32_t n;
    dop_diag *diag;
    dop_sim_result *out;
} simulation;

static const dop_sim_device *
get_part_device(const simulation *m, uint32_t part)
{
    return &m->setup->devices[m->setup->n_devices > 1 ? part : 0];
}

static const dop_sim_link *
get_cut_link(const simulation *m, uint32_t cut)
{
    return &m->setup->links[m->setup->n_links > 1 ? cut : 0];
}

/* --- one dispatch ---------------------------------------------------------------------------------------------------- */

typedef struct weigher {
    const dop_compilation *c;
    const dop_graph *g;
    double bytes, elements;
} weigher;

static void
count_weight_leaf(void *user, dop_node_id base)
{
    weigher *w = user;
    const dop_node_id leaf = dop_storage_node(w->g, base);
    const dop_node *n = dop_node_at(w->g, leaf);
    const dop_packed *p = n->op == DOP_OP_weight ? dop_pack_find(&w->c->pack, &n->origin) : NULL;
    w->bytes += p ? (double)p->size : 0;
    w->elements += p ? (double)p->rows * p->cols * p->experts : 0;
}

/* Returns the work of a dispatch, counted as tools/profile/profile_times.c counts the work of measured dispatches. */
static dop_stage_wanted
count_dispatch_work(const dop_compilation *c, const dop_schedule *s, dop_region_id r, dop_step_kind kind)
{
    const dop_region *region = &s->g.regions[r];
    weigher w = {.c = c, .g = &s->g};
    uint64_t read, written;
    dop_region_reads(region, count_weight_leaf, &w);
    dop_region_traffic(&s->g, region, 0, &read, &written);
    const double share = w.bytes > (double)read ? (double)read / w.bytes : 1;
    return (dop_stage_wanted){.step = kind,
                              .rows = s->g.max_t,
                              .kernel = dop_variant_of(s->regions[r].choice.variant)->name,
                              .weights = w.bytes * share,
                              .bytes = (double)(read + written),
                              .products = w.elements * share * s->g.max_t};
}

static double
predict_dispatch_us(const dop_sim_device *d, const dop_target *target, const dop_stage_wanted *w, bool *out_guessed)
{
    const double fixed = d->stage_us < 0 ? target->dispatch_us + target->barrier_us : d->stage_us;
    *out_guessed = false;
    if (d->times.n > 0)
        return dop_stage_times_of(&d->times, w, fixed, d->memory_speed, d->product_speed, out_guessed);
    const double by_bytes = w->bytes / d->bandwidth * 1e6, by_products = 2 * w->products / d->flops * 1e6;
    return fixed + (by_bytes > by_products ? by_bytes : by_products);
}

/* --- one step -------------------------------------------------------------------------------------------------------- */

static dop_step_kind
classify_step(const dop_schedule *s)
{
    return s->embeds                       ? DOP_STEP_KINDS
           : s->mixed                      ? DOP_STEP_ROWS
           : s->phase == DOP_PHASE_DECODE  ? DOP_STEP_DECODE
           : s->phase == DOP_PHASE_PREFILL ? DOP_STEP_PREFILL
                                           : DOP_STEP_KINDS;
}

/* Returns the schedule of a kind with the fewest rows from `rows` to `most`; UINT32_MAX if there is none. */
static uint32_t
find_step_schedule(const simulation *m, dop_step_kind kind, uint32_t rows, uint32_t most)
{
    const dop_schedule *list = m->parts[0].schedules;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < m->parts[0].n_schedules; i++)
        if (classify_step(&list[i]) == kind && list[i].g.max_t >= rows && list[i].g.max_t <= most &&
            (best == UINT32_MAX || list[i].g.max_t < list[best].g.max_t))
            best = i;
    return best;
}

/* Returns the microseconds that the host adds to a part's step. A single device decodes ahead of its host, which then
 * adds nothing. Measured steps of several sequences include the host's time once, because the host waits for each step. */
static double
get_host_us(const simulation *m, uint32_t part, dop_step_kind kind)
{
    const dop_sim_device *d = get_part_device(m, part);
    if (kind == DOP_STEP_ROWS && d->times.n > 0)
        return d->step_us * (m->n - 1) / m->n;
    return m->n > 1 || kind == DOP_STEP_ROWS ? d->step_us : 0;
}

static const char *const profile_how[DOP_STEP_KINDS] = {"-n 40", "a prompt of 128 tokens and more", "-b N"};
static const char *const kind_names[DOP_STEP_KINDS] = {"decode", "prefill", "rows"};

static dop_status
time_part(const simulation *m, uint32_t part, const dop_schedule *s, dop_step_kind kind, dop_sim_step *out)
{
    const dop_compilation *c = &m->parts[part];
    const double host = get_host_us(m, part, kind);
    out->part_us[part] = out->body_us[part] = host;
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        char label[128];
        bool guessed;
        dop_stage_wanted w = count_dispatch_work(c, s, r, kind);
        dop_label_any_layer(dop_region_label(&s->g, &s->g.regions[r]), label, sizeof label);
        w.op = label;
        const double us = predict_dispatch_us(get_part_device(m, part), c->target, &w, &guessed);
        if (us < 0)
            return DOP_FAIL_IN(
                m->diag, DOP_E_INPUT, m->path,
                "stage_times has no %s steps: profile some with doppler-exec PLAN --profile FILE.yaml, %s",
                kind_names[kind], profile_how[kind]);
        out->part_us[part] += us;
        out->body_us[part] += r <= s->n_body ? us : 0;
        m->out->n_guessed += guessed;
    }
    return DOP_OK;
}

/* Predicts the times of a step of schedule i with `rows` rows. */
static dop_status
time_step(const simulation *m, uint32_t i, uint32_t rows, dop_sim_step *out)
{
    dop_status st = DOP_OK;
    memset(out, 0, sizeof *out);
    out->rows = rows;
    for (uint32_t k = 0; k < m->n && st == DOP_OK; k++) {
        const dop_schedule *s = &m->parts[k].schedules[i];
        st = time_part(m, k, s, classify_step(s), out);
        for (uint32_t v = 0; v < s->n_sent; v++) {
            const uint64_t bytes = dop_node_bytes(&s->g, s->sent[v]);
            out->hop_bytes[k] += dop_node_per_token(&s->g, s->sent[v]) ? bytes * rows / s->g.max_t : bytes;
        }
        if (k + 1 < m->n)
            out->hop_us[k] =
                get_cut_link(m, k)->latency_us + (double)out->hop_bytes[k] / get_cut_link(m, k)->bandwidth * 1e6;
    }
    return st;
}

/* Returns the times of a step for the pipeline simulation. body: true for every chunk of a prompt but the last, which
 * needs no logits and no answer. */
static dop_pipeline_step
pipeline_step(const simulation *m, const dop_sim_step *s, bool body)
{
    dop_pipeline_step p = {.answer = 0};
    for (uint32_t k = 0; k < m->n; k++) {
        p.part[k] = body ? s->body_us[k] : s->part_us[k];
        p.hop[k] = s->hop_us[k];
        p.waits[k] = k + 1 < m->n && !get_cut_link(m, k)->overlaps;
    }
    p.answer = m->n > 1 && !body ? get_cut_link(m, m->n - 2)->latency_us : 0;
    return p;
}

/* --- predictions
 * ------------------------------------------------------------------------------------------------------ */

static dop_status
predict_decode(const simulation *m)
{
    dop_sim_result *o = m->out;
    const uint32_t i = find_step_schedule(m, DOP_STEP_DECODE, 1, 1);
    dop_status st =
        i == UINT32_MAX ? DOP_FAIL(m->diag, DOP_E_INTERNAL, "no decode schedule") : time_step(m, i, 1, &o->decode);
    const dop_pipeline_step p = pipeline_step(m, &o->decode, false);
    o->decode_us = st == DOP_OK ? dop_pipeline_period(m->n, &p, 1) : 0;
    return st;
}

/* Maximum number of groups that dop_step_groups() of runtime/model/info.h makes. */
enum { GROUPS_MOST = 8 };

static dop_status
predict_many(const simulation *m)
{
    dop_sim_result *o = m->out;
    const uint32_t has = m->parts[0].options.sequences;
    o->sequences = m->setup->sequences < has ? m->setup->sequences : has;
    if (o->sequences < 2) {
        o->sequences = 0;
        return DOP_OK;
    }
    const uint32_t asked = m->setup->groups ? m->setup->groups : m->n < GROUPS_MOST ? m->n : GROUPS_MOST;
    o->groups = m->n == 1 ? 1 : asked < o->sequences ? asked : o->sequences;
    const uint32_t rows = (o->sequences + o->groups - 1) / o->groups;
    const uint32_t i = find_step_schedule(m, DOP_STEP_ROWS, rows, UINT32_MAX);
    if (i == UINT32_MAX) {
        o->sequences = 0;
        return DOP_OK;
    }
    dop_status st = time_step(m, i, rows, &o->many);
    const dop_pipeline_step p = pipeline_step(m, &o->many, false);
    o->many_us = st == DOP_OK ? dop_pipeline_period(m->n, &p, o->groups) * o->groups : 0;
    return st;
}

/* Sets *out to the target's chunk costs and returns it. Returns NULL for software devices, which have no chunk costs. */
static const dop_chunk_costs *
get_chunk_costs(const dop_target *t, dop_chunk_costs *out)
{
    const dop_schedule_numbers *s = &t->schedule;
    *out = (dop_chunk_costs){s->chunk_start, s->chunk_tile, s->chunk_full, s->chunk_lack};
    return t->cpu ? NULL : out;
}

/* Returns the maximum number of tokens in a chunk of a prompt of n tokens, as the runtime's dop_step_choose_chunks()
 * chooses it. */
static uint32_t
choose_max_chunk(const simulation *m, uint32_t n)
{
    const dop_schedule *list = m->parts[0].schedules;
    dop_chunk_costs costs;
    uint32_t sizes[DOP_MAX_SCHEDULES];
    size_t n_sizes = 0;
    for (uint32_t i = 0; i < m->parts[0].n_schedules; i++)
        if (classify_step(&list[i]) == DOP_STEP_PREFILL && list[i].g.max_t > 1)
            sizes[n_sizes++] = list[i].g.max_t;
    return m->n > 1 && n_sizes > 0
               ? dop_chunks_best(get_chunk_costs(m->parts[0].target, &costs), sizes, n_sizes, n, m->n)
               : UINT32_MAX;
}

/* Chooses the schedule and token count of the next chunk of a prompt with n tokens left, as the runtime's
 * dop_step_choose() does. */
static void
choose_next_chunk(const simulation *m, uint32_t n, uint32_t most, uint32_t *out_schedule, uint32_t *out_take)
{
    const dop_schedule *list = m->parts[0].schedules;
    dop_chunk_costs costs;
    dop_chunk_size sizes[DOP_MAX_SCHEDULES];
    uint32_t schedules[DOP_MAX_SCHEDULES];
    size_t n_sizes = 0;
    for (uint32_t i = 0; i < m->parts[0].n_schedules; i++)
        if (classify_step(&list[i]) == DOP_STEP_DECODE ||
            (classify_step(&list[i]) == DOP_STEP_PREFILL && list[i].g.max_t <= most)) {
            schedules[n_sizes] = i;
            sizes[n_sizes++] = (dop_chunk_size){list[i].g.max_t, list[i].g.max_t};
        }
    const size_t next = dop_chunks_next(get_chunk_costs(m->parts[0].target, &costs), sizes, n_sizes, n);
    *out_schedule = schedules[next];
    *out_take = n < sizes[next].most ? n : sizes[next].most;
}

static dop_status
predict_prompt(const simulation *m)
{
    dop_sim_result *o = m->out;
    dop_pipeline p = {.n_parts = m->n};
    dop_status st = DOP_OK;
    uint32_t last = UINT32_MAX;
    double busy = 0;
    o->prompt = m->setup->prompt;
    const uint32_t most = choose_max_chunk(m, o->prompt);
    for (uint32_t at = 0, i, take; at < o->prompt && st == DOP_OK; at += take) {
        choose_next_chunk(m, o->prompt - at, most, &i, &take);
        const bool same = o->n_chunks > 0 && i == last && o->chunks[o->n_chunks - 1].rows == take;
        if (!same && o->n_chunks == DOP_SIM_CHUNKS)
            return DOP_FAIL(m->diag, DOP_E_INTERNAL, "a prompt in more kinds of pieces than there are chunk sizes");
        if (!same)
            st = time_step(m, i, take, &o->chunks[o->n_chunks++]);
        last = i;
        o->repeats[o->n_chunks - 1]++;
        if (st != DOP_OK)
            break;
        const dop_pipeline_step s = pipeline_step(m, &o->chunks[o->n_chunks - 1], at + take < o->prompt);
        o->prompt_us = dop_pipeline_run(&p, &s, 0);
    }
    for (uint32_t k = 0; k < m->n; k++)
        busy += p.part_busy[k];
    o->idle = o->prompt_us > 0 ? 1 - busy / (o->prompt_us * m->n) : 0;
    return st;
}

static void
weigh_parts(const simulation *m)
{
    dop_sim_result *o = m->out;
    o->all_fit = true;
    for (uint32_t k = 0; k < m->n; k++) {
        const dop_compilation *c = &m->parts[k];
        uint64_t scratch = 0;
        for (uint32_t i = 0; i < c->pack.n_segments; i++)
            o->weights[k] += c->pack.segment_size[i];
        for (uint32_t i = 0; i < c->n_schedules; i++)
            scratch = c->schedules[i].placement.scratch > scratch ? c->schedules[i].placement.scratch : scratch;
        o->memory[k] = o->weights[k] + dop_report_state_bytes(c) + scratch;
        o->first_layer[k] = c->cut ? c->cut->first_layer : 0;
        o->end_layer[k] = c->cut ? c->cut->end_layer : c->model.arch.n_layers;
        o->target[k] = c->target->name;
        o->fits[k] = get_part_device(m, k)->memory == 0 || (double)o->memory[k] <= get_part_device(m, k)->memory;
        o->all_fit = o->all_fit && o->fits[k];
    }
}

dop_status
dop_simulate(const dop_sim_setup *setup, const char *path, const dop_compilation *parts, uint32_t n, dop_diag *diag,
             dop_sim_result *out_result)
{
    const simulation m = {setup, path, parts, n, diag, out_result};
    memset(out_result, 0, sizeof *out_result);
    out_result->n_parts = n;
    if (n > 1 && setup->n_links != 1 && setup->n_links != n - 1)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "%u links for %u parts: one for all, or one for each of the %u cuts", setup->n_links, n,
                           n - 1);
    if (n > 1 && setup->n_devices != 1 && setup->n_devices != n)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%u devices for %u parts: one for all, or one for each",
                           setup->n_devices, n);
    weigh_parts(&m);
    DOP_RETURN_IF_ERROR(predict_decode(&m));
    DOP_RETURN_IF_ERROR(predict_many(&m));
    return predict_prompt(&m);
}
