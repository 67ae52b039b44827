/* Image processors by class name, and the texts that mark a picture in a model's input. */
#include "frontend/vision/tower.h"

#include <stdio.h>
#include <string.h>

static const float mean_CLIP[3] = {0.48145466F, 0.4578275F, 0.40821073F};
static const float std_CLIP[3] = {0.26862954F, 0.26130258F, 0.27577711F};
static const float mean_HALF[3] = {0.5F, 0.5F, 0.5F};
static const float mean_NONE[3] = {0, 0, 0};
static const float std_NONE[3] = {1, 1, 1};
static const float std_HALF[3] = {0.5F, 0.5F, 0.5F};

typedef struct processor_row {
    const char *name;
    const float *mean, *std;
    dop_image_processor defaults;
} processor_row;

typedef struct marks_row {
    const char *model_type;
    dop_mark_form form;
    const char *placeholder, *image, *begin, *end, *row_end, *whole, *before, *after;
} marks_row;

#define IMAGE_PROCESSOR(name, form_, filter_, colors, ...) \
    {name, mean_##colors, std_##colors, {.form = DOP_IMAGE_##form_, .filter = DOP_FILTER_##filter_, __VA_ARGS__}},
#define IMAGE_MARKS(...)
static const processor_row processors[] = {
#include "frontend/vision/image_processors.def"
};
#undef IMAGE_MARKS

#define IMAGE_PROCESSOR(...)
#define IMAGE_MARKS(type, form, ...) {type, DOP_MARKS_##form, __VA_ARGS__},
static const marks_row marks[] = {
#include "frontend/vision/image_processors.def"
};
#undef IMAGE_PROCESSOR

bool
dop_image_processor_of(const char *name, dop_image_processor *out)
{
    dop_fixed_point point = DOP_FIXED_TORCHVISION;
    size_t n = strlen(name);
    if (n > 4 && strcmp(name + n - 4, "Fast") == 0) {
        n -= 4;
    } else if (n > 3 && strcmp(name + n - 3, "Pil") == 0) {
        n -= 3;
        point = DOP_FIXED_PILLOW;
    }
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++) {
        const processor_row *row = &processors[i];
        if (strlen(row->name) != n || strncmp(row->name, name, n) != 0)
            continue;
        *out = row->defaults;
        memcpy(out->mean, row->mean, sizeof out->mean);
        memcpy(out->std, row->std, sizeof out->std);
        out->point = point;
        out->merge = out->merge ? out->merge : 1;
        out->frames = out->frames ? out->frames : 1;
        out->resize = out->rescale = out->normalize = true;
        out->factor = 1.0 / 255;
        return true;
    }
    return false;
}

void
dop_image_marks_of(const char *model_type, dop_image_processor *p)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const marks_row *row = &marks[i];
        if (strcmp(row->model_type, model_type) != 0)
            continue;
        p->marks = row->form;
        snprintf(p->placeholder, sizeof p->placeholder, "%s", row->placeholder);
        snprintf(p->image, sizeof p->image, "%s", row->image);
        snprintf(p->begin, sizeof p->begin, "%s", row->begin);
        snprintf(p->end, sizeof p->end, "%s", row->end);
        snprintf(p->row_end, sizeof p->row_end, "%s", row->row_end);
        snprintf(p->whole, sizeof p->whole, "%s", row->whole);
        snprintf(p->before, sizeof p->before, "%s", row->before);
        snprintf(p->after, sizeof p->after, "%s", row->after);
    }
}

dop_status
dop_image_processor_keep(dop_checkpoint *m, const dop_image_processor *p, dop_diag *diag)
{
    dop_buf bytes = {0};
    dop_image_processor_write(p, &bytes);
    uint8_t *own = bytes.failed ? NULL : dop_arena_alloc(m->arena, bytes.size);
    if (own)
        memcpy(own, bytes.data, bytes.size);
    m->images = own;
    m->n_images = own ? bytes.size : 0;
    m->tiles = p->split;
    dop_buf_finish(&bytes);
    return own ? DOP_OK : DOP_NO_MEMORY(diag);
}
