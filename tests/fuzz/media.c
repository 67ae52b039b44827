/* Pictures, and what prepares them; sound. */
#include "frontend/hf/image.h"
#include "media/audio.h"
#include "media/picture/picture.h"
#include "serve/api/api_json.h"
#include "serve/protocols/form_data.h"
#include "serve/protocols/protocol.h"
#include "tests/fuzz/fuzz.h"

/* Whatever it is, it is decoded within its bounds or refused. */
void
fuzz_picture(const uint8_t *data, size_t size)
{
    enum { PIXELS = 1 << 16, BYTES = 1 << 22 };
    dop_budget budget = {.steps = 1 << 24, .bytes = BYTES};
    dop_diag diag = {0};
    dop_picture p;
    const dop_status st = dop_picture_decode(data, size, PIXELS, &budget, &diag, &p);
    fuzz_check(st, &diag);
    require((st == DOP_OK) == (p.rgb != NULL) && (uint64_t)p.width * p.height <= PIXELS);
    require(budget.end != DOP_BUDGET_LEFT || budget.bytes == BYTES - (uint64_t)p.width * p.height * 3);
    dop_picture_finish(&p);
}

/* The body of a request. */
void
fuzz_form(const uint8_t *data, size_t size)
{
    enum { PIXELS = 1 << 14 };
    dop_budget budget = {.steps = 1 << 20, .bytes = 1 << 20};
    const dop_api_request request = {.body = size ? (const char *)data : NULL, .n_body = size, .budget = &budget};
    dop_answer answer = {0};
    dop_form_data form;
    const bool good = dop_request_form(&request, &answer, &form);
    require(good == (form.fields != NULL) && (good || answer.status == 400));
    for (size_t i = 0; i < DOP_FORM_NAMES && good; i++) {
        const char *bytes = form.files[i].bytes;
        require((form.files[i].count > 0) == (bytes != NULL));
        require(!bytes || (bytes >= request.body && bytes + form.files[i].n <= request.body + size));
    }
    if (good && form.files[DOP_FORM_IMAGE].count) {
        dop_picture p;
        dop_diag diag = {0};
        const char *bytes = form.files[DOP_FORM_IMAGE].bytes;
        fuzz_check(dop_picture_decode(bytes, form.files[DOP_FORM_IMAGE].n, PIXELS, &budget, &diag, &p), &diag);
        dop_picture_finish(&p);
    }
    json_decref(form.fields);
    dop_answer_finish(&answer);
}

/* The picture of these bytes, of any size. */
static void
prepare(const dop_image_processor *p, uint32_t width, uint32_t height, uint8_t *rgb)
{
    const dop_picture picture = {width, height, rgb};
    dop_image_layout x;
    dop_image_mark *marks = NULL;
    dop_diag diag = {0};
    uint32_t n = 0, features = 0;
    float *values = NULL;
    dop_status st = dop_image_lay_out(p, width, height, &diag, &x);
    fuzz_check(st, &diag);
    if (st != DOP_OK)
        return;
    for (int order = DOP_PIXELS_ROWS; order <= DOP_PIXELS_PUBLISHED; order++) {
        dop_budget budget = {.steps = 1 << 14, .bytes = 1 << 20}; /* more takes time, and no other branches */
        dop_diag why = {0};
        fuzz_check(dop_image_values(p, &x, &picture, (dop_pixel_order)order, &budget, &why, &values), &why);
        free(values);
    }
    if (x.n_tiles > 64)
        return;
    st = dop_image_marks(p, &x, &diag, &marks, &n);
    fuzz_check(st, &diag);
    for (uint32_t i = 0; i < n; i++)
        features += marks[i].features ? marks[i].n : 0;
    require(features == x.features || !p->image[0] || p->marks == DOP_MARKS_LINES);
    free(marks);
}

/* preprocessor_config.json, a zero, config.json. */
void
fuzz_image_processor(const uint8_t *data, size_t size)
{
    static const uint32_t sizes[][2] = {{1, 1}, {9, 200}, {31, 7}};
    const uint8_t *end = memchr(data, 0, size);
    const size_t first = end ? (size_t)(end - data) : size;
    const char *dir = NULL;
    dop_diag diag = {0}, other = {0};
    json_t *root = NULL;
    dop_json config = {.diag = &diag};
    dop_image_processor p;
    bool present;
    if (end && dop_json_decode(end + 1, size - first - 1, NULL, &other, &root) == DOP_OK)
        (void)dop_json_root(root, "config.json", &other, &config);
    config.diag = &diag;
    fuzz_file_in("preprocessor_config.json", data, first, 0, &dir);
    const dop_status st = dop_hf_image_processor(dir, &config, &diag, &present, &p);
    fuzz_check(st, &diag);
    json_decref(root);
    if (st != DOP_OK)
        return;
    require(present);
    uint8_t *rgb = malloc(64 * 64 * 3);
    require(rgb != NULL);
    for (size_t i = 0; i < 64 * 64 * 3; i++)
        rgb[i] = (uint8_t)(i * 37);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        prepare(&p, sizes[i][0], sizes[i][1], rgb);
    free(rgb);
}

/* Where the module that reads audio is not built, there is nothing to read. */
void
fuzz_audio(const uint8_t *data, size_t size)
{
#ifdef DOP_HAS_AUDIO
    enum { SECONDS = 2, BINS = 16 };
    dop_budget budget = {.steps = 1 << 18, .bytes = 1 << 23};
    dop_diag diag = {0};
    float *samples = NULL;
    size_t n = 0;
    const dop_status st = dop_audio_decode(data, size, SECONDS, &budget, &diag, &samples, &n);
    fuzz_check(st, &diag);
    require((st == DOP_OK) == (samples != NULL) && n <= SECONDS * DOP_AUDIO_RATE);
    const size_t whole = n / DOP_AUDIO_HOP * DOP_AUDIO_HOP;
    if (whole >= DOP_AUDIO_WINDOW) {
        float *mel = malloc(whole / DOP_AUDIO_HOP * BINS * sizeof *mel);
        require(mel != NULL);
        fuzz_check(dop_audio_mel(samples, whole, BINS, &diag, mel), &diag);
        for (size_t i = 0; i < whole / DOP_AUDIO_HOP * BINS; i++)
            require(mel[i] == mel[i]);
        free(mel);
    }
    free(samples);
#else
    (void)data, (void)size;
#endif
}
