#include "runtime/serve/engine/metrics.h"

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
head(dop_buf *out, const char *name, const char *type, const char *help)
{
    dop_buf_printf(out, "# HELP doppler_%s %s\n# TYPE doppler_%s %s\n", name, help, name, type);
}

static void
number(dop_buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
    head(out, name, type, help);
    dop_buf_printf(out, "doppler_%s %llu\n", name, (unsigned long long)value);
}

static void
histogram(dop_buf *out, const char *name, const char *help, const dop_histogram *h)
{
    uint64_t below = 0;
    double bound = 1e-3;
    head(out, name, "histogram", help);
    for (uint32_t i = 0; i + 1 < DOP_METRIC_BUCKETS; i++, bound *= 2) {
        below += h->counts[i];
        dop_buf_printf(out, "doppler_%s_bucket{le=\"%.3f\"} %llu\n", name, bound, (unsigned long long)below);
    }
    dop_buf_printf(out, "doppler_%s_bucket{le=\"+Inf\"} %llu\ndoppler_%s_sum %.6f\ndoppler_%s_count %llu\n", name,
                   (unsigned long long)h->n, name, h->sum, name, (unsigned long long)h->n);
}

void
dop_metrics_write(const dop_metrics *m, dop_buf *out)
{
    static const char *const ends[DOP_METRIC_ENDS] = {
        "none", "end_token", "stop_text", "length", "timeout", "shutdown", "failed", "cancelled",
    };
    number(out, "prompt_tokens_total", "counter", "Tokens of prompts.", m->prompt_tokens);
    number(out, "prompt_tokens_reused_total", "counter", "Those that a sequence held already.", m->reused_tokens);
    number(out, "prompt_tokens_loaded_total", "counter", "Those of them that came from host memory and files.",
           m->loaded_tokens);
    number(out, "checkpoints_made_total", "counter", "Checkpoints of sequences on the device.", m->checkpoints_made);
    number(out, "checkpoints_used_total", "counter", "Times that a sequence went on from one.", m->checkpoints_used);
    number(out, "cache_hits_total", "counter", "Pieces of prompts found in host memory.", m->cache_hits);
    number(out, "file_hits_total", "counter", "Pieces of prompts found in files.", m->file_hits);
    number(out, "files_written_total", "counter", "Files of prompts that were written.", m->files_written);
    number(out, "files_removed_total", "counter", "Files of prompts that were removed to make room.", m->files_removed);
    number(out, "checkpoint_bytes", "gauge", "Device memory for checkpoints.", m->checkpoint_bytes);
    number(out, "cache_bytes", "gauge", "Prompts in host memory.", m->cache_bytes);
    number(out, "file_bytes", "gauge", "Prompts in files.", m->file_bytes);
    number(out, "written_tokens_total", "counter", "Tokens that were generated.", m->written_tokens);
    number(out, "steps_total", "counter", "Steps of the model.", m->steps);
    number(out, "steps_ahead_total", "counter", "Those that began before the tokens of the last one were known.",
           m->steps_ahead);
    number(out, "step_rows_total", "counter", "Rows of all steps: tokens that were computed.", m->rows);
    number(out, "jobs_refused_total", "counter", "Jobs that found the queue full.", m->refused);
    head(out, "jobs_total", "counter", "Jobs that ended, by how.");
    for (uint32_t i = 1; i < DOP_METRIC_ENDS; i++)
        dop_buf_printf(out, "doppler_jobs_total{end=\"%s\"} %llu\n", ends[i], (unsigned long long)m->jobs[i]);
    head(out, "answers_total", "counter", "HTTP answers, by status.");
    for (uint32_t i = 2; i < DOP_METRIC_STATUSES; i++)
        dop_buf_printf(out, "doppler_answers_total{status=\"%uxx\"} %llu\n", i, (unsigned long long)m->answers[i]);
    number(out, "jobs_running", "gauge", "Jobs that have a sequence.", m->running);
    number(out, "jobs_waiting", "gauge", "Jobs in the queue.", m->waiting);
    number(out, "sequences", "gauge", "Sequences that the plan holds.", m->sequences);
    histogram(out, "first_token_seconds", "From the request to its first token.", &m->first_token);
    histogram(out, "token_seconds", "Between tokens of a job.", &m->per_token);
    histogram(out, "job_seconds", "From the request to the end of its job.", &m->duration);
    histogram(out, "step_seconds", "Of one step of the model, with picking.", &m->step);
    histogram(out, "pick_seconds", "Of a step, picking tokens on the host.", &m->pick);
}
