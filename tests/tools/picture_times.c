/* Where the time to the first token of a picture goes, for tests/bench/picture.sh.
 *
 *   picture_times [--profile] PLAN FILE...
 *
 * One line for each file, in milliseconds: reading it (decoding, and preparing what the tower is given), looking at it (the vision
 * part), tokens, the prompt to the first token; then pages that the host touched first in the meantime.  --profile: the last file is
 * looked at again, with every dispatch timed. */
#include "base/os/clock.h"
#include "runtime/library/images.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_table.h"

#include <doppler/images.h>
#include <doppler/text.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { READ, SEE, TOKENS, FIRST, N_PARTS };

typedef struct looker {
    dop_model *model;
    dop_sequence *sequence;
    dop_text *text;
    dop_images *images;
    dop_diag diag;
} looker;

static void
must(looker *x, dop_status st)
{
    if (st == DOP_OK)
        return;
    fprintf(stderr, "%s\n", x->diag.message);
    exit(1);
}

static void
look(looker *x, const dop_map *file, double ms[N_PARTS], size_t *out_tokens)
{
    dop_image *image = NULL;
    char *marked = NULL, *expanded = NULL;
    size_t n_marked, n_expanded, n_ids;
    uint32_t *ids = NULL, id;
    must(x, dop_images_open(x->model, NULL, &x->diag, &x->images)); /* anew: nothing is known of the file */
    const double begin = dop_now_ms();
    must(x, dop_image_read(x->images, file->data, file->size, true, &x->diag, &image));
    const double read = dop_now_ms();
    must(x, dop_image_see(image, &x->diag));
    const double seen = dop_now_ms();
    must(x, dop_images_mark(x->images, "ab", 2, 1, &x->diag, &marked, &n_marked));
    must(x, dop_images_expand(x->images, marked, n_marked, &image, 1, &x->diag, &expanded, &n_expanded));
    must(x, dop_text_encode(x->text, expanded, n_expanded, DOP_TEXT_PARSE_SPECIAL, &x->diag, &ids, &n_ids));
    must(x, dop_images_place(x->images, ids, n_ids, &image, 1, &x->diag));
    const double placed = dop_now_ms();
    must(x, dop_sequence_rewind(x->sequence, 0, &x->diag));
    dop_sequence_expect(x->sequence, 1);
    must(x, dop_sequence_feed(x->sequence, ids, n_ids, &x->diag));
    must(x, dop_sequence_next(x->sequence, &x->diag, &id));
    const double end = dop_now_ms();
    ms[READ] = read - begin;
    ms[SEE] = seen - read;
    ms[TOKENS] = placed - seen;
    ms[FIRST] = end - placed;
    *out_tokens = n_ids;
    dop_image_close(image);
    dop_images_close(x->images);
    dop_free(marked);
    dop_free(expanded);
    dop_free(ids);
}

/* Milliseconds of decoding alone, and of what follows. */
static void
read_apart(looker *x, const dop_map *file)
{
    dop_picture picture = {0};
    dop_image_layout layout;
    float *values = NULL;
    must(x, dop_images_open(x->model, NULL, &x->diag, &x->images));
    const dop_image_processor *p = dop_images_processor(x->images);
    const double begin = dop_now_ms();
    must(x, dop_picture_decode(file->data, file->size, 0, NULL, &x->diag, &picture));
    const double decoded = dop_now_ms();
    must(x, dop_image_lay_out(p, picture.width, picture.height, &x->diag, &layout));
    must(x, dop_image_values(p, &layout, &picture, DOP_PIXELS_ROWS, NULL, &x->diag, &values));
    printf("decoding %.2f, preparing %.2f ms: %u x %u pixels, %u rows of %u values\n", decoded - begin,
           dop_now_ms() - decoded, picture.width, picture.height, layout.rows, layout.row_values);
    free(values);
    dop_picture_finish(&picture);
    dop_images_close(x->images);
}

int
main(int argc, char **argv)
{
    const bool profiled = argc > 1 && strcmp(argv[1], "--profile") == 0;
    looker x = {0};
    dop_map file = {0};
    const int first = 1 + profiled;
    if (argc < first + 2) {
        fprintf(stderr, "usage: picture_times [--profile] PLAN FILE...\n");
        return 2;
    }
    must(&x, dop_model_open(argv[first], NULL, &x.diag, &x.model));
    must(&x, dop_sequence_create(x.model, &x.diag, &x.sequence));
    must(&x, dop_text_of_model(x.model, &x.diag, &x.text));
    for (int i = first + 1; i < argc + profiled; i++) {
        dop_profile profile = {0};
        dop_buf table = {0};
        double ms[N_PARTS];
        size_t tokens;
        struct rusage before, after;
        const bool watch = i == argc;
        must(&x, dop_map_open(argv[watch ? i - 1 : i], &x.diag, &file));
        if (watch)
            read_apart(&x, &file);
        if (watch)
            must(&x, dop_profile_attach(x.model, &x.diag, &profile));
        if (watch) { /* which records command buffers */
            look(&x, &file, ms, &tokens);
            must(&x, dop_profile_start(&profile, &x.diag));
        }
        getrusage(RUSAGE_SELF, &before);
        look(&x, &file, ms, &tokens);
        getrusage(RUSAGE_SELF, &after);
        if (watch)
            must(&x, dop_profile_stop(&profile, &x.diag));
        printf("read %.2f, see %.2f, tokens %.2f, first token %.2f, together %.2f ms: %zu tokens; %ld pages\n",
               ms[READ], ms[SEE], ms[TOKENS], ms[FIRST], ms[READ] + ms[SEE] + ms[TOKENS] + ms[FIRST], tokens,
               after.ru_minflt - before.ru_minflt);
        if (watch)
            dop_profile_table(&profile, &table);
        fwrite(table.data, 1, table.size, stdout);
        dop_buf_finish(&table);
        dop_profile_finish(&profile);
        dop_map_close(&file);
    }
    dop_text_destroy(x.text);
    dop_sequence_destroy(x.sequence);
    dop_model_close(x.model);
    return 0;
}
