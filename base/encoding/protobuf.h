/* Reading messages in the wire format of Protocol Buffers, field by field, in place. */
#ifndef DOPPLER_BASE_ENCODING_PROTOBUF_H
#define DOPPLER_BASE_ENCODING_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dop_pb_wire { DOP_PB_VARINT = 0, DOP_PB_64 = 1, DOP_PB_BYTES = 2, DOP_PB_32 = 5 } dop_pb_wire;

/* A reader of a message: the bytes that are not read yet. */
typedef struct dop_pb {
    const uint8_t *at, *end;
    bool damaged; /* reading stopped before the end */
} dop_pb;

typedef struct dop_pb_field {
    uint32_t number;
    dop_pb_wire wire;
    uint64_t value;      /* DOP_PB_VARINT, DOP_PB_64, DOP_PB_32: the bits */
    const uint8_t *data; /* DOP_PB_BYTES: bytes of the message itself */
    size_t len;
} dop_pb_field;

static inline dop_pb
dop_pb_of(const void *bytes, size_t n)
{
    return (dop_pb){(const uint8_t *)bytes, (const uint8_t *)bytes + n, false};
}

/* The next field; false at the end or where the message is damaged (groups, which nobody writes, count as damage). */
bool dop_pb_next(dop_pb *pb, dop_pb_field *out_field);
/* The value of a field that is a 32-bit float; false: the field has another wire type. */
bool dop_pb_float(const dop_pb_field *f, float *out);

#endif
