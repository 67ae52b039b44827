/* Speech: the rules by which tokens of a transcription are picked, and transcripts in
 * their forms. */
#include "base/encoding/languages.h"
#include "runtime/library/speech.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_END = 10, TIMES = 20, VOCAB = TIMES + 100 };

/* A vocabulary of ten texts, specials from 10 on, and times from 20 on. */
static dop_speech
small_speech(uint32_t *suppressed, uint32_t *first)
{
    suppressed[0] = 3;
    first[0] = 4;
    first[1] = TEXT_END;
    return (dop_speech){
        .tokens =
            {.sot = 11, .no_timestamps = 19, .no_speech = 18, .eot = TEXT_END, .first_time = TIMES, .end_time = VOCAB},
        .vocab = VOCAB,
        .suppressed = suppressed,
        .n_suppressed = 1,
        .at_first = first,
        .n_at_first = 2};
}

/* Picks after the tokens, where every score is 0 but that of `best`. */
static uint32_t
picked(const dop_speech *s, const dop_speech_how *how, const uint32_t *tokens, size_t n, uint32_t best, float score)
{
    float scores[VOCAB], logits[VOCAB] = {0};
    dop_diag diag = {0};
    uint32_t id = UINT32_MAX;
    dop_speech_picker p = {.speech = s, .no_timestamps = how->no_timestamps, .scores = scores};
    logits[best] = score;
    cr_assert_eq(dop_speech_pick(&p, logits, tokens, n, &diag, &id), DOP_OK, "%s", diag.message);
    cr_expect_leq(p.sum_logprobs, 0);
    return id;
}

Test(speech, rules_of_times)
{
    uint32_t suppressed[1], first[2];
    const dop_speech s = small_speech(suppressed, first);
    dop_speech_how how;
    dop_speech_how_init(&how);
    /* The first token is a time of the first second; among equals the first. */
    cr_expect_eq(picked(&s, &how, NULL, 0, 5, 30), TIMES);
    cr_expect_eq(picked(&s, &how, NULL, 0, TIMES + 50, 30), TIMES + 50);
    cr_expect_eq(picked(&s, &how, NULL, 0, TIMES + 51, 30), TIMES);
    /* After a beginning there is text, and later a time that is not before it. */
    const uint32_t begun[] = {TIMES + 4, 2, TIMES + 9, TIMES + 9, 5};
    cr_expect_eq(picked(&s, &how, begun, 1, 2, 30), 2);
    cr_expect_eq(picked(&s, &how, begun, 1, 3, 30), 0, "a suppressed token");
    cr_expect_lt(picked(&s, &how, begun, 1, TIMES + 9, 30), TIMES);
    cr_expect_eq(picked(&s, &how, begun, 2, TIMES + 2, 30) > TIMES + 4, 1, "times do not decrease");
    /* After an end there is another beginning, not before it, or the end of the text. */
    cr_expect_eq(picked(&s, &how, begun, 3, 2, 30) >= TIMES + 9, 1);
    cr_expect_eq(picked(&s, &how, begun, 3, TEXT_END, 30), TEXT_END);
    cr_expect_eq(picked(&s, &how, begun, 3, TIMES + 9, 30), TIMES + 9);
    /* After a pair of times there is text. */
    cr_expect_lt(picked(&s, &how, begun, 4, TIMES + 20, 30), TIMES);
    /* All times together are likelier than a text that is likelier than each of them. */
    cr_expect_geq(picked(&s, &how, begun, 5, 2, 2), TIMES);
    cr_expect_eq(picked(&s, &how, begun, 5, 2, 8), 2);
}

/* Tokens that somebody has added behind the times are none of them. */
Test(speech, added_tokens)
{
    uint32_t suppressed[1], first[2];
    dop_speech s = small_speech(suppressed, first);
    dop_speech_how how;
    dop_speech_how_init(&how);
    s.tokens.end_time = VOCAB - 3;
    const uint32_t begun[] = {TIMES + 4, 2, TIMES + 9};
    for (uint32_t id = VOCAB - 3; id < VOCAB; id++)
        cr_expect_lt(picked(&s, &how, begun, 2, id, 30), VOCAB - 3);
    cr_expect_eq(picked(&s, &how, begun, 2, VOCAB - 4, 30), VOCAB - 4);
}

