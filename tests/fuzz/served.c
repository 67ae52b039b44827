/* What needs an open model: saved sequences, and requests to the server.  The model runs on a driver that computes nothing
 * (tests/driver/fake_driver.c). */
#include "runtime/model/model.h"
#include "runtime/step/stored.h"
#include "runtime/step/transfer.h"
#include "serve/api/api.h"
#include "serve/api/api_answer.h"
#include "serve/api/api_constraints.h"
#include "serve/api/api_json.h"
#include "serve/http/http_parse.h"
#include "serve/routes.h"
#include "tests/fuzz/fuzz.h"
#include "text/calls/api_form.h"
#include "text/grammar/grammar.h"

#include <jansson.h>

static dop_model *
model(void)
{
    static dop_model *m;
    const dop_open_options options = {.threads = 1};
    dop_diag diag = {0};
    if (!m && dop_model_open(fuzz_beside("fuzz.plan"), &options, &diag, &m) != DOP_OK) {
        fprintf(stderr, "fuzz: %s\n", diag.message);
        abort();
    }
    return m;
}

/* ---- plans ---------------------------------------------------------------------------------------------------------- */

static dop_status
take_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    float *sum = user;
    (void)first, (void)diag;
    for (size_t i = 0; i < n_rows; i++)
        *sum += rows[i];
    return DOP_OK;
}

/* What is not refused is fed, picked from and scored; each may fail with a message. */
static void
use_model(dop_model *m)
{
    static const uint32_t ids[] = {0, 1, 2, 0, 1};
    dop_sequence *s = NULL, *fork = NULL;
    dop_facts facts;
    float sum = 0;
    uint32_t id;
    dop_diag diag = {0};
    dop_model_facts(m, &facts);
    const size_t n = facts.vocab < 3 ? 1 : facts.ctx < 16 ? facts.ctx / 4 + 1 : 5;
    dop_status st = dop_sequence_create(m, &diag, &s);
    if (st == DOP_OK)
        st = dop_sequence_feed(s, ids, n, &diag);
    for (int i = 0; i < 2 && st == DOP_OK; i++)
        st = dop_sequence_next(s, &diag, &id);
    if (st == DOP_OK)
        st = dop_sequence_rewind(s, 1, &diag);
    if (st == DOP_OK)
        st = dop_sequence_score(s, ids, n < 3 ? n : 2, take_rows, &sum, &diag);
    if (st == DOP_OK && facts.n_sequences > 1)
        st = dop_sequence_fork(s, &diag, &fork);
    if (st == DOP_OK && fork)
        st = dop_sequence_feed(fork, ids, 1, &diag);
    if (st == DOP_OK) /* all states are copied to the host */
        st = dop_sequence_save(s, "/dev/null", NULL, 0, &diag);
    dop_sequence_destroy(s);
    if (st == DOP_OK) /* in the place of the last, whose states are cleared */
        st = dop_sequence_create(m, &diag, &s);
    if (st == DOP_OK)
        st = dop_sequence_feed(s, ids, 1, &diag);
    fuzz_check(st, &diag);
}

void
fuzz_plan_run(const uint8_t *data, size_t size)
{
    const dop_open_options options = {.threads = 1};
    dop_model *m = NULL;
    dop_buf file = {0};
    dop_diag diag = {0};
    if (size == 0 || data[0] != 'S')
        return;
    fuzz_plan_assemble(data, size, &file);
    dop_status st = dop_model_open(fuzz_file(file.data, file.size, 0), &options, &diag, &m);
    fuzz_check(st, &diag);
    if (st == DOP_OK)
        use_model(m);
    dop_model_close(m);
    dop_buf_finish(&file);
}

/* ---- saved sequences ------------------------------------------------------------------------------------------------ */

typedef dop_snapshot_head session;

