/* What the chat template interpreter makes of conversations, for tests/templates/compare.py.
 *
 *   render CONVERSATIONS.json TEMPLATE...
 *
 * One line of JSON for each template and conversation: {"text"}, or {"error"} where it is refused.  bos_token is "<s>",
 * eos_token is "</s>", and the day is the 26th of July 2024, so that a second renderer can be given the same. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat/chat.h"

static const struct tm day = {
    .tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5, .tm_yday = 207, .tm_hour = 13, .tm_min = 5, .tm_sec = 9};

static void
print_line(json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (!text)
        exit(2);
    puts(text);
    free(text);
    json_decref(line);
}

static json_t *
render_one(const dop_chat *chat, const json_t *c)
{
    dop_buf out = {0};
    dop_diag diag = {0};
    const dop_chat_input in = {
        .messages = json_object_get(c, "messages"),
        .tools = json_object_get(c, "tools"),
        .add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt")),
        .bos_token = "<s>",
        .eos_token = "</s>",
        .now = &day,
        .extra = json_object_get(c, "extra"),
    };
    dop_status st = dop_chat_render(chat, &in, &diag, &out);
    json_t *line = st == DOP_OK ? json_pack("{s:s#}", "text", out.data ? out.data : "", (int)out.size)
                                : json_pack("{s:s}", "error", diag.message);
    dop_buf_finish(&out);
    return line;
}

/* A file's bytes, NULL: it cannot be read. */
static char *
read_file(const char *path, size_t *out_size)
{
    FILE *f = fopen(path, "rb");
    char *bytes = NULL;
    long size;
    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
        (bytes = malloc((size_t)size + 1)))
        *out_size = fread(bytes, 1, (size_t)size, f);
    fclose(f);
    return bytes;
}

int
main(int argc, char **argv)
{
    json_error_t error;
    json_t *list = argc > 2 ? json_load_file(argv[1], 0, &error) : NULL;
    if (!list) {
        fprintf(stderr, "usage: render CONVERSATIONS.json TEMPLATE...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        size_t n = 0, k;
        json_t *c;
        dop_diag diag = {0};
        dop_chat *chat = NULL;
        char *text = read_file(argv[i], &n);
        if (!text)
            return 2;
        dop_status st = dop_chat_create(text, n, &diag, &chat);
        json_array_foreach(list, k, c)
            print_line(st == DOP_OK ? render_one(chat, c) : json_pack("{s:s}", "error", diag.message));
        dop_chat_destroy(chat);
        free(text);
    }
    json_decref(list);
    return 0;
}
