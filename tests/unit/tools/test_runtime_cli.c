/* doppler-exec without its main: the option parser, stop texts, and the modes' errors on a hand-made plan. */
#include "base/program/names.h"
#include "runtime/library/output.h"
#include "tests/unit/plan_builder.h"
#include "text/import/tokenizer_hf.h"
#include "tools/doppler-exec/common/cli.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- options -------------------------------------------------------------------------------------------------------*/

typedef struct values {
    bool flag;
    const char *text, *optional;
    uint32_t count;
    double real;
    dop_texts list;
    const char *word;
} values;

#define ROW(letter, name, kind, field, ...) \
    DOP_NUMBER_OPTION(values, letter, name, kind, field, "VALUE", "help", __VA_ARGS__)
static const dop_option table[] = {
    DOP_OPTION_HEADING("Heading"),
    ROW('f', "flag", FLAG, flag, 0, 0),
    ROW('t', "text", TEXT, text, 0, 0),
    ROW(0, "optional", OPTIONAL, optional, 0, 0),
    ROW('n', "count", COUNT, count, 1, 4000000000.0),
    ROW(0, "real", REAL, real, 0, 2),
    ROW('l', "list", LIST, list, 0, 0),
    ROW(0, "word", TEXT, word, 0, 0, .values = "one two three"),
};

static dop_options_given given;

/* Arguments are given as one text, split at spaces. */
static dop_status
parse(const char *line, values *v, dop_texts *rest, dop_diag *diag)
{
    static char copy[256];
    char *argv[32] = {"program"}, *save = NULL;
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save))
        argv[argc++] = p;
    memset(v, 0, sizeof *v);
    memset(diag, 0, sizeof *diag);
    return dop_options_parse(table, sizeof table / sizeof table[0], argc, argv, diag, v, rest, &given);
}

