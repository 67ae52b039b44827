/* Prints a prediction as text or JSON. */
#include "compiler/parts/simulate.h"

#include <jansson.h>
#include <stdlib.h>

static double
compute_rate(double tokens, double us)
{
    return us > 0 ? tokens * 1e6 / us : 0;
}

static void
put_time_source(const dop_sim_setup *setup, dop_buf *out)
{
    for (uint32_t i = 0; i < setup->n_devices; i++) {
        const dop_sim_device *d = &setup->devices[i];
        if (setup->n_devices > 1)
            dop_buf_printf(out, "part %u: ", i);
        if (d->times.n == 0)
            dop_buf_printf(out, "stated rates, nothing measured: %.4g TB/s, %.4g TFLOP/s\n", d->bandwidth * 1e-12,
                           d->flops * 1e-12);
        else if (d->memory_speed == 1 && d->product_speed == 1)
            dop_buf_printf(out, "stage times of %s, %s on %s\n", d->times.model, d->times.storage, d->times.device);
        else
            dop_buf_printf(out, "stage times of %s, %s on %s; here bytes %.3g and products %.3g times as fast\n",
                           d->times.model, d->times.storage, d->times.device, d->memory_speed, d->product_speed);
    }
}

static void
put_part_rows(const dop_sim_result *r, dop_buf *out)
{
    dop_buf_printf(out, "\n    %-4s %-10s %-16s %11s %11s %10s", "part", "layers", "target", "weights MB", "memory MB",
                   "1 row us");
    if (r->sequences)
        dop_buf_printf(out, " %4u rows us", r->many.rows);
    for (uint32_t i = 0; i < r->n_chunks; i++)
        dop_buf_printf(out, " chunk %4u us", r->chunks[i].rows);
    dop_buf_puts(out, "   then over the cut: bytes a row, us of each\n");
    for (uint32_t k = 0; k < r->n_parts; k++) {
        dop_buf_printf(out, "    %-4u %3u to %-3u %-16s %11.1f %11.1f %10.1f", k, r->first_layer[k],
                       r->end_layer[k] - 1, r->target[k], (double)r->weights[k] * 1e-6, (double)r->memory[k] * 1e-6,
                       r->decode.part_us[k]);
        if (r->sequences)
            dop_buf_printf(out, " %12.1f", r->many.part_us[k]);
        for (uint32_t i = 0; i < r->n_chunks; i++)
            dop_buf_printf(out, " %13.1f", r->chunks[i].part_us[k]);
        if (k + 1 < r->n_parts) {
            dop_buf_printf(out, "   %llu, %.1f", (unsigned long long)r->decode.hop_bytes[k], r->decode.hop_us[k]);
            if (r->sequences)
                dop_buf_printf(out, " %.1f", r->many.hop_us[k]);
            for (uint32_t i = 0; i < r->n_chunks; i++)
                dop_buf_printf(out, " %.1f", r->chunks[i].hop_us[k]);
        }
        dop_buf_puts(out, r->fits[k] ? "\n" : "   does not fit the device's memory\n");
    }
}

static void
put_rates(const char *name, const dop_sim_result *r, dop_buf *out)
{
    dop_buf_printf(out, "%-10s %s  %10.3f ms %9.1f tok/s", name, r->all_fit ? "      " : "no fit", r->decode_us * 1e-3,
                   compute_rate(1, r->decode_us));
    if (r->sequences)
        dop_buf_printf(out, "  %10.3f ms %9.1f tok/s (%u x %u)", r->many_us * 1e-3,
                       compute_rate(r->sequences, r->many_us), r->groups, r->many.rows);
    dop_buf_printf(out, "  %10.1f ms %9.1f tok/s (%.0f%% idle)\n", r->prompt_us * 1e-3,
                   compute_rate(r->prompt, r->prompt_us), r->idle * 100);
}

