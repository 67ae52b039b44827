/* Images in requests to the server, given by URL or file: --image-urls and --image-files. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_PICTURE_URLS_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_PICTURE_URLS_H

#include "serve/api/api.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/fetch/fetch.h"

#include <stdatomic.h>

typedef struct dop_picture_fetcher {
    dop_picture_urls urls; /* for dop_api; its user is this object */
    dop_fetch_picture_fn *fetch;
    bool any_address;
    atomic_uint running;
} dop_picture_fetcher;

/* Initializes a fetcher from the options; without them, all URLs are refused. Fails with DOP_E_USAGE for a wrong
 * option or if the download plugin is not installed. It must outlive the server. */
dop_status dop_picture_fetcher_open(const dop_cli *cli, dop_diag *diag, dop_picture_fetcher *out);

#endif
