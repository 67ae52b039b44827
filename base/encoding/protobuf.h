/* In-place reader of the Protocol Buffers wire format. */
#ifndef DOPPLER_BASE_ENCODING_PROTOBUF_H
#define DOPPLER_BASE_ENCODING_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dop_pb_wire { DOP_PB_VARINT = 0, DOP_PB_64 = 1, DOP_PB_BYTES = 2, DOP_PB_32 = 5 } dop_pb_wire;

/* Reader of one message: the bytes not read yet. */
typedef struct dop_pb {
    const uint8_t *at, *end;
    bool damaged; /* true if reading stopped at damaged data */
} dop_pb;

typedef struct dop_pb_field {
    uint32_t number;
    dop_pb_wire wire;
    uint64_t value;      /* DOP_PB_VARINT, DOP_PB_64, DOP_PB_32: bits of the value */
    const uint8_t *data; /* DOP_PB_BYTES: len bytes inside the message */
    size_t len;
} dop_pb_field;

static inline dop_pb
dop_pb_of(const void *bytes, size_t n)
{
    return (dop_pb){(const uint8_t *)bytes, (const uint8_t *)bytes + n, false};
}

/* Reads the next field.  False at the end, or if the message is damaged.  Groups (deprecated) count as damage. */
bool dop_pb_next(dop_pb *pb, dop_pb_field *out_field);
/* Reads a field that is a 32-bit float.  False if it has another wire type. */
bool dop_pb_float(const dop_pb_field *f, float *out);

#endif