Test(options, set_as_files_state_them)
{
    values v = {0};
    dop_diag diag;
    const struct {
        const char *name, *value, *wrong; /* NULL: it is right */
    } rows[] = {{"flag", "true", NULL},       {"text", "a b", NULL},
                {"count", "7", NULL},         {"list", "x", NULL},
                {"list", "y", NULL},          {"flag", "yes", "flag is true or false, not \"yes\""},
                {"count", "0", "count must"}, {"word", "four", "word four: known are one, two and three"},
                {"nothing", "1", "unknown"},  {"count", "many", "count needs a whole number, not \"many\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        diag = (dop_diag){0};
        const dop_status st =
            dop_option_set(table, sizeof table / sizeof *table, rows[i].name, rows[i].value, &diag, &v);
        cr_expect_eq(st, rows[i].wrong ? DOP_E_USAGE : DOP_OK, "%s: %s", rows[i].name, diag.message);
        cr_expect(!rows[i].wrong || strstr(diag.message, rows[i].wrong), "%s", diag.message);
    }
    cr_expect(v.flag && v.count == 7 && strcmp(v.text, "a b") == 0 && v.list.count == 2);
    cr_expect_eq(dop_option_set(table, sizeof table / sizeof *table, "flag", "false", NULL, &v), DOP_OK);
    cr_expect(!v.flag);
    dop_texts_finish(&v.list);
}

Test(options, names_in_messages)
{
    static const char *const rows[][2] = {{"compile with a larger `ctx_total`, or another `device`",
                                           "compile with a larger --ctx-total, or another --device"},
                                          {"`forces` a=b", "--force a=b"},
                                          {"see `dop_devices`", "see --list-devices"},
                                          {"a `name` of no option, `ctx", "a `name` of no option, `ctx"},
                                          {"`` and ```ctx`", "`` and ``--ctx"},
                                          {"", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_buf text = {0};
        dop_name_options(rows[i][0], &text);
        cr_expect(rows[i][1] ? text.data && strcmp(text.data, rows[i][1]) == 0 : text.size == 0, "%s",
                  text.data ? text.data : "");
        dop_buf_finish(&text);
    }
}

Test(options, every_form)
{
    values v;
    dop_texts rest;
    dop_diag diag;
    cr_assert_eq(
        parse("a -f --text=x=y -n 5 --real 0.25 -l one -l=two --list three b --optional -- -f", &v, &rest, &diag),
        DOP_OK, "%s", diag.message);
    cr_assert(v.flag);
    cr_assert_str_eq(v.text, "x=y");
    cr_assert_str_eq(v.optional, "");
    cr_assert_eq(v.count, 5);
    cr_assert_float_eq(v.real, 0.25, 0);
    cr_assert_eq(v.list.count, 3);
    cr_assert_str_eq(v.list.items[1], "=two");
    cr_assert_eq(rest.count, 3);
    cr_assert_str_eq(rest.items[1], "b");
    cr_assert_str_eq(rest.items[2], "-f");
    dop_texts_finish(&v.list);
    dop_texts_finish(&rest);
    cr_assert_eq(parse("--optional=z -t - -n4000000000", &v, &rest, &diag), DOP_OK);
    cr_assert_str_eq(v.optional, "z");
    cr_assert_str_eq(v.text, "-");
    cr_assert_eq(v.count, 4000000000u);
    dop_texts_finish(&rest);
}

Test(options, errors)
{
    static const struct {
        const char *line, *want;
    } cases[] = {
        {"--txt 3", "unknown option --txt; did you mean --text?"},
        {"--textual 3", "unknown option --textual; did you mean --text?"},
        {"--opti", "unknown option --opti; did you mean --optional?"},
        {"--tezr", "unknown option --tezr; see --help"},
        {"--zebra", "unknown option --zebra; see --help"},
        {"-x", "unknown option -x; see --help"},
        {"-ltwo", "unknown option -ltwo; see --help"},
        {"-n-o", "unknown option -n-o; see --help"},
        {"-text a", "unknown option -text; did you mean --text?"},
        {"-t a -t b", "-t is given twice, the second time with \"b\": give it once"},
        {"-n 1 --count 2", "is given twice, the second time with \"2\""},
        {"--optional=a --optional=b", "--optional is given twice"},
        {"--text", "--text needs a value: VALUE"},
        {"-n", "-n needs a value: VALUE"},
        {"--flag=1", "--flag takes no value"},
        {"-n x", "-n needs a whole number, not \"x\""},
        {"-n 1.5", "-n needs a whole number, not \"1.5\""},
        {"-n 0", "-n must lie between 1 and 4000000000, not 0"},
        {"-n -3", "-n must lie between 1 and 4000000000, not -3"},
        {"-n 99999999999999999999", "-n must lie between"},
        {"--real nan", "--real needs a number, not \"nan\""},
        {"--word four", "--word four: known are one, two and three"},
        {"--word=", "--word : known are one, two and three"},
        {"--word tw", "--word tw: known are"},
        {"--real 2.1", "--real must lie between 0 and 2, not 2.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        values v;
        dop_texts rest;
        dop_diag diag;
        cr_assert_eq(parse(cases[i].line, &v, &rest, &diag), DOP_E_USAGE, "%s", cases[i].line);
        cr_assert(strstr(diag.message, cases[i].want), "%s: %s", cases[i].line, diag.message);
        dop_texts_finish(&v.list);
        dop_texts_finish(&rest);
    }
}

Test(options, help)
{
    dop_buf out = {0};
    dop_options_help(table, sizeof table / sizeof table[0], &out);
    cr_assert_str_eq(out.data, "\nHeading\n"
                               "  -f, --flag                 help\n"
                               "  -t, --text VALUE           help\n"
                               "  --optional[=VALUE]         help\n"
                               "  -n, --count VALUE          help\n"
                               "  --real VALUE               help\n"
                               "  -l, --list VALUE           help\n"
                               "  --word VALUE               help\n");
    dop_buf_finish(&out);
}

Test(options, rules)
{
    static const dop_option_rule rules[] = {
        {.needs = "text real count flag word list", .why = "nothing to do"},
        {.options = "word=two", .excludes = "flag text=x optional=", .why = "leaves no room for @"},
        {.options = "real list", .needs = "text", .why = "is about a text"},
        {.options = "flag text word", .excludes = "flag text", .why = "and @ are two things"},
        {.options = "count", .modes = "flag", .why = "is for flags"},
    };
    static const struct {
        const char *line, *mode, *want; /* NULL: no rule is broken */
    } cases[] = {
        {"a", NULL, "nothing to do"},
        {"-f", NULL, NULL},
        {"-f", "run", NULL},
        {"--word two --flag", NULL, "--word two leaves no room for -f, --flag"},
        {"--word two -t x", NULL, "--word two leaves no room for -t, --text x"},
        {"--word two --optional", NULL, "--word two leaves no room for --optional"},
        {"--word two --optional=a", NULL, NULL},
        {"--word one --optional", NULL, NULL},
        {"--real 1", NULL, "--real is about a text"},
        {"-l a", NULL, "-l, --list is about a text"},
        {"--real 1 --text y", NULL, NULL},
        {"--text y -f", NULL, "-f, --flag and -t, --text are two things"},
        {"--word one --text y", NULL, "--word and -t, --text are two things"},
        {"-n 5", "run", "-n, --count is for flags; run has no use for it"},
        {"-n 5 --text y", "text", "-n, --count is for flags; --text has no use for it"},
        {"-n 5 -f", "flag", NULL},
        {"-n 5", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        values v;
        dop_texts rest;
        dop_diag diag;
        cr_assert_eq(parse(cases[i].line, &v, &rest, &diag), DOP_OK, "%s", diag.message);
        dop_status st = dop_options_check(table, sizeof table / sizeof *table, rules, sizeof rules / sizeof *rules,
                                          &given, &v, cases[i].mode, &diag);
        cr_assert_eq(st, cases[i].want ? DOP_E_USAGE : DOP_OK, "%s", cases[i].line);
        if (cases[i].want)
            cr_assert_str_eq(diag.message, cases[i].want);
        dop_texts_finish(&v.list);
        dop_texts_finish(&rest);
    }
    cr_assert(dop_option_given(table, sizeof table / sizeof *table, &given, "count"));
    cr_assert_not(dop_option_given(table, sizeof table / sizeof *table, &given, "flag"));
}

/* ---- stop texts ----------------------------------------------------------------------------------------------------*/

static dop_tokenizer *
demo_tokenizer(void)
{
    dop_tokenizer *tok = NULL;
    dop_diag diag = {0};
    cr_assert_eq(dop_tokenizer_from_hf_dir(DOP_SOURCE_DIR "/examples/shakespeare-gemma3", &diag, &tok), DOP_OK, "%s",
                 diag.message);
    return tok;
}

/* Text of a prompt's tokens one by one through an output; releases[] is what came out, parts separated by '|'. */
static void
stream(const char *text, const char *const *stops, size_t n_stops, dop_buf *releases, bool *out_stopped)
{
    dop_tokenizer *tok = demo_tokenizer();
    dop_texts list = {0};
    dop_ids ids = {0};
    dop_output out;
    dop_text_stream decoder;
    dop_buf piece = {0};
    dop_diag diag = {0};
    size_t from;
    for (size_t i = 0; i < n_stops; i++)
        cr_assert_eq(dop_texts_push(&list, stops[i], &diag), DOP_OK);
    cr_assert_eq(dop_tokenizer_encode(tok, text, strlen(text), 0, &diag, &ids), DOP_OK);
    dop_output_init(&out, list.items, list.count);
    dop_text_stream_init(&decoder, tok, DOP_DECODE_SKIP_SPECIAL | DOP_DECODE_CONTINUE);
    for (size_t i = 0; i <= ids.count; i++) {
        piece.size = 0;
        if (i < ids.count)
            cr_assert_eq(dop_text_stream_push(&decoder, ids.data[i], &diag, &piece), DOP_OK);
        dop_status st = i < ids.count ? dop_output_push(&out, piece.data, piece.size, &diag, &from)
                                      : dop_output_end(&out, &diag, &from);
        cr_assert_eq(st, DOP_OK, "%s", diag.message);
        if (out.text.size > from)
            dop_buf_printf(releases, "%.*s|", (int)(out.text.size - from), out.text.data + from);
    }
    *out_stopped = out.stopped;
    dop_output_finish(&out);
    dop_buf_finish(&piece);
    dop_texts_finish(&list);
    dop_ids_finish(&ids);
    dop_tokenizer_destroy(tok);
}

static void
without_bars(dop_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->size; i++)
        if (b->data[i] != '|')
            b->data[n++] = b->data[i];
    b->size = n;
    b->data[n] = 0;
}

Test(output, nothing_of_a_stop_text_gets_out)
{
    static const char text[] = "To be, or not to be, that is the question";
    static const struct {
        const char *stops[2];
        const char *want;
        bool stopped;
    } cases[] = {
        {{"nowhere"}, text, false},
        {{"be, that"}, "To be, or not to ", true},
        {{"that is the question!"}, text, false}, /* held to the end, then released */
        {{"question"}, "To be, or not to be, that is the ", true},
        {{"is the", "or not"}, "To be, ", true},
        {{"To"}, "", true},
        {{""}, text, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dop_buf got = {0};
        bool stopped;
        dop_buf_puts(&got, "");
        stream(text, cases[i].stops, cases[i].stops[1] ? 2 : 1, &got, &stopped);
        without_bars(&got);
        cr_assert_str_eq(got.data, cases[i].want, "case %zu: \"%s\"", i, got.data);
        cr_assert_eq(stopped, cases[i].stopped, "case %zu", i);
        dop_buf_finish(&got);
    }
}

Test(output, text_that_starts_no_stop_text_is_not_held)
{
    dop_buf got = {0};
    bool stopped;
    static const char *const stop[] = {"zzz"};
    stream("To be, or not to be", stop, 1, &got, &stopped);
    cr_assert(strchr(got.data, '|') < got.data + 6, "%s", got.data);
    dop_buf_finish(&got);
}

/* ---- modes ---------------------------------------------------------------------------------------------------------*/

static char plan_path[64];

static void
make_plan(void)
{
    plan_builder b;
    strcpy(plan_path, "/tmp/doppler-test-XXXXXX");
    pb_toy(&b);
    pb_write(&b, plan_path);
    plan_builder_finish(&b);
}

static void
remove_plan(void)
{
    unlink(plan_path);
}

TestSuite(modes, .init = make_plan, .fini = remove_plan);

static const char *plan_list[2];

static dop_cli
plain_cli(void)
{
    dop_cli cli;
    memset(&cli, 0, sizeof cli);
    cli.n_predict = cli.logprobs = cli.top_k = cli.repeat_last_n = cli.ppl_ctx = DOP_CLI_UNSET;
    cli.temperature = cli.top_p = cli.min_p = cli.repeat_penalty = (double)NAN;
    cli.quiet = true;
    plan_list[0] = plan_list[1] = plan_path;
    cli.plans.items = plan_list;
    cli.plans.count = 1;
    return cli;
}

static void
expect_error(dop_mode_fn *mode, dop_cli cli, dop_status code, const char *want)
{
    dop_diag diag = {0};
    cr_assert_eq(mode(&cli, &diag), code, "%s instead of %s", diag.message, want);
    cr_assert(strstr(diag.message, want), "\"%s\" does not say \"%s\"", diag.message, want);
    cr_assert_null(strchr(diag.message, '\n'));
}

#define EXPECT_ERROR(mode, code, want, ...)  \
    do {                                     \
        dop_cli cli = plain_cli();           \
        __VA_ARGS__;                         \
        expect_error(mode, cli, code, want); \
    } while (0)

Test(modes, errors_of_a_run)
{
    EXPECT_ERROR(dop_mode_run, DOP_E_USAGE, "no plan given", cli.plans.count = 0);
    EXPECT_ERROR(dop_mode_run, DOP_E_USAGE, "one plan at a time", cli.plans.count = 2);
    EXPECT_ERROR(dop_mode_run, DOP_E_IO, "cannot open", plan_list[0] = "/nonexistent.plan");
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "not a Doppler plan", plan_list[0] = DOP_SOURCE_DIR "/LICENSE");
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "no tokenizer (the model came without one), which -p needs",
                 cli.prompt = "x");
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "which --stop needs", static const char *stop = "x"; cli.tokens = "1";
                 cli.stop.items = &stop; cli.stop.count = 1);
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "which --chat needs", cli.chat = true);
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "the prompt has no tokens", cli.tokens = " ,");
    EXPECT_ERROR(dop_mode_run, DOP_E_USAGE, "--tokens: token ids are whole numbers, not \"x\"", cli.tokens = "1 x");
    EXPECT_ERROR(dop_mode_run, DOP_E_USAGE, "not \"-1\"", cli.tokens = "1 -1");
    EXPECT_ERROR(dop_mode_run, DOP_E_USAGE, "token ids are whole numbers", cli.tokens = "99999999999999999999999");
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "token id 64 is outside the vocabulary of 64", cli.tokens = "64");
    EXPECT_ERROR(dop_mode_run, DOP_E_IO, "cannot open", cli.tokens_file = "/nonexistent");
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "-n 126 after a prompt of 3 tokens does not fit the plan's context of 128",
                 cli.tokens = "1 2 3";
                 cli.n_predict = 126);
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "use -n 125 or less", cli.tokens = "1 2 3"; cli.n_predict = UINT32_MAX - 2);
    EXPECT_ERROR(dop_mode_run, DOP_E_USAGE, "--seed needs a whole number", cli.tokens = "1"; cli.seed = "x");
    EXPECT_ERROR(dop_mode_run, DOP_E_USAGE, "no device \"nothing\"", cli.tokens = "1"; cli.device = "nothing");
}

