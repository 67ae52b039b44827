#include "serve/engine/metrics.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void
dop_histogram_add(dop_histogram *h, double seconds)
{
    uint32_t i = 0;
    for (double bound = 1e-3; i + 1 < DOP_METRIC_BUCKETS && seconds > bound; bound *= 2)
        i++;
    h->counts[i]++;
    h->n++;
    h->sum += seconds;
}

static void
add_to_histogram(dop_histogram *sum, const dop_histogram *h)
{
    for (uint32_t i = 0; i < DOP_METRIC_BUCKETS; i++)
        sum->counts[i] += h->counts[i];
    sum->n += h->n;
    sum->sum += h->sum;
}

void
dop_metrics_add(dop_metrics *sum, const dop_metrics *m)
{
    sum->prompt_tokens += m->prompt_tokens;
    sum->reused_tokens += m->reused_tokens;
    sum->written_tokens += m->written_tokens;
    sum->steps += m->steps;
    sum->rows += m->rows;
    sum->steps_ahead += m->steps_ahead;
    sum->loaded_tokens += m->loaded_tokens;
    sum->checkpoints_made += m->checkpoints_made;
    sum->checkpoints_used += m->checkpoints_used;
    sum->cache_hits += m->cache_hits;
    sum->file_hits += m->file_hits;
    sum->files_written += m->files_written;
    sum->files_removed += m->files_removed;
    sum->checkpoint_bytes += m->checkpoint_bytes;
    sum->cache_bytes += m->cache_bytes;
    if (m->file_bytes > sum->file_bytes)
        sum->file_bytes = m->file_bytes;
    sum->pictures += m->pictures;
    sum->pictures_kept += m->pictures_kept;
    sum->drafted += m->drafted;
    sum->accepted += m->accepted;
    for (uint32_t i = 0; i < DOP_METRIC_ENDS; i++)
        sum->jobs[i] += m->jobs[i];
    for (uint32_t i = 0; i < DOP_METRIC_STATUSES; i++)
        sum->answers[i] += m->answers[i];
    sum->refused += m->refused;
    sum->running += m->running;
    sum->waiting += m->waiting;
    sum->sequences += m->sequences;
    add_to_histogram(&sum->first_token, &m->first_token);
    add_to_histogram(&sum->per_token, &m->per_token);
    add_to_histogram(&sum->duration, &m->duration);
    add_to_histogram(&sum->step, &m->step);
    add_to_histogram(&sum->pick, &m->pick);
}

void
dop_metrics_end(dop_metrics *m)
{
    m->running = m->waiting = m->sequences = 0;
    m->checkpoint_bytes = m->cache_bytes = 0;
}

static void
write_metric_head(dop_buf *out, const char *name, const char *type, const char *help)
{
    dop_buf_printf(out, "# HELP doppler_%s %s\n# TYPE doppler_%s %s\n", name, help, name, type);
}

static void
write_number_metric(dop_buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
    write_metric_head(out, name, type, help);
    dop_buf_printf(out, "doppler_%s %llu\n", name, (unsigned long long)value);
}

/* Writes a histogram under its full name. label: further labels, each followed by a comma, or "". */
static void
write_histogram_as(dop_buf *out, const char *name, const char *label, const char *help, const dop_histogram *h)
{
    uint64_t below = 0;
    double bound = 1e-3;
    const size_t n = strlen(label);
    char own[160] = "";
    if (n > 0)
        snprintf(own, sizeof own, "{%.*s}", (int)n - 1, label);
    dop_buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (uint32_t i = 0; i + 1 < DOP_METRIC_BUCKETS; i++, bound *= 2) {
        below += h->counts[i];
        dop_buf_printf(out, "%s_bucket{%sle=\"%.3f\"} %llu\n", name, label, bound, (unsigned long long)below);
    }
    dop_buf_printf(out, "%s_bucket{%sle=\"+Inf\"} %llu\n%s_sum%s %.6f\n%s_count%s %llu\n", name, label,
                   (unsigned long long)h->n, name, own, h->sum, name, own, (unsigned long long)h->n);
}