void
dop_sim_text(const dop_sim_setup *setup, const dop_compilation *whole, const dop_sim_result *parts,
             const dop_sim_result *one, dop_buf *out)
{
    dop_buf_printf(out, "prediction, nothing of it was run: %s in %u parts\n",
                   whole->model.name ? whole->model.name : "model", parts->n_parts);
    put_time_source(setup, out);
    put_part_rows(parts, out);
    dop_buf_printf(out, "\n%-10s        %25s", "predicted", "one sequence");
    if (parts->sequences)
        dop_buf_printf(out, "  %17u sequences, groups", parts->sequences);
    dop_buf_printf(out, "  %12s of %u tokens\n", "prompt", parts->prompt);
    put_rates("parts", parts, out);
    put_rates("one device", one, out);
    if (parts->n_guessed + one->n_guessed > 0)
        dop_buf_printf(out,
                       "%u dispatches are of kinds that were not measured: taken at the mean rate of a measured step\n",
                       parts->n_guessed + one->n_guessed);
}

static json_t *
part_json(const dop_sim_result *r, uint32_t k)
{
    json_t *chunks = json_array(), *hops = json_array();
    for (uint32_t i = 0; i < r->n_chunks; i++) {
        json_array_append_new(chunks, json_real(r->chunks[i].part_us[k]));
        json_array_append_new(hops, json_real(r->chunks[i].hop_us[k]));
    }
    return json_pack("{s:[I,I], s:s, s:I, s:I, s:b, s:f, s:f, s:o, s:I, s:f, s:f, s:o}", "layers",
                     (json_int_t)r->first_layer[k], (json_int_t)r->end_layer[k] - 1, "target", r->target[k], "weights",
                     (json_int_t)r->weights[k], "memory", (json_int_t)r->memory[k], "fits", (int)r->fits[k],
                     "decode_us", r->decode.part_us[k], "sequences_us", r->many.part_us[k], "chunks_us", chunks,
                     "hop_bytes", (json_int_t)r->decode.hop_bytes[k], "hop_us", r->decode.hop_us[k], "sequences_hop_us",
                     r->many.hop_us[k], "chunks_hop_us", hops);
}

static json_t *
result_json(const dop_sim_result *r)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < r->n_parts; k++)
        json_array_append_new(list, part_json(r, k));
    return json_pack("{s:f, s:I, s:I, s:f, s:I, s:f, s:b, s:I, s:o}", "decode_tps", compute_rate(1, r->decode_us),
                     "sequences", (json_int_t)r->sequences, "groups", (json_int_t)r->groups, "sequences_tps",
                     compute_rate(r->sequences, r->many_us), "prompt", (json_int_t)r->prompt, "prompt_tps",
                     compute_rate(r->prompt, r->prompt_us), "fits", (int)r->all_fit, "not_measured",
                     (json_int_t)r->n_guessed, "parts", list);
}

dop_status
dop_sim_json(const dop_sim_setup *setup, const dop_compilation *whole, const dop_sim_result *parts,
             const dop_sim_result *one, dop_diag *diag, dop_buf *out)
{
    json_t *measured = json_array();
    for (uint32_t i = 0; i < setup->n_devices; i++)
        if (setup->devices[i].times.n > 0)
            json_array_append_new(measured,
                                  json_pack("{s:s, s:s, s:s}", "device", setup->devices[i].times.device, "model",
                                            setup->devices[i].times.model, "weights", setup->devices[i].times.storage));
    json_t *o = json_pack("{s:s, s:b, s:s, s:o, s:o, s:o}", "format", "doppler-prediction 1", "predicted", 1, "model",
                          whole->model.name ? whole->model.name : "model", "measured", measured, "parts",
                          result_json(parts), "one", result_json(one));
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (!text)
        return DOP_NO_MEMORY(diag);
    dop_buf_printf(out, "%s\n", text);
    free(text);
    return DOP_OK;
}