Test(modes, a_prompt_longer_than_the_context)
{
    char tokens[3 * 129 + 1] = "";
    for (int i = 0; i < 129; i++)
        strcat(tokens, "1 ");
    EXPECT_ERROR(dop_mode_run, DOP_E_INPUT, "the prompt has 129 tokens and the plan's context 128",
                 cli.tokens = tokens);
}

Test(modes, unwritable_logits_leave_nothing)
{
    EXPECT_ERROR(dop_mode_run, DOP_E_IO, "cannot write", cli.tokens = "1"; cli.logits = "/nonexistent/logits");
    EXPECT_ERROR(dop_mode_run, DOP_E_IO, "cannot write", cli.tokens = "1"; cli.logits = "/tmp");
    cr_assert_neq(system("ls /tmp.tmp.* 2>/dev/null"), 0);
}

Test(modes, other_errors)
{
    EXPECT_ERROR(dop_mode_score, DOP_E_INPUT, "--ppl-ctx 129 is larger than the plan's context of 128",
                 cli.ppl = "/dev/null";
                 cli.ppl_ctx = 129);
    EXPECT_ERROR(dop_mode_score, DOP_E_INPUT, "which --ppl needs", cli.ppl = "/dev/null");
    EXPECT_ERROR(dop_mode_converse, DOP_E_USAGE, "-i reads its text from standard input", cli.tokens = "1");
    EXPECT_ERROR(dop_mode_tokenize, DOP_E_INPUT, "the plan has no tokenizer: the model came without one",
                 cli.tokenize = "/dev/null");
    EXPECT_ERROR(dop_mode_tokenize, DOP_E_IO, "cannot open", cli.tokenize = "/nonexistent";
                 cli.tokenizer = DOP_SOURCE_DIR "/examples/shakespeare-gemma3");
    EXPECT_ERROR(dop_mode_tokenize, DOP_E_INPUT, "invalid JSON", cli.tokenize = DOP_SOURCE_DIR "/LICENSE";
                 cli.tokenizer = DOP_SOURCE_DIR "/examples/shakespeare-gemma3");
    EXPECT_ERROR(dop_mode_render_chat, DOP_E_INPUT, "the plan has no tokenizer: the model came without one",
                 cli.render_chat = "/dev/null");
    EXPECT_ERROR(dop_mode_info, DOP_E_USAGE, "no plan given", cli.plans.count = 0);
}

