/* The server's metrics, and their text for Prometheus. */
#ifndef DOPPLER_SERVE_ENGINE_METRICS_H
#define DOPPLER_SERVE_ENGINE_METRICS_H

#include "base/base.h"

enum { DOP_METRIC_BUCKETS = 16, DOP_METRIC_ENDS = 9, DOP_METRIC_STATUSES = 6 };

/* How many values, in seconds, fell into each of several ranges. */
typedef struct dop_histogram {
    /* counts[i]: values up to 1 ms * 2^i that no earlier bucket has; the last bucket has all others. */
    uint64_t counts[DOP_METRIC_BUCKETS];
    uint64_t n;
    double sum; /* seconds */
} dop_histogram;

typedef struct dop_metrics {
    uint64_t prompt_tokens, reused_tokens, written_tokens;
    uint64_t steps, rows; /* number of steps, and of their rows together */
    /* Of prefix reuse: what checkpoints and the store of prompts have and did (dop_counters). */
    uint64_t loaded_tokens, checkpoints_made, checkpoints_used, cache_hits, file_hits, files_written, files_removed;
    uint64_t checkpoint_bytes, cache_bytes, file_bytes;
    uint64_t pictures, pictures_kept;      /* pictures of prompts, and those whose features were there already */
    uint64_t drafted, accepted;            /* drafts in steps of jobs, and those that became part of their texts */
    uint64_t steps_ahead;                  /* steps in flight before the tokens of the step before were known */
    uint64_t jobs[DOP_METRIC_ENDS];        /* jobs that ended, by dop_job_end */
    uint64_t answers[DOP_METRIC_STATUSES]; /* HTTP answers, by the first digit of their status */
    uint64_t refused;                      /* jobs that found the queue full */
    uint32_t running, waiting, sequences;
    dop_histogram first_token, per_token, duration, step, pick;
} dop_metrics;

void dop_histogram_add(dop_histogram *h, double seconds);
/* Adds the metrics of one engine to those of several, whose files are in one folder: file_bytes is the largest size that was seen. */
void dop_metrics_add(dop_metrics *sum, const dop_metrics *m);
/* Clears what ends with an engine: its jobs, sequences and memory.  Counters and the files stay. */
void dop_metrics_end(dop_metrics *m);
/* Appends the metrics in the text format of Prometheus (version 0.0.4), also under the names that llama.cpp's server and vLLM have for
 * them, so that dashboards for these work.  model: its name, for a label. */
void dop_metrics_write(const dop_metrics *m, const char *model, dop_buf *out);

/* Metrics of several models, each with the label `model`.  Zeros: of no model yet. */
enum { DOP_MODEL_METRICS = 10 };
typedef struct dop_model_metrics {
    dop_buf samples[DOP_MODEL_METRICS]; /* lines of each metric */
} dop_model_metrics;
void dop_model_metrics_add(dop_model_metrics *all, const char *model, const dop_metrics *m);
/* Appends them to a text for Prometheus, and frees them. */
void dop_model_metrics_write(dop_model_metrics *all, dop_buf *out);

#endif
