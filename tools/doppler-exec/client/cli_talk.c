/* Conversation over one sequence. With a chat format, every line is a user message. The whole conversation is
 * rendered and tokenized each time, because templates may change earlier messages. Only the tokens after the common
 * prefix with the sequence are fed. Without a format, the model continues the text. */
#include "tools/doppler-exec/client/cli_talk.h"

#include "base/json/json.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_talk_open(dop_cli *cli, dop_talk *talk, dop_diag *diag)
{
    dop_talk *t = talk;
    *t = (dop_talk){.cli = cli};
    dop_status st = dop_cli_generation_open(cli, "-i", diag, &t->gen);
    if (st != DOP_OK)
        return st;
    t->gen.streams = true;
    t->messages = json_array();
    if (!t->messages)
        return DOP_NO_MEMORY(diag);
    if ((st = dop_cli_chat_open(cli, t->gen.text, diag, &t->chat)) != DOP_OK)
        return st;
    if (!t->chat && cli->chat)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "the model has no chat template: leave out --chat, or give one with --chat-template NAME|FILE");
    if (!t->chat) {
        if (!cli->quiet)
            fprintf(stderr, "doppler-exec: the model has no chat template: it goes on with your text\n");
        return DOP_OK;
    }
    return dop_chat_add_stops(t->chat, &t->gen.stops, diag);
}

void
dop_talk_close(dop_talk *talk)
{
    dop_chat_destroy(talk->chat);
    json_decref(talk->messages);
    free(talk->turns);
    dop_cli_images_finish(&talk->images);
    dop_cli_generation_finish(&talk->gen);
}

static uint32_t
n_tokens(const dop_talk *t)
{
    size_t n;
    (void)dop_sequence_tokens(t->gen.sequence, &n);
    return (uint32_t)n;
}

static dop_status
push_turn(dop_talk *t, uint32_t at, dop_diag *diag)
{
    if (t->n_turns == t->cap_turns) {
        size_t cap = t->cap_turns ? 2 * t->cap_turns : 16;
        uint32_t *p = realloc(t->turns, cap * sizeof *p);
        if (!p)
            return DOP_NO_MEMORY(diag);
        t->turns = p;
        t->cap_turns = cap;
    }
    t->turns[t->n_turns++] = at;
    return DOP_OK;
}

/* Encodes the whole conversation, rewinds the sequence to the common prefix, and returns the ids after it. */
static dop_status
encode_chat(dop_talk *t, dop_diag *diag, dop_ids *out_ids)
{
    dop_ids all = {0};
    size_t same = 0;
    dop_status st = DOP_OK;
    DOP_TRY(dop_cli_chat_ids(t->chat, t->gen.text, t->cli->system, t->messages, &t->images, diag, &all));
    if (all.failed)
        DOP_TRY(DOP_NO_MEMORY(diag));
    DOP_TRY(dop_sequence_reuse(t->gen.sequence, all.data, all.count < t->gen.facts.ctx ? all.count : t->gen.facts.ctx,
                               diag, &same));
    for (size_t i = same; i < all.count; i++)
        dop_ids_push(out_ids, all.data[i]);
error:
    dop_ids_finish(&all);
    return st;
}

/* Encodes one line as ids to append to the sequence. */
static dop_status
encode_line(dop_talk *t, const char *line, size_t len, dop_diag *diag, dop_ids *out_ids)
{
    const bool start = n_tokens(t) == 0;
    const unsigned special = t->cli->no_special ? 0 : (unsigned)DOP_TEXT_PARSE_SPECIAL;
    out_ids->count = 0;
    if (t->chat)
        return encode_chat(t, diag, out_ids);
    DOP_RETURN_IF_ERROR(dop_cli_encode(
        t->gen.text, line, len, special | (start ? (unsigned)DOP_TEXT_ADD_SPECIAL | DOP_TEXT_ONCE : 0), diag, out_ids));
    return dop_cli_encode(t->gen.text, "\n", 1, 0, diag, out_ids);
}

/* Counts the tokens of the line if all earlier turns were dropped. */
static dop_status
count_line_alone(dop_talk *t, const dop_ids *line_ids, dop_diag *diag, size_t *out_n)
{
    *out_n = line_ids->count + dop_text_adds_bos(t->gen.text);
    if (!t->chat)
        return DOP_OK;
    dop_ids ids = {0};
    json_t *last = json_pack("[O]", json_array_get(t->messages, json_array_size(t->messages) - 1));
    dop_status st =
        last ? dop_cli_chat_ids(t->chat, t->gen.text, t->cli->system, last, NULL, diag, &ids) : DOP_NO_MEMORY(diag);
    *out_n = ids.count;
    json_decref(last);
    dop_ids_finish(&ids);
    return st;
}