Test(speech, without_times)
{
    uint32_t suppressed[1], first[2];
    const dop_speech s = small_speech(suppressed, first);
    dop_speech_how how;
    dop_speech_how_init(&how);
    how.no_timestamps = true;
    const uint32_t some[] = {5};
    cr_expect_lt(picked(&s, &how, NULL, 0, TIMES + 3, 30), TIMES);
    cr_expect_neq(picked(&s, &how, NULL, 0, TEXT_END, 30), TEXT_END, "no transcription begins with its end");
    cr_expect_neq(picked(&s, &how, NULL, 0, 4, 30), 4);
    cr_expect_eq(picked(&s, &how, some, 1, 4, 30), 4);
    cr_expect_eq(picked(&s, &how, some, 1, TEXT_END, 30), TEXT_END);
}

Test(speech, logits_that_are_no_numbers)
{
    uint32_t suppressed[1], first[2], id;
    const dop_speech s = small_speech(suppressed, first);
    float scores[VOCAB], logits[VOCAB] = {[7] = NAN};
    dop_diag diag = {0};
    dop_speech_picker p = {.speech = &s, .scores = scores};
    cr_expect_eq(dop_speech_pick(&p, logits, NULL, 0, &diag, &id), DOP_E_INPUT);
}

Test(speech, transcripts_in_their_forms)
{
    dop_speech_segment segments[] = {{.start = 0, .end = 2.5, .text = " Hello --> there."},
                                     {.start = 3661.02, .end = 3662, .text = " \"End\""}};
    const dop_transcript t = {.language = "en",
                              .task = "transcribe",
                              .duration = 3662,
                              .text = (char[]){"Hello"},
                              .n_segments = 2,
                              .segments = segments};
    static const char *const want[] = {
        [DOP_TRANSCRIPT_TEXT] = "Hello\n",
        [DOP_TRANSCRIPT_JSON] = "{\"text\":\"Hello\"}",
        [DOP_TRANSCRIPT_SRT] =
            "1\n00:00:00,000 --> 00:00:02,500\nHello --} there.\n\n2\n01:01:01,020 --> 01:01:02,000\n\"End\"\n\n",
        [DOP_TRANSCRIPT_VTT] =
            "WEBVTT\n\n00:00.000 --> 00:02.500\nHello --} there.\n\n01:01:01.020 --> 01:01:02.000\n\"End\"\n\n",
    };
    for (int form = DOP_TRANSCRIPT_TEXT; form <= DOP_TRANSCRIPT_VTT; form++) {
        dop_diag diag = {0};
        char *text = NULL;
        size_t n = 0;
        cr_assert_eq(dop_transcript_write(&t, (dop_transcript_form)form, &diag, &text, &n), DOP_OK);
        cr_expect_eq(strlen(text), n);
        if (want[form])
            cr_expect_str_eq(text, want[form]);
        else
            cr_expect(strstr(text, "\"duration\":3662.0") && strstr(text, "\"end\":2.5") && strstr(text, "\\\"End\\\""),
                      "%s", text);
        dop_free(text);
    }
}

Test(speech, languages_as_people_name_them)
{
    static const struct {
        const char *name, *code;
    } rows[] = {{"de", "de"},
                {"DE", "de"},
                {"German", "de"},
                {"de-AT", "de"},
                {"zh_TW", "zh"},
                {"Mandarin", "zh"},
                {"jv", "jw"},
                {"nb-NO", "no"},
                {"yue", "yue"},
                {"haw-US", "haw"},
                {"haitian creole", "ht"},
                {"castilian", "es"},
                {"", NULL},
                {"-", NULL},
                {"d", NULL},
                {"deu", NULL},
                {"german-AT", NULL},
                {"klingon", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t n = dop_language_find(rows[i].name);
        cr_expect_eq(n == DOP_N_LANGUAGES, !rows[i].code, "%s", rows[i].name);
        if (n < DOP_N_LANGUAGES && rows[i].code)
            cr_expect_str_eq(dop_language_at(n)->code, rows[i].code);
    }
}