Test(modes, logits_file)
{
    char path[80];
    snprintf(path, sizeof path, "%s.logits", plan_path);
    dop_cli cli = plain_cli();
    dop_diag diag = {0};
    uint32_t tokens[] = {5, 9, 33};
    cli.tokens = "5, 9\n33";
    cli.n_predict = 0;
    cli.logits = path;
    cli.no_display_prompt = true;
    cr_assert_eq(dop_mode_run(&cli, &diag), DOP_OK, "%s", diag.message);
    dop_map map;
    cr_assert_eq(dop_map_open(path, &diag, &map), DOP_OK, "%s", diag.message);
    cr_assert_eq(map.size, sizeof(float) * TOY_VOCAB * 3);
    for (size_t i = 0; i < 3; i++) {
        float want[TOY_VOCAB];
        toy_logits(tokens, i + 1, want);
        cr_assert_arr_eq(map.data + i * sizeof want, want, sizeof want, "row %zu", i);
    }
    dop_map_close(&map);
    unlink(path);
}

Test(modes, nothing_said_starts_from_bos)
{
    dop_cli cli = plain_cli();
    dop_diag diag = {0};
    cli.n_predict = 3;
    cr_assert_eq(dop_mode_run(&cli, &diag), DOP_OK, "%s", diag.message);
}