/* That of a sequence which was saved. */
static session
saved(dop_sequence *s)
{
    static session h;
    static const uint32_t ids[] = {1, 2, 3};
    const char *dir = NULL;
    char path[128];
    dop_diag diag = {0};
    if (h.plan)
        return h;
    fuzz_file_in("config.json", NULL, 0, 0, &dir); /* any file: it is replaced */
    snprintf(path, sizeof path, "%s/config.json", dir);
    require(dop_sequence_feed(s, ids, 3, &diag) == DOP_OK);
    require(dop_sequence_save(s, path, NULL, 0, &diag) == DOP_OK);
    dop_map map;
    require(dop_map_open(path, &diag, &map) == DOP_OK && map.size > sizeof h);
    memcpy(&h, map.data, sizeof h);
    dop_map_close(&map);
    return h;
}

/* The first byte says what is put right in the file behind it: 1 magic and version, 2 the plan, 4 the layout, 8 sizes (what is
 * missing is zeros), 16 the digest. */
void
fuzz_session(const uint8_t *data, size_t size)
{
    static dop_sequence *s;
    dop_diag diag = {0};
    session h;
    dop_buf file = {0};
    char *note = NULL;
    size_t n_note = 0;
    if (size == 0)
        return;
    if (!s)
        require(dop_sequence_create(model(), &diag, &s) == DOP_OK);
    const session right = saved(s);
    const uint8_t what = data[0];
    dop_buf_append(&file, data + 1, size - 1);
    if (file.size < sizeof h)
        dop_buf_zeros(&file, sizeof h - file.size);
    require(!file.failed);
    memcpy(&h, file.data, sizeof h);
    if (what & 1) {
        memcpy(h.magic, right.magic, sizeof h.magic);
        h.version = right.version;
    }
    h.plan = what & 2 ? right.plan : h.plan;
    h.layout = what & 4 ? right.layout : h.layout;
    if (what & 8) {
        h.n_tokens %= 80;
        h.to %= 80;
        h.n_marks %= 4;
        h.n_note %= 256;
        const dop_states states = {.to = h.to, .rows = true, .whole = true};
        h.file_size = dop_snapshot_states_at(&h) + dop_transfer_size(model(), &states) + sizeof(uint64_t);
        if (file.size < h.file_size)
            dop_buf_zeros(&file, h.file_size - file.size);
        file.size = h.file_size;
    }
    require(!file.failed);
    memcpy(file.data, &h, sizeof h);
    if (what & 16) {
        const uint64_t digest = dop_plan_digest(file.data, file.size - sizeof digest);
        memcpy(file.data + file.size - sizeof digest, &digest, sizeof digest);
    }
    dop_snapshot_head read;
    dop_snapshot_key key;
    const dop_snapshot_plan plan = dop_stored_plan(model());
    /* As a file of a cache too, and as the name of one. */
    if (dop_snapshot_check((const uint8_t *)file.data, file.size, &plan, "", NULL, &read) == DOP_OK)
        require(dop_snapshot_states_at(&read) + dop_snapshot_states_size(&read) + sizeof(uint64_t) == file.size);
    dop_buf_append(&file, "", 1); /* of the name */
    file.size--;
    (void)dop_file_name_read(&plan, file.data + sizeof h < file.data + file.size ? file.data + sizeof h : "", &key);
    dop_status st = dop_sequence_load(s, fuzz_file(file.data, file.size, 0), &diag, &note, &n_note);
    fuzz_check(st, &diag);
    if (st == DOP_OK) { /* it can be gone on with */
        const uint32_t id = 1;
        size_t n;
        (void)dop_sequence_tokens(s, &n);
        require(n == h.n_tokens && n_note == h.n_note);
        fuzz_check(n < right.n_tokens + 60 ? dop_sequence_feed(s, &id, 1, &diag) : DOP_OK, &diag);
    }
    dop_free(note);
    dop_buf_finish(&file);
}

/* ---- requests ------------------------------------------------------------------------------------------------------- */

static const char template[] = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
                               "{% if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}";

