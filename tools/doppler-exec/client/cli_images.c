#include "tools/doppler-exec/client/cli_images.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

dop_status
dop_cli_image_add(dop_cli_images *x, dop_model *model, const char *path, dop_diag *diag)
{
    dop_buf file = {0};
    dop_image *image = NULL;
    dop_status st = x->images ? DOP_OK : dop_images_open(model, NULL, diag, &x->images);
    dop_image **list = st == DOP_OK ? realloc(x->list, (x->n + 1) * sizeof *list) : NULL;
    if (st == DOP_OK && !list)
        st = DOP_NO_MEMORY(diag);
    if (st != DOP_OK)
        return st;
    x->list = list;
    st = dop_cli_read(path, diag, &file);
    if (st == DOP_OK) {
        st = dop_image_read(x->images, file.data, file.size, true, diag, &image);
        if (st != DOP_OK && !diag->path[0])
            snprintf(diag->path, sizeof diag->path, "%s", path);
    }
    if (st == DOP_OK)
        st = dop_image_see(image, diag);
    dop_buf_finish(&file);
    if (st == DOP_OK)
        x->list[x->n++] = image;
    else
        dop_image_close(image);
    return st;
}

dop_status
dop_cli_images_add(dop_cli_images *x, const dop_cli *cli, dop_model *model, dop_diag *diag)
{
    for (size_t i = 0; i < cli->images.count; i++)
        DOP_RETURN_IF_ERROR(dop_cli_image_add(x, model, cli->images.items[i], diag));
    return DOP_OK;
}

void
dop_cli_images_drop(dop_cli_images *x, size_t from, size_t n)
{
    const size_t left = from < x->n ? x->n - from : 0, drops = n < left ? n : left;
    for (size_t i = from; i < from + drops; i++)
        dop_image_close(x->list[i]);
    if (drops > 0)
        memmove(x->list + from, x->list + from + drops, (left - drops) * sizeof *x->list);
    x->n -= drops;
}

size_t
dop_cli_images_of(const json_t *message)
{
    return (size_t)json_integer_value(json_object_get(message, "n_images"));
}

void
dop_cli_images_finish(dop_cli_images *x)
{
    dop_cli_images_drop(x, 0, SIZE_MAX);
    free(x->list);
    dop_images_close(x->images);
    *x = (dop_cli_images){0};
}

dop_status
dop_cli_images_place(const dop_cli_images *x, dop_ids *ids, dop_diag *diag)
{
    return x->n == 0 ? DOP_OK : dop_images_place(x->images, ids->data, ids->count, x->list, x->n, diag);
}

dop_status
dop_cli_images_encode(const dop_cli_images *x, const dop_text *text, const char *prompt, size_t n, unsigned special,
                      dop_diag *diag, dop_ids *out_ids)
{
    char *marked = NULL, *expanded = NULL;
    size_t n_marked;
    dop_ids ids = {0};
    if (x->n == 0)
        return dop_cli_encode(text, prompt, n, special, diag, out_ids);
    dop_status st = dop_images_mark(x->images, prompt, n, x->n, diag, &marked, &n_marked);
    if (st == DOP_OK)
        st = dop_images_expand(x->images, marked, n_marked, x->list, x->n, diag, &expanded, &n);
    if (st == DOP_OK)
        st = dop_cli_encode(text, expanded, n, special | (unsigned)DOP_TEXT_PARSE_SPECIAL, diag, &ids);
    if (st == DOP_OK)
        st = dop_cli_images_place(x, &ids, diag);
    for (size_t i = 0; i < ids.count && st == DOP_OK; i++)
        dop_ids_push(out_ids, ids.data[i]);
    dop_ids_finish(&ids);
    dop_free(marked);
    dop_free(expanded);
    return st == DOP_OK && out_ids->failed ? DOP_NO_MEMORY(diag) : st;
}

dop_status
dop_cli_features_write(const dop_cli_images *x, const char *path, dop_diag *diag)
{
    dop_out_file file;
    dop_status st = dop_out_file_open(path, diag, &file);
    if (st != DOP_OK)
        return st;
    for (size_t i = 0; i < x->n && st == DOP_OK; i++) {
        uint32_t width;
        const float *rows = dop_image_rows_of(x->list[i], &width);
        const size_t n = (size_t)dop_image_features(x->list[i]) * width;
        if (!rows || fwrite(rows, sizeof *rows, n, file.f) != n)
            st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
    }
    dop_status closed = dop_out_file_close(&file, st == DOP_OK, diag);
    return st != DOP_OK ? st : closed;
}