static void
write_own_histogram(dop_buf *out, const char *name, const char *help, const dop_histogram *h)
{
    char whole[80];
    snprintf(whole, sizeof whole, "doppler_%s", name);
    write_histogram_as(out, whole, "", help, h);
}

/* Writes a value under another server's metric name. own: help text, such as the name of Doppler's metric. */
static void
write_alias_metric(dop_buf *out, const char *name, const char *labels, const char *type, const char *own, double value)
{
    dop_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s%s %.9g\n", name, own, name, type, name, labels, value);
}

static double
compute_per_second(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

/* Writes the metrics under the names of llama.cpp's server. */
static void
write_llama_metrics(const dop_metrics *m, dop_buf *out)
{
    const double written_s = m->per_token.sum, read = (double)(m->prompt_tokens - m->reused_tokens);
    write_alias_metric(out, "llamacpp:prompt_tokens_total", "", "counter", "Tokens of prompts that were computed.",
                       read);
    write_alias_metric(out, "llamacpp:prompt_seconds_total", "", "counter",
                       "As the sum of doppler_first_token_seconds.", m->first_token.sum);
    write_alias_metric(out, "llamacpp:tokens_predicted_total", "", "counter", "As doppler_written_tokens_total.",
                       (double)m->written_tokens);
    write_alias_metric(out, "llamacpp:tokens_predicted_seconds_total", "", "counter",
                       "As the sum of doppler_token_seconds.", written_s);
    write_alias_metric(out, "llamacpp:n_decode_total", "", "counter", "As doppler_steps_total.", (double)m->steps);
    write_alias_metric(out, "llamacpp:n_busy_slots_per_decode", "", "gauge", "Rows of a step, on average.",
                       compute_per_second((double)m->rows, (double)m->steps));
    write_alias_metric(out, "llamacpp:prompt_tokens_seconds", "", "gauge", "Tokens of prompts a second, on average.",
                       compute_per_second(read, m->first_token.sum));
    write_alias_metric(out, "llamacpp:predicted_tokens_seconds", "", "gauge",
                       "Tokens written a second by one job, on average.",
                       compute_per_second((double)m->per_token.n, written_s));
    write_alias_metric(out, "llamacpp:requests_processing", "", "gauge", "As doppler_jobs_running.", m->running);
    write_alias_metric(out, "llamacpp:requests_deferred", "", "gauge", "As doppler_jobs_waiting.", m->waiting);
}

/* Writes the metrics under the names of vLLM. */
static void
write_vllm_metrics(const dop_metrics *m, const char *model, dop_buf *out)
{
    char name[100], labels[128], comma[128];
    size_t n = 0;
    for (const char *c = model; *c && n + 1 < sizeof name; c++)
        if (*c >= ' ' && *c != '"' && *c != '\\')
            name[n++] = *c;
    name[n] = 0;
    snprintf(labels, sizeof labels, "{model_name=\"%s\"}", name);
    snprintf(comma, sizeof comma, "model_name=\"%s\",", name);
    write_alias_metric(out, "vllm:num_requests_running", labels, "gauge", "As doppler_jobs_running.", m->running);
    write_alias_metric(out, "vllm:num_requests_waiting", labels, "gauge", "As doppler_jobs_waiting.", m->waiting);
    write_alias_metric(out, "vllm:prompt_tokens_total", labels, "counter", "As doppler_prompt_tokens_total.",
                       (double)m->prompt_tokens);
    write_alias_metric(out, "vllm:generation_tokens_total", labels, "counter", "As doppler_written_tokens_total.",
                       (double)m->written_tokens);
    write_alias_metric(out, "vllm:prefix_cache_queries_total", labels, "counter", "As doppler_prompt_tokens_total.",
                       (double)m->prompt_tokens);
    write_alias_metric(out, "vllm:prefix_cache_hits_total", labels, "counter", "As doppler_prompt_tokens_reused_total.",
                       (double)m->reused_tokens);
    dop_buf_puts(out, "# HELP vllm:request_success_total As doppler_jobs_total.\n"
                      "# TYPE vllm:request_success_total counter\n");
    dop_buf_printf(out, "vllm:request_success_total{%sfinished_reason=\"stop\"} %llu\n", comma,
                   (unsigned long long)(m->jobs[1] + m->jobs[2]));
    dop_buf_printf(out, "vllm:request_success_total{%sfinished_reason=\"length\"} %llu\n", comma,
                   (unsigned long long)m->jobs[3]);
    write_histogram_as(out, "vllm:time_to_first_token_seconds", comma, "As doppler_first_token_seconds.",
                       &m->first_token);
    write_histogram_as(out, "vllm:time_per_output_token_seconds", comma, "As doppler_token_seconds.", &m->per_token);
    write_histogram_as(out, "vllm:e2e_request_latency_seconds", comma, "As doppler_job_seconds.", &m->duration);
}

void
dop_metrics_write(const dop_metrics *m, const char *model, dop_buf *out)
{
    static const char *const ends[DOP_METRIC_ENDS] = {
        "none", "end_token", "stop_text", "length", "timeout", "shutdown", "failed", "cancelled", "displaced",
    };
    write_number_metric(out, "prompt_tokens_total", "counter", "Tokens of prompts.", m->prompt_tokens);
    write_number_metric(out, "prompt_tokens_reused_total", "counter", "Those that a sequence held already.",
                        m->reused_tokens);
    write_number_metric(out, "prompt_tokens_loaded_total", "counter",
                        "Those of them that came from host memory and files.", m->loaded_tokens);
    write_number_metric(out, "checkpoints_made_total", "counter", "Checkpoints of sequences on the device.",
                        m->checkpoints_made);
    write_number_metric(out, "checkpoints_used_total", "counter", "Times that a sequence went on from one.",
                        m->checkpoints_used);
    write_number_metric(out, "cache_hits_total", "counter", "Pieces of prompts found in host memory.", m->cache_hits);
    write_number_metric(out, "file_hits_total", "counter", "Pieces of prompts found in files.", m->file_hits);
    write_number_metric(out, "files_written_total", "counter", "Files of prompts that were written.", m->files_written);
    write_number_metric(out, "files_removed_total", "counter", "Files of prompts that were removed to make room.",
                        m->files_removed);
    write_number_metric(out, "checkpoint_bytes", "gauge", "Device memory for checkpoints.", m->checkpoint_bytes);
    write_number_metric(out, "cache_bytes", "gauge", "Prompts in host memory.", m->cache_bytes);
    write_number_metric(out, "file_bytes", "gauge", "Prompts in files.", m->file_bytes);
    write_number_metric(out, "written_tokens_total", "counter", "Tokens that were generated.", m->written_tokens);
    write_number_metric(out, "steps_total", "counter", "Steps of the model.", m->steps);
    write_number_metric(out, "steps_ahead_total", "counter",
                        "Those that began before the tokens of the last one were known.", m->steps_ahead);
    write_number_metric(out, "pictures_total", "counter", "Pictures of prompts.", m->pictures);
    write_number_metric(out, "pictures_kept_total", "counter", "Those whose features were kept from an equal file.",
                        m->pictures_kept);
    write_number_metric(out, "drafted_tokens_total", "counter", "Drafts that steps checked.", m->drafted);
    write_number_metric(out, "accepted_tokens_total", "counter", "Those that became part of texts.", m->accepted);
    write_number_metric(out, "step_rows_total", "counter", "Rows of all steps: tokens that were computed.", m->rows);
    write_number_metric(out, "jobs_refused_total", "counter", "Jobs that found the queue full.", m->refused);
    write_metric_head(out, "jobs_total", "counter", "Jobs that ended, by how.");
    for (uint32_t i = 1; i < DOP_METRIC_ENDS; i++)
        dop_buf_printf(out, "doppler_jobs_total{end=\"%s\"} %llu\n", ends[i], (unsigned long long)m->jobs[i]);
    write_metric_head(out, "answers_total", "counter", "HTTP answers, by status.");
    for (uint32_t i = 2; i < DOP_METRIC_STATUSES; i++)
        dop_buf_printf(out, "doppler_answers_total{status=\"%uxx\"} %llu\n", i, (unsigned long long)m->answers[i]);
    write_number_metric(out, "jobs_running", "gauge", "Jobs that have a sequence.", m->running);
    write_number_metric(out, "jobs_waiting", "gauge", "Jobs in the queue.", m->waiting);
    write_number_metric(out, "sequences", "gauge", "Sequences that the plan holds.", m->sequences);
    write_own_histogram(out, "first_token_seconds", "From the request to its first token.", &m->first_token);
    write_own_histogram(out, "token_seconds", "Between tokens of a job.", &m->per_token);
    write_own_histogram(out, "job_seconds", "From the request to the end of its job.", &m->duration);
    write_own_histogram(out, "step_seconds", "Of one step of the model, with picking.", &m->step);
    write_own_histogram(out, "pick_seconds", "Of a step, picking tokens on the host.", &m->pick);
    write_llama_metrics(m, out);
    write_vllm_metrics(m, model, out);
}

static const struct {
    const char *name, *type, *help;
    size_t offset; /* offset of a uint64_t in dop_metrics */
} of_models[] = {
#define ROW(name, type, field, help)                   \
    {                                                  \
        name, type, help, offsetof(dop_metrics, field) \
    }
    ROW("prompt_tokens_total", "counter", prompt_tokens, "Tokens of prompts."),
    ROW("prompt_tokens_reused_total", "counter", reused_tokens, "Those that a sequence held already."),
    ROW("prompt_tokens_loaded_total", "counter", loaded_tokens, "Those that came from host memory and files."),
    ROW("written_tokens_total", "counter", written_tokens, "Tokens that were generated."),
    ROW("cache_hits_total", "counter", cache_hits, "Pieces of prompts found in host memory."),
    ROW("file_hits_total", "counter", file_hits, "Pieces of prompts found in files."),
    ROW("files_written_total", "counter", files_written, "Files of prompts that were written."),
    ROW("checkpoints_made_total", "counter", checkpoints_made, "Checkpoints of sequences on the device."),
    ROW("checkpoint_bytes", "gauge", checkpoint_bytes, "Device memory for checkpoints."),
    ROW("cache_bytes", "gauge", cache_bytes, "Prompts in host memory."),
#undef ROW
};
static_assert(sizeof of_models / sizeof *of_models == DOP_MODEL_METRICS, "a row for each metric");

void
dop_model_metrics_add(dop_model_metrics *all, const char *model, const dop_metrics *m)
{
    for (size_t i = 0; i < DOP_MODEL_METRICS; i++) {
        dop_buf *out = &all->samples[i];
        uint64_t value;
        memcpy(&value, (const char *)m + of_models[i].offset, sizeof value);
        dop_buf_printf(out, "doppler_model_%s{model=\"", of_models[i].name);
        for (const char *c = model; *c; c++)
            if (*c == '\n')
                dop_buf_puts(out, "\\n");
            else
                dop_buf_printf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
        dop_buf_printf(out, "\"} %llu\n", (unsigned long long)value);
    }
}

void
dop_model_metrics_write(dop_model_metrics *all, dop_buf *out)
{
    for (size_t i = 0; i < DOP_MODEL_METRICS; i++) {
        if (all->samples[i].size > 0)
            dop_buf_printf(out, "# HELP doppler_model_%s Of each model: %s\n# TYPE doppler_model_%s %s\n%s",
                           of_models[i].name, of_models[i].help, of_models[i].name, of_models[i].type,
                           all->samples[i].data);
        dop_buf_finish(&all->samples[i]);
    }
}