/* Changes the seed, so that a retry picks different tokens. */
static void
change_seed(dop_talk *t)
{
    t->gen.sampling.seed += 0x9e3779b97f4a7c15u; /* golden ratio: avoids other small user seeds */
    dop_sequence_set_sampling(t->gen.sequence, &t->gen.sampling);
}

/* Drops the oldest turn. Without a chat format, the later text moves up; with one, the conversation is rendered and
 * fed again. */
static dop_status
drop_oldest(dop_talk *t, dop_diag *diag)
{
    uint32_t begin = t->turns[0], end = t->n_turns > 1 ? t->turns[1] : n_tokens(t);
    dop_status st = DOP_OK;
    const size_t n = dop_cli_images_of(json_array_get(t->messages, 0));
    dop_cli_images_drop(&t->images, 0, n);
    t->n_asked -= n;
    for (uint32_t i = 0; i < 2; i++) /* the line and its answer */
        json_array_remove(t->messages, 0);
    if (t->chat) {
        st = dop_sequence_rewind(t->gen.sequence, 0, diag);
    } else {
        bool bos = begin == 0 && dop_text_adds_bos(t->gen.text);
        st = dop_sequence_cut(t->gen.sequence, begin + bos, end - begin - bos, diag);
    }
    change_seed(t);
    t->n_turns--;
    memmove(t->turns, t->turns + 1, t->n_turns * sizeof *t->turns);
    for (size_t i = 0; i < t->n_turns; i++)
        t->turns[i] = t->chat || i == 0 ? 0 : t->turns[i] - (end - begin);
    return st;
}

/* Frees context as the user chooses, and encodes the line again. used: tokens including it. */
static dop_status
make_room(dop_talk *t, const char *line, size_t len, size_t used, uint32_t answer, dop_diag *diag, dop_ids *out_ids)
{
    const uint32_t ctx = t->gen.facts.ctx;
    const dop_talk_full what = t->drops ? DOP_TALK_DROP : t->full ? t->full(t->user, used, ctx) : DOP_TALK_LEAVE;
    size_t dropped = 0;
    dop_status st = DOP_OK;
    t->is_full = what == DOP_TALK_LEAVE;
    if (t->is_full)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "the context of %u tokens is full (%zu with this line): /drop forgets the oldest turn, "
                        "/drop auto as many as needed from now on, /new all",
                        ctx, used);
    while (st == DOP_OK && t->n_turns > 0 && (what == DOP_TALK_NEW || n_tokens(t) + out_ids->count + answer > ctx)) {
        st = drop_oldest(t, diag);
        dropped++;
        if (st == DOP_OK && (what == DOP_TALK_DROP || t->n_turns == 0))
            st = encode_line(t, line, len, diag, out_ids);
    }
    if (st == DOP_OK && dropped == 1)
        fprintf(stderr, "doppler-exec: the context of %u tokens is full: the oldest turn is forgotten\n", ctx);
    else if (st == DOP_OK)
        fprintf(stderr, "doppler-exec: the context of %u tokens is full: the oldest %zu turns are forgotten\n", ctx,
                dropped);
    return st;
}

/* Encodes a line and ensures that it fits the context with an answer of some length. */
static dop_status
fit_line_to_context(dop_talk *t, const char *line, size_t len, bool again, dop_diag *diag, dop_ids *out_ids)
{
    const uint32_t ctx = t->gen.facts.ctx, wanted = t->cli->n_predict;
    /* least: free tokens below which the user is asked. room: free tokens to make then, so that not every line asks. */
    uint32_t least = again ? 1 : wanted < ctx / 8 ? wanted : ctx / 8, room = wanted < ctx / 4 ? wanted : ctx / 4;
    size_t lone = 0;
    least = least ? least : 1;
    room = room ? room : 1;
    DOP_RETURN_IF_ERROR(encode_line(t, line, len, diag, out_ids));
    if (n_tokens(t) + out_ids->count + least > ctx)
        DOP_RETURN_IF_ERROR(count_line_alone(t, out_ids, diag, &lone));
    if (lone >= ctx)
        /* nothing is dropped if the line cannot fit at all */
        return DOP_FAIL(
            diag, DOP_E_INPUT,
            "the line has %zu tokens and the plan's context is %u: say it in fewer words, or compile with a "
            "larger --ctx",
            lone, ctx);
    if (n_tokens(t) + out_ids->count + least > ctx && t->n_turns > 0)
        DOP_RETURN_IF_ERROR(make_room(t, line, len, n_tokens(t) + out_ids->count, room, diag, out_ids));
    if (n_tokens(t) + out_ids->count >= ctx)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "the conversation has %zu tokens and the plan's context is %u: start again, or compile with a "
                        "larger --ctx",
                        n_tokens(t) + out_ids->count, ctx);
    return DOP_OK;
}