/* An engine that has been stopped: requests are read to their end, and then refused. */
static const dop_api *
api(void)
{
    static dop_api a;
    static dop_vocab *vocab;
    dop_chat *chat = NULL;
    dop_tool_form *form = NULL;
    dop_diag diag = {0};
    const dop_engine_options options = {.threads = 1};
    if (a.engine)
        return &a;
    a = (dop_api){.model = model(), .tok = fuzz_tokenizer(), .sampling = {.repeat_penalty = 1}, .max_choices = 4};
    dop_model_facts(model(), &a.facts);
    require(dop_chat_create(template, strlen(template), &diag, &chat) == DOP_OK);
    a.chat = chat;
    require(dop_tool_form_create(chat, template, a.tok, &diag, &form) == DOP_OK);
    a.form = form;
    require(dop_vocab_create(a.tok, a.facts.vocab, a.facts.end_ids, a.facts.n_end_ids, &diag, &vocab) == DOP_OK);
    require(dop_constraints_create(vocab, &diag, &a.shapes) == DOP_OK);
    require(dop_engine_create(model(), a.tok, &options, &diag, &a.engine) == DOP_OK);
    dop_engine_stop(a.engine, 0);
    return &a;
}

static void
wake(void *user)
{
    (void)user;
}

/* A line with method and path, and the body. */
void
fuzz_api(const uint8_t *data, size_t size)
{
    char line[256];
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t n = end ? (size_t)(end - data) : 0;
    dop_answer answer = {0};
    dop_call *call = NULL;
    if (!end || n >= sizeof line)
        return;
    memcpy(line, data, n);
    line[n] = 0;
    char *path = strchr(line, ' ');
    if (!path)
        return;
    *path++ = 0;
    dop_budget budget;
    dop_api_budget(api(), NULL, &budget);
    const dop_api_request request = {.method = line,
                                     .path = path,
                                     .body = (const char *)end + 1,
                                     .n_body = size - n - 1,
                                     .budget = &budget,
                                     .wake = wake};
    dop_api_begin(api(), &request, &answer, &call);
    require(call || answer.status >= 200);
    if (call)
        (void)dop_call_poll(call, &answer);
    dop_call_end(call);
    if (answer.type && strcmp(answer.type, "application/json") == 0 && !answer.streams) {
        json_t *root = json_loadb(answer.body.data ? answer.body.data : "", answer.body.size, JSON_DECODE_ANY, NULL);
        require(root != NULL);
        json_decref(root);
    }
    dop_answer_finish(&answer);
}

/* The bytes of a connection: heads, and bodies of both kinds.  In pieces they mean what they mean as a whole. */
void
fuzz_http(const uint8_t *data, size_t size)
{
    dop_http_head head, again;
    dop_http_fault fault, other;
    size_t seen = 0, n = 0, n_again = 0, used, n_body;
    const char *body;
    char *bytes = malloc(size + 1), *copy = malloc(size + 1);
    require(bytes && copy);
    memcpy(bytes, data, size);
    memcpy(copy, data, size);
    const dop_http_read r = dop_http_read_head(bytes, size, &seen, &head, &n, &fault);
    dop_http_read piecewise = DOP_HTTP_MORE;
    seen = 0;
    for (size_t i = 1; i <= size && piecewise == DOP_HTTP_MORE; i++)
        piecewise = dop_http_read_head(copy, i, &seen, &again, &n_again, &other);
    require(size == 0 || (piecewise == r && n_again == n));
    require(r != DOP_HTTP_WRONG || (fault.status >= 400 && fault.why));
    require(r != DOP_HTTP_DONE || (head.method && head.path && n <= size && !(head.chunked && head.length)));
    dop_http_chunks chunks = {0};
    for (size_t i = r == DOP_HTTP_DONE && head.chunked ? n : size; i < size;) {
        const dop_http_read c =
            dop_http_read_chunks(&chunks, (const char *)data + i, size - i, &used, &body, &n_body, &fault);
        if (c != DOP_HTTP_MORE)
            break;
        require(used > 0 && used <= size - i && n_body <= used);
        i += used;
    }
    free(bytes);
    free(copy);
}
