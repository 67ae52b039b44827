/* Serialization of image processors in plans. */
#include "media/picture/image_processor.h"

#include <string.h>

enum {
    SIZE_BOOL = 4,
    SIZE_FORM = 4,
    SIZE_U32 = 4,
    SIZE_U64 = 8,
    SIZE_F64 = 8,
    SIZE_F32 = 12,
    SIZE_TEXT = DOP_MARK_SIZE
};

static const size_t n_bytes = 0
#define FIELD(type, name) +SIZE_##type
#include "media/picture/image_processor.def"
    ;

/* Reads or writes fields, so that one list of fields serves both. */
typedef struct cursor {
    dop_buf *out;      /* NULL: reading */
    const uint8_t *in; /* next byte to read */
    bool bad;          /* an invalid switch or enumeration value, or an unterminated text */
} cursor;

static void
move_bytes(cursor *c, void *field, size_t size)
{
    if (c->out) {
        dop_buf_append(c->out, field, size);
        return;
    }
    memcpy(field, c->in, size);
    c->in += size;
}

/* Moves a field with a restricted range as a 32-bit number. */
static uint32_t
move_small_number(cursor *c, uint32_t value, uint32_t most)
{
    move_bytes(c, &value, sizeof value);
    c->bad = c->bad || value > most;
    return value > most ? 0 : value;
}

static void
move_mark_text(cursor *c, char *field)
{
    move_bytes(c, field, DOP_MARK_SIZE);
    c->bad = c->bad || !memchr(field, 0, DOP_MARK_SIZE);
    field[DOP_MARK_SIZE - 1] = 0;
}

static void
move_processor(cursor *c, dop_image_processor *p)
{
    static const uint32_t most_form = DOP_IMAGE_BUDGET, most_filter = DOP_FILTER_BICUBIC, most_point = DOP_FIXED_PILLOW,
                          most_marks = DOP_MARKS_GRID;
#define MOVE_BOOL(name) p->name = move_small_number(c, p->name, 1) != 0
#define MOVE_FORM(name) p->name = move_small_number(c, (uint32_t)p->name, most_##name)
#define MOVE_U32(name) move_bytes(c, &p->name, SIZE_U32)
#define MOVE_U64(name) move_bytes(c, &p->name, SIZE_U64)
#define MOVE_F64(name) move_bytes(c, &p->name, SIZE_F64)
#define MOVE_F32(name) move_bytes(c, p->name, SIZE_F32)
#define MOVE_TEXT(name) move_mark_text(c, p->name)
#define FIELD(type, name) MOVE_##type(name);
#include "media/picture/image_processor.def"
}

void
dop_image_processor_write(const dop_image_processor *p, dop_buf *out)
{
    dop_image_processor copy = *p;
    move_processor(&(cursor){.out = out}, &copy);
}

dop_status
dop_image_processor_read(const void *bytes, size_t size, dop_diag *diag, dop_image_processor *out)
{
    cursor c = {.in = bytes};
    *out = (dop_image_processor){0};
    if (size != n_bytes)
        return DOP_FAIL(diag, DOP_E_INPUT, "an image processor has %zu bytes, expected %zu", size, n_bytes);
    move_processor(&c, out);
    if (c.bad)
        return DOP_FAIL(diag, DOP_E_INPUT, "a field of the image processor has no such value");
    return dop_image_processor_check(out, diag);
}
