/* Writes transcripts as text, JSON, SRT and WebVTT. */
#include "base/base.h"

#include <doppler/speech.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Writes a time such as "01:02:03,456". WebVTT omits zero hours and uses a point. */
static void
put_time(dop_buf *out, double seconds, bool vtt)
{
    const uint64_t ms = (uint64_t)llround(seconds * 1000), hours = ms / 3600000;
    if (hours > 0 || !vtt)
        dop_buf_printf(out, "%02llu:", (unsigned long long)hours);
    dop_buf_printf(out, "%02u:%02u%c%03u", (unsigned)(ms / 60000 % 60), (unsigned)(ms / 1000 % 60), vtt ? '.' : ',',
                   (unsigned)(ms % 1000));
}

static void
put_subtitles(const dop_transcript *t, bool vtt, dop_buf *out)
{
    if (vtt)
        dop_buf_puts(out, "WEBVTT\n\n");
    for (size_t i = 0; i < t->n_segments; i++) {
        const dop_speech_segment *s = &t->segments[i];
        if (!vtt)
            dop_buf_printf(out, "%zu\n", i + 1);
        put_time(out, s->start, vtt);
        dop_buf_puts(out, " --> ");
        put_time(out, s->end, vtt);
        dop_buf_puts(out, "\n");
        for (const char *c = s->text + strspn(s->text, " "); *c; c++) /* an arrow would start another cue */
            dop_buf_printf(out, "%c", *c == '\n' ? ' ' : *c == '>' && c > s->text && c[-1] == '-' ? '}' : *c);
        dop_buf_puts(out, "\n\n");
    }
}

static json_t *
segment_json(const dop_speech_segment *s, size_t number)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < s->n_tokens; i++)
        json_array_append_new(tokens, json_integer(s->tokens[i]));
    return json_pack("{s:I, s:I, s:f, s:f, s:s, s:o, s:f, s:f, s:f, s:f}", "id", (json_int_t)number, "seek",
                     (json_int_t)s->seek, "start", round(s->start * 100) / 100, "end", round(s->end * 100) / 100,
                     "text", s->text, "tokens", tokens, "temperature", s->temperature, "avg_logprob", s->avg_logprob,
                     "compression_ratio", s->compression_ratio, "no_speech_prob", s->no_speech_prob);
}

static json_t *
transcript_json(const dop_transcript *t, bool verbose)
{
    if (!verbose)
        return json_pack("{s:s}", "text", t->text);
    json_t *segments = json_array();
    for (size_t i = 0; i < t->n_segments; i++)
        json_array_append_new(segments, segment_json(&t->segments[i], i));
    return json_pack("{s:s, s:s, s:f, s:s, s:o}", "task", t->task, "language", t->language, "duration", t->duration,
                     "text", t->text, "segments", segments);
}

dop_status
dop_transcript_write(const dop_transcript *transcript, dop_transcript_form form, dop_diag *diag, char **out_text,
                     size_t *out_n)
{
    dop_buf out = {0};
    dop_diag_clear(diag);
    *out_text = NULL;
    *out_n = 0;
    if (form == DOP_TRANSCRIPT_SRT || form == DOP_TRANSCRIPT_VTT) {
        put_subtitles(transcript, form == DOP_TRANSCRIPT_VTT, &out);
    } else if (form == DOP_TRANSCRIPT_TEXT) {
        dop_buf_puts(&out, transcript->text);
        dop_buf_puts(&out, "\n");
    } else {
        json_t *root = transcript_json(transcript, form == DOP_TRANSCRIPT_VERBOSE);
        char *line = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
        json_decref(root);
        if (line)
            dop_buf_puts(&out, line);
        out.failed = out.failed || !line;
        free(line);
    }
    char *text = out.failed ? NULL : malloc(out.size + 1);
    if (text) {
        memcpy(text, out.data ? out.data : "", out.size);
        text[out.size] = 0;
        *out_text = text;
        *out_n = out.size;
    }
    dop_buf_finish(&out);
    return text ? DOP_OK : DOP_NO_MEMORY(diag);
}