/* Stops reading a prompt after Ctrl-C (dop_progress_fn). */
static bool
not_interrupted(void *user, const char *step, uint64_t done, uint64_t all)
{
    const volatile sig_atomic_t *interrupted = ((const dop_talk *)user)->gen.interrupted;
    (void)step;
    return done == all || !interrupted || !*interrupted;
}

/* Feeds the encoded ids and generates the answer. */
static dop_status
write_answer(dop_talk *t, const dop_ids *ids, dop_diag *diag)
{
    const uint32_t before = n_tokens(t), room = t->gen.facts.ctx - before - (uint32_t)ids->count;
    const uint32_t n = t->cli->n_predict < room ? t->cli->n_predict : room; /* the default exceeds any context */
    const dop_progress progress = {not_interrupted, t};
    dop_status st = dop_cli_generation_begin(&t->gen, ids->count, n, diag);
    if (st != DOP_OK)
        return st;
    dop_sequence_set_progress(t->gen.sequence, &progress);
    st = dop_generation_read(t->gen.writer, ids->data, ids->count, diag);
    dop_sequence_set_progress(t->gen.sequence, NULL);
    if (st == DOP_E_CANCELLED) {
        (void)dop_sequence_rewind(t->gen.sequence, before, NULL);
        t->refused = true;
        *diag = (dop_diag){0}; /* replaces the library's message */
        return DOP_FAIL(diag, DOP_E_CANCELLED, "interrupted before the answer: the line is left out");
    }
    if (st != DOP_OK || (st = dop_cli_generate(&t->gen, n, diag)) != DOP_OK ||
        (st = dop_cli_print("\n", 1, diag)) != DOP_OK || (st = dop_sequence_end_turn(t->gen.sequence, diag)) != DOP_OK)
        return st;
    if (n == room && strcmp(t->gen.stop_reason, "length") == 0)
        fprintf(stderr,
                "doppler-exec: the context of %u tokens is full, so the answer ends here: /drop forgets the oldest "
                "turn, /new all\n",
                t->gen.facts.ctx);
    size_t n_text;
    const char *text = dop_generation_text(t->gen.writer, &n_text);
    return dop_chat_add_message(t->messages, "assistant", text, n_text, diag);
}

/* Answers the last message, which is the line. */
static dop_status
answer_line(dop_talk *t, const char *line, size_t len, bool again, dop_diag *diag)
{
    dop_ids ids = {0};
    dop_status st = fit_line_to_context(t, line, len, again, diag, &ids);
    t->refused = st == DOP_E_INPUT;
    if (st == DOP_OK && (st = push_turn(t, t->chat ? 0 : n_tokens(t), diag)) == DOP_OK) {
        st = write_answer(t, &ids, diag);
        if (t->refused)
            t->n_turns--;
    }
    dop_ids_finish(&ids);
    return st;
}

dop_status
dop_talk_answer(dop_talk *talk, const char *line, size_t len, dop_diag *diag)
{
    dop_talk *t = talk;
    const size_t n_images = t->images.n - t->n_asked;
    t->refused = t->is_full = false;
    dop_status st = t->chat       ? dop_cli_images_message(&t->images, n_images, t->messages, line, len, diag)
                    : t->images.n ? DOP_FAIL(diag, DOP_E_INPUT, "pictures in a conversation need a chat template")
                                  : dop_chat_add_message(t->messages, "user", line, len, diag);
    const bool added = st == DOP_OK;
    t->refused = st == DOP_E_INPUT;
    t->n_asked = t->images.n;
    if (added)
        st = answer_line(t, line, len, false, diag);
    if (t->refused && added)
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
    if (t->refused) {
        t->n_asked = t->images.n - n_images;
        dop_cli_images_drop(&t->images, t->n_asked, SIZE_MAX);
    }
    return st;
}

/* Returns the message of the last line and its index in *out_at, or NULL. */
static const json_t *
find_last_line(const dop_talk *t, size_t *out_at)
{
    const size_t n = json_array_size(t->messages);
    *out_at = n >= 2 ? n - 2 : 0;
    return n >= 2 && t->n_turns > 0 ? json_array_get(t->messages, n - 2) : NULL;
}

/* Removes a user message and its images from the conversation. */
static void
forget_line(dop_talk *t, size_t at)
{
    const size_t n = dop_cli_images_of(json_array_get(t->messages, at));
    t->n_asked -= n;
    dop_cli_images_drop(&t->images, t->n_asked, n);
    json_array_remove(t->messages, at);
}

/* Removes the last turn from the sequence. */
static dop_status
remove_last_turn(dop_talk *t, dop_diag *diag)
{
    change_seed(t);
    t->n_turns--;
    /* Chat tokens stay in the sequence: the next line is rendered and feeds only the tokens that differ. */
    return t->chat && t->n_turns > 0 ? DOP_OK : dop_sequence_rewind(t->gen.sequence, t->turns[t->n_turns], diag);
}

