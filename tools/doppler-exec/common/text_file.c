#include "tools/doppler-exec/common/text_file.h"

#include "base/format/gguf.h"
#include "runtime/library/text_internal.h"
#include "text/import/tokenizer_gguf.h"
#include "text/import/tokenizer_hf.h"

#include <string.h>
#include <sys/stat.h>

static dop_status
read_gguf(const char *path, dop_diag *diag, dop_tokenizer **out_tok)
{
    dop_gguf gguf;
    dop_status st = dop_gguf_open(path, diag, &gguf);
    if (st != DOP_OK)
        return st;
    st = dop_tokenizer_from_gguf(&gguf, diag, out_tok);
    dop_gguf_close(&gguf);
    return st;
}

static dop_status
read_tokenizer_file(const char *path, dop_diag *diag, dop_tokenizer **out_tok)
{
    struct stat sb;
    if (stat(path, &sb) == 0 && S_ISDIR(sb.st_mode))
        return dop_tokenizer_from_hf_dir(path, diag, out_tok);
    dop_map map;
    dop_status st = dop_map_open(path, diag, &map);
    if (st != DOP_OK)
        return st;
    if (map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0)
        st = read_gguf(path, diag, out_tok);
    else
        st = dop_tokenizer_from_bytes(path, map.data, (size_t)map.size, NULL, diag, out_tok);
    dop_map_close(&map);
    return st;
}

dop_status
dop_text_of_file(const char *path, dop_diag *diag, dop_text **out_text)
{
    dop_tokenizer *tok = NULL;
    dop_diag_clear(diag);
    *out_text = NULL;
    DOP_RETURN_IF_ERROR(read_tokenizer_file(path, diag, &tok));
    return dop_text_of_tokenizer(tok, diag, out_text);
}
