/* -i: lines from standard input, answers to standard output, until the input ends or the context is full.
 *
 * With a chat format every line is a message of the user and the whole conversation stays in the cache: only what a
 * message adds is fed.  A model without one just goes on with the text. */
#include "runtime/cli_chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct talk {
    dop_cli *cli;
    dop_generation gen;
    dop_chat *chat; /* NULL: plain text */
    json_t *messages;
    bool prompts; /* standard input is a terminal: show where to type */
} talk;

static dop_status
open_talk(talk *t, dop_diag *diag)
{
    dop_status st = dop_generation_open(t->cli, "-i", diag, &t->gen);
    if (st != DOP_OK)
        return st;
    size_t len = 0;
    const dop_plan *plan = t->gen.info.plan;
    bool has_template = plan->template_size > 0 || dop_tokenizer_chat_template(t->gen.tok, &len);
    t->gen.streams = true;
    t->prompts = isatty(STDIN_FILENO) && !t->cli->quiet;
    t->messages = json_array();
    if (!t->messages)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (!has_template && !t->cli->chat) {
        if (!t->cli->quiet)
            fprintf(stderr, "doppler-exec: the model has no chat template: it goes on with your text\n");
        return DOP_OK;
    }
    if ((st = dop_cli_chat(plan, t->gen.tok, diag, &t->chat)) != DOP_OK)
        return st;
    return dop_chat_add_stops(t->chat, &t->gen.stops, diag);
}

/* The ids that one line adds to the sequence. */
static dop_status
encode_line(talk *t, const char *line, size_t len, dop_diag *diag, dop_ids *out_ids)
{
    size_t n_tokens;
    dop_sequence_tokens(t->gen.sequence, &n_tokens);
    bool start = n_tokens == 0;
    if (!t->chat) {
        dop_status st = dop_tokenizer_encode(t->gen.tok, line, len, start ? DOP_ENCODE_ADD_SPECIAL : 0, diag, out_ids);
        return st == DOP_OK ? dop_tokenizer_encode(t->gen.tok, "\n", 1, 0, diag, out_ids) : st;
    }
    dop_buf text = {0};
    dop_status st = dop_chat_add_message(t->messages, "user", line, len, diag);
    dop_chat_input in = {.messages = t->messages, .add_generation_prompt = true, .tokenizer = t->gen.tok};
    if (st == DOP_OK)
        st = start ? dop_chat_render(t->chat, &in, diag, &text) : dop_chat_render_added(t->chat, &in, diag, &text);
    if (st == DOP_OK)
        st = dop_chat_encode(t->gen.tok, &text, start, diag, out_ids);
    dop_buf_finish(&text);
    return st;
}

static dop_status
answer(talk *t, const char *line, size_t len, dop_diag *diag)
{
    dop_ids ids = {0};
    size_t n_tokens;
    dop_status st = encode_line(t, line, len, diag, &ids);
    if (st != DOP_OK)
        goto error;
    dop_sequence_tokens(t->gen.sequence, &n_tokens);
    uint32_t ctx = t->gen.info.plan->model->ctx;
    if (n_tokens + ids.count >= ctx) {
        st = DOP_FAIL(diag, DOP_E_INPUT,
                      "the conversation has %zu tokens and the plan's context is %u: start again, or compile with a "
                      "larger --ctx",
                      n_tokens + ids.count, ctx);
        goto error;
    }
    uint32_t n = t->cli->n_predict, room = ctx - (uint32_t)(n_tokens + ids.count);
    if (n > room) /* also when it is not set */
        n = room;
    dop_sequence_expect(t->gen.sequence, n);
    if ((st = dop_sequence_feed(t->gen.sequence, ids.data, ids.count, diag)) != DOP_OK ||
        (st = dop_generate(&t->gen, n, diag)) != DOP_OK || (st = dop_cli_print("\n", 1, diag)) != DOP_OK)
        goto error;
    const dop_buf *text = &t->gen.output.text;
    if (t->chat)
        st = dop_chat_add_message(t->messages, "assistant", text->data ? text->data : "", text->size, diag);
error:
    dop_ids_finish(&ids);
    return st;
}

/* -p opens the conversation; then line after line. */
static dop_status
talk_on(talk *t, dop_diag *diag)
{
    char *line = NULL;
    size_t cap = 0;
    dop_status st = DOP_OK;
    if (t->cli->prompt)
        st = answer(t, t->cli->prompt, strlen(t->cli->prompt), diag);
    while (st == DOP_OK) {
        if (t->prompts)
            fputs("> ", stderr);
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0)
            break;
        if (n > 0 && line[n - 1] == '\n')
            n--;
        if (n > 0)
            st = answer(t, line, (size_t)n, diag);
    }
    free(line);
    return st;
}

dop_status
dop_mode_converse(dop_cli *cli, dop_diag *diag)
{
    talk t = {.cli = cli};
    if (cli->tokens || cli->tokens_file || cli->file || cli->json || cli->print_ids || cli->logits)
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "-i reads its text from standard input and goes with -p only, not with -f, --tokens, --logits, "
                        "--json or --print-ids");
    dop_status st = open_talk(&t, diag);
    if (st == DOP_OK)
        st = talk_on(&t, diag);
    dop_chat_destroy(t.chat);
    json_decref(t.messages);
    dop_generation_finish(&t.gen);
    return st;
}
