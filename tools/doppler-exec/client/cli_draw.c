/* --draw: image generation from text, as PNG. */
#include "base/program/progress_line.h"
#include "tools/doppler-exec/client/cli_generate.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <doppler/draw.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shows the progress on a terminal. */
static bool
show_draw_progress(void *user, uint32_t step, uint32_t n_steps)
{
    dop_progress_line *line = user;
    return dop_progress_line_show(line, "steps", step, n_steps);
}

static dop_status
write_picture(const char *path, const dop_drawing *d, const dop_draw_options *options, dop_diag *diag)
{
    char *text = NULL;
    dop_out_file file;
    void *png = NULL;
    size_t n = 0;
    dop_status st = dop_drawing_parameters(d, options, diag, &text);
    if (st == DOP_OK)
        st = dop_drawing_png(d, text, diag, &png, &n);
    if (st == DOP_OK)
        st = dop_out_file_open(path, diag, &file);
    if (st == DOP_OK) {
        if (fwrite(png, 1, n, file.f) != n)
            st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
        const dop_status closed = dop_out_file_close(&file, st == DOP_OK, diag);
        st = st != DOP_OK ? st : closed;
    }
    free(png);
    dop_free(text);
    return st;
}

dop_status
dop_mode_draw(dop_cli *cli, dop_diag *diag)
{
    const char *path = NULL;
    dop_model *model = NULL;
    dop_open_options o;
    dop_drawing d = {0};
    dop_facts facts;
    uint64_t seed = 0;
    dop_buf init = {0}, mask = {0};
    dop_progress_line line = {.program = "doppler-exec", .quiet = cli->quiet, .verbose = cli->verbose};
    dop_status st = cli->seed ? dop_cli_seed(cli->seed, &seed, diag) : DOP_OK;
    if (st == DOP_OK)
        st = dop_cli_plan(cli, diag, &path);
    if (st == DOP_OK && cli->init)
        st = dop_cli_read(cli->init, diag, &init);
    if (st == DOP_OK && cli->mask)
        st = dop_cli_read(cli->mask, diag, &mask);
    dop_cli_open_options(cli, &o);
    o.on_demand = !cli->made;
    if (st == DOP_OK)
        st = dop_model_open(path, &o, diag, &model);
    const double begin = dop_now_ms();
    const dop_draw_options options = {.text = cli->draw,
                                      .negative = cli->negative,
                                      .steps = cli->steps,
                                      .guidance = isnan(cli->guidance) ? 0 : cli->guidance,
                                      .seed = seed,
                                      .sampler = cli->sampler,
                                      .init = cli->init && !init.data ? "" : init.data,
                                      .n_init = init.size,
                                      .mask = cli->mask && !mask.data ? "" : mask.data,
                                      .n_mask = mask.size,
                                      .strength = isnan(cli->strength) ? 0 : cli->strength,
                                      .progress = show_draw_progress,
                                      .user = &line};
    if (st == DOP_OK)
        st = dop_draw_picture(model, &options, diag, &d);
    dop_progress_line_end(&line);
    const double ms = dop_now_ms() - begin;
    if (st == DOP_OK)
        st = write_picture(cli->output, &d, &options, diag);
    if (st == DOP_OK && !cli->quiet) {
        dop_model_facts(model, &facts);
        if (d.cut)
            fprintf(stderr, "doppler-exec: note: the text is too long: its last %u tokens are left out\n", d.cut);
        fprintf(stderr, "load %.0f ms; %u x %u in %u steps of %s, guidance %g: %.2f s; on %s\n", facts.load_ms, d.width,
                d.height, d.steps, d.sampler, d.guidance, ms / 1e3, facts.device);
    }
    free(d.rgb);
    dop_buf_finish(&init);
    dop_buf_finish(&mask);
    dop_model_close(model);
    return st;
}
