#include "tools/dopplerc/modules_tar.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, NAME = 100 };

/* Header of a file in a tar archive (POSIX). Numbers are octal digits. */
typedef struct header {
    char name[NAME], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[NAME], magic[6], version[2],
        user[32], group[32], major[8], minor[8], prefix[155], rest[12];
} header;
_Static_assert(sizeof(header) == BLOCK, "a header is one block");

void
dop_module_name(const dop_built_kernel *k, uint32_t number, const char *target, char *out, size_t cap)
{
    snprintf(out, cap, "%03u-%s%s%s-%s", number, target ? target : "", target ? "-" : "",
             dop_variant_of(k->k.variant)->name, dop_label_text(k->label));
    for (char *p = out; *p; p++)
        if (*p == '/')
            *p = '.';
}

static dop_status
add_tar_file(const char *name, const dop_buf *data, dop_diag *diag, dop_buf *out)
{
    header h;
    uint32_t sum = 0;
    char bytes[BLOCK], digits[16];
    if (data->size >= 1ull << 33 || strlen(name) > NAME)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "module %s does not fit an archive", name);
    memset(&h, 0, sizeof h);
    memcpy(h.name, name, strlen(name));
    memcpy(h.mode, "0000644", 8);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    snprintf(digits, sizeof digits, "%011llo", (unsigned long long)data->size);
    memcpy(h.size, digits, 12);
    memcpy(h.mtime, "00000000000", 12);
    memset(h.checksum, ' ', sizeof h.checksum); /* POSIX: blanks while the checksum is computed */
    h.type = '0';
    memcpy(h.magic, "ustar", 6);
    memcpy(h.version, "00", 2);
    memcpy(bytes, &h, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        sum += (unsigned char)bytes[i];
    snprintf(digits, sizeof digits, "%06o", sum);
    memcpy(h.checksum, digits, 7);
    dop_buf_append(out, &h, sizeof h);
    dop_buf_append(out, data->data, data->size);
    dop_buf_zeros(out, (BLOCK - data->size % BLOCK) % BLOCK);
    return DOP_OK;
}

dop_status
dop_modules_tar(const dop_compilation *list, uint32_t n, dop_diag *diag, dop_buf *out)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < list[i].kernels.n; k++) {
            const dop_built_kernel *kernel = &list[i].kernels.items[k];
            char stem[NAME - 4], name[NAME + 1];
            if (!kernel->spirv.size)
                /* a dropped kernel */
                continue;
            dop_module_name(kernel, k, n > 1 ? list[i].target->name : NULL, stem, sizeof stem);
            snprintf(name, sizeof name, "%s.spv", stem);
            DOP_TRY(add_tar_file(name, &kernel->spirv, diag, out));
        }
error:
    dop_buf_zeros(out, 2 * (size_t)BLOCK); /* two zero blocks end the archive */
    return st;
}