dop_status
dop_talk_retry(dop_talk *talk, dop_diag *diag)
{
    dop_talk *t = talk;
    size_t at;
    const json_t *content = json_object_get(find_last_line(t, &at), "content");
    t->refused = t->is_full = false;
    if (!content)
        return DOP_FAIL(diag, DOP_E_USAGE, "there is no line to answer again");
    char *line = strndup(json_string_value(content), json_string_length(content));
    dop_status st = DOP_OK;
    DOP_TRY(line ? remove_last_turn(t, diag) : DOP_NO_MEMORY(diag));
    json_array_remove(t->messages, at + 1);
    DOP_TRY(answer_line(t, line, json_string_length(content), true, diag));
error:
    if (t->refused)
        /* interrupted: the line is dropped */
        forget_line(t, at);
    free(line);
    return st;
}

dop_status
dop_talk_undo(dop_talk *talk, dop_diag *diag, char **out_line)
{
    dop_talk *t = talk;
    size_t at;
    const json_t *message = find_last_line(t, &at);
    *out_line = NULL;
    if (t->n_turns == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "there is nothing to undo");
    if (message) {
        const json_t *said = json_object_get(message, "said"); /* the text without image marks */
        const char *line = json_string_value(said ? said : json_object_get(message, "content"));
        *out_line = line ? strdup(line) : NULL;
        json_array_remove(t->messages, at + 1);
        forget_line(t, at);
    }
    return remove_last_turn(t, diag);
}

dop_status
dop_talk_drop(dop_talk *talk, size_t n, dop_diag *diag, size_t *out_dropped)
{
    dop_status st = DOP_OK;
    *out_dropped = 0;
    while (st == DOP_OK && *out_dropped < n && talk->n_turns > 0) {
        st = drop_oldest(talk, diag);
        ++*out_dropped;
    }
    return st;
}

dop_status
dop_talk_reset(dop_talk *talk, dop_diag *diag)
{
    json_array_clear(talk->messages);
    dop_cli_images_drop(&talk->images, 0, SIZE_MAX);
    talk->n_asked = 0;
    talk->n_turns = 0;
    change_seed(talk);
    return dop_sequence_rewind(talk->gen.sequence, 0, diag);
}

dop_status
dop_talk_save(dop_talk *talk, const char *path, dop_diag *diag)
{
    json_t *turns = json_array(), *note = json_object();
    for (size_t i = 0; i < talk->n_turns; i++)
        json_array_append_new(turns, json_integer(talk->turns[i]));
    json_object_set_new(note, "turns", turns);
    json_object_set(note, "messages", talk->messages);
    char *text = note ? json_dumps(note, JSON_COMPACT) : NULL;
    json_decref(note);
    if (!text)
        return DOP_NO_MEMORY(diag);
    dop_status st = dop_sequence_save(talk->gen.sequence, path, text, strlen(text), diag);
    free(text);
    return st;
}

/* Restores turns and messages from a session's note, if they are consistent with the sequence. */
static dop_status
restore_session_note(dop_talk *t, const json_t *note, const char *path, dop_diag *diag)
{
    const json_t *turns = json_object_get(note, "turns"), *messages = json_object_get(note, "messages");
    size_t i, n = json_array_size(turns);
    json_t *x;
    uint32_t last = 0;
    dop_status st = DOP_OK;
    if (!json_is_array(turns) || !json_is_array(messages) || json_array_size(messages) != 2 * n)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved sequence is no conversation");
    t->n_turns = 0;
    json_array_foreach(turns, i, x)
    {
        json_int_t at = json_integer_value(x);
        if (!json_is_integer(x) || at < last || at > n_tokens(t))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the saved conversation is damaged");
        last = (uint32_t)at;
        if ((st = push_turn(t, last, diag)) != DOP_OK)
            return st;
    }
    json_array_clear(t->messages);
    return json_array_extend(t->messages, (json_t *)(uintptr_t)messages) == 0 ? DOP_OK : DOP_NO_MEMORY(diag);
}

dop_status
dop_talk_load(dop_talk *talk, const char *path, dop_diag *diag)
{
    char *text = NULL;
    size_t n = 0;
    dop_status st = dop_sequence_load(talk->gen.sequence, path, diag, &text, &n);
    if (st != DOP_OK)
        return st;
    json_t *note;
    dop_json_decode(text, n, NULL, NULL, &note);
    st = restore_session_note(talk, note, path, diag);
    json_decref(note);
    dop_free(text);
    if (st != DOP_OK)
        (void)dop_talk_reset(talk, NULL); /* messages and sequence are inconsistent */
    return st;
}
