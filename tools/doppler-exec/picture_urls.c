#include "tools/doppler-exec/picture_urls.h"

#include "tools/doppler-exec/on_demand/compiler.h"

#include <string.h>
#include <sys/stat.h>

/* Maximum concurrent image downloads: fewer than the server's reading threads, so that other requests proceed. */
enum { MAX_RUNNING = 2 };

/* Downloads an image (dop_picture_urls.fetch). */
static dop_status
fetch_image(void *user, const char *url, size_t max_bytes, double seconds, const atomic_bool *cancelled, dop_diag *diag,
            dop_buf *out)
{
    dop_picture_fetcher *f = user;
    dop_status st;
    if (atomic_fetch_add(&f->running, 1) >= MAX_RUNNING) {
        st = DOP_FAIL(diag, DOP_E_INPUT, "the picture cannot be fetched: the server is fetching others, try again");
    } else {
        const dop_fetch_picture_request r = {.url = url,
                                             .max_bytes = max_bytes,
                                             .seconds = seconds,
                                             .any_address = f->any_address,
                                             .cancelled = cancelled};
        st = f->fetch(&r, diag, out);
    }
    atomic_fetch_sub(&f->running, 1);
    return st;
}

dop_status
dop_picture_fetcher_open(const dop_cli *cli, dop_diag *diag, dop_picture_fetcher *out)
{
    struct stat sb;
    const char *which = cli->image_urls;
    *out = (dop_picture_fetcher){.urls = {.user = out, .folder = cli->image_files}};
    atomic_init(&out->running, 0);
    if (cli->image_files && (stat(cli->image_files, &sb) != 0 || !S_ISDIR(sb.st_mode)))
        return DOP_FAIL(diag, DOP_E_USAGE, "--image-files %s: this is no folder", cli->image_files);
    if (!which)
        return DOP_OK;
    out->any_address = strcmp(which, "any") == 0;
    out->urls.fetch = fetch_image;
    return dop_load_picture_fetcher(diag, &out->fetch);
}
