#include "base/encoding/protobuf.h"

#include <string.h>

static bool
read_varint(dop_pb *pb, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && pb->at < pb->end; shift += 7) {
        uint8_t c = *pb->at++;
        v |= (uint64_t)(c & 0x7fu) << shift;
        if (c < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

static bool
read_fixed(dop_pb *pb, size_t n, uint64_t *out)
{
    *out = 0;
    if ((size_t)(pb->end - pb->at) < n)
        return false;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)pb->at[i] << (8 * i);
    pb->at += n;
    return true;
}

bool
dop_pb_next(dop_pb *pb, dop_pb_field *f)
{
    uint64_t key, len;
    bool ok = false;
    memset(f, 0, sizeof *f);
    if (pb->damaged || pb->at == pb->end)
        return false;
    if (!read_varint(pb, &key) || key >> 3 == 0 || key >> 32)
        goto error;
    f->number = (uint32_t)(key >> 3);
    f->wire = (dop_pb_wire)(key & 7u);
    if (f->wire == DOP_PB_VARINT) {
        ok = read_varint(pb, &f->value);
    } else if (f->wire == DOP_PB_64 || f->wire == DOP_PB_32) {
        ok = read_fixed(pb, f->wire == DOP_PB_64 ? 8 : 4, &f->value);
    } else if (f->wire == DOP_PB_BYTES && read_varint(pb, &len) && len <= (size_t)(pb->end - pb->at)) {
        f->data = pb->at;
        f->len = (size_t)len;
        pb->at += len;
        ok = true;
    }
error:
    pb->damaged = !ok;
    return ok;
}

bool
dop_pb_float(const dop_pb_field *f, float *out)
{
    uint32_t bits = (uint32_t)f->value;
    memcpy(out, &bits, sizeof bits);
    return f->wire == DOP_PB_32;
}
