/* The server's metrics and their Prometheus format. */
#ifndef DOPPLER_SERVE_ENGINE_METRICS_H
#define DOPPLER_SERVE_ENGINE_METRICS_H

#include "base/base.h"

enum { DOP_METRIC_BUCKETS = 16, DOP_METRIC_ENDS = 9, DOP_METRIC_STATUSES = 6 };

/* Histogram of durations in seconds. */
typedef struct dop_histogram {
    /* counts[i]: values up to 1 ms * 2^i that are not in an earlier bucket; the last bucket has all larger values. */
    uint64_t counts[DOP_METRIC_BUCKETS];
    uint64_t n;
    double sum; /* sum of all values in seconds */
} dop_histogram;

typedef struct dop_metrics {
    uint64_t prompt_tokens, reused_tokens, written_tokens;
    uint64_t steps, rows; /* number of steps; total number of their rows */
    /* Prefix cache: state and use of checkpoints and stored prompts (dop_counters). */
    uint64_t loaded_tokens, checkpoints_made, checkpoints_used, cache_hits, file_hits, files_written, files_removed;
    uint64_t checkpoint_bytes, cache_bytes, file_bytes;
    uint64_t pictures, pictures_kept;      /* images in prompts; number of them whose features were cached */
    uint64_t drafted, accepted;            /* drafts that were verified; number of them that were accepted */
    uint64_t steps_ahead;                  /* steps submitted before the tokens of the previous step were known */
    uint64_t jobs[DOP_METRIC_ENDS];        /* ended jobs, by dop_job_end */
    uint64_t answers[DOP_METRIC_STATUSES]; /* HTTP answers, by the first digit of the status */
    uint64_t refused;                      /* jobs refused because the queue was full */
    uint32_t running, waiting, sequences;
    dop_histogram first_token, per_token, duration, step, pick;
} dop_metrics;

void dop_histogram_add(dop_histogram *h, double seconds);
/* Adds the metrics of one engine to a sum. All engines share one directory of files, so file_bytes is the maximum. */
void dop_metrics_add(dop_metrics *sum, const dop_metrics *m);
/* Clears the gauges that end with an engine: its jobs, sequences and memory. Counters and file sizes stay. */
void dop_metrics_end(dop_metrics *m);
/* Appends the metrics in Prometheus text format (version 0.0.4). They are repeated under the names used by
 * llama.cpp's server and vLLM, so that existing dashboards work. model: value of the model label. */
void dop_metrics_write(const dop_metrics *m, const char *model, dop_buf *out);

/* Metrics of several models, each with the label `model`. Zero-initialized: no model yet. */
enum { DOP_MODEL_METRICS = 10 };
typedef struct dop_model_metrics {
    dop_buf samples[DOP_MODEL_METRICS]; /* sample lines of each metric */
} dop_model_metrics;
void dop_model_metrics_add(dop_model_metrics *all, const char *model, const dop_metrics *m);
/* Appends the metrics in Prometheus text format, and frees them. */
void dop_model_metrics_write(dop_model_metrics *all, dop_buf *out);

#endif
