/* Conversion between text and token ids: BPE (from bytes or characters), Unigram and WordPiece.
 *
 * A tokenizer is loaded from the binary form that plans carry. Importers (text/import/tokenizer_files.h) write this
 * form; the loader checks the form and uses it in place.
 *
 * Time and memory are bounded. Encoding n bytes needs O(n) memory, O(n log n) time with BPE, and O(n x longest
 * piece) time with Unigram and WordPiece, whose pieces have at most 1024 bytes. A budget bounds the additional time
 * of regular expressions. A normalizer may lengthen a text by at most a factor of 256.
 *
 * A dop_tokenizer is immutable; any number of threads may use one. */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_H

#include "base/budget.h"
#include "text/tokenizer/ids.h"

typedef struct dop_tokenizer dop_tokenizer;

#define DOP_NO_TOKEN UINT32_MAX

void dop_tokenizer_destroy(dop_tokenizer *tok);

/* Appends the binary form (tokenizer_format.h) to out. The bytes are deterministic. */
dop_status dop_tokenizer_serialize(const dop_tokenizer *tok, dop_buf *out);
/* Loads a tokenizer from its binary form. 8-byte aligned bytes are used in place and must outlive the tokenizer;
 * other bytes are copied. */
dop_status dop_tokenizer_from_blob(const void *bytes, size_t size, dop_diag *diag, dop_tokenizer **out_tok);

enum {
    DOP_ENCODE_ADD_SPECIAL = 1,   /* add the tokens that the definition puts around a text (BOS, EOS) */
    DOP_ENCODE_PARSE_SPECIAL = 2, /* map special tokens written in the text to their ids instead of plain text */
    DOP_ENCODE_ONCE = 4,          /* with ADD_SPECIAL: omit tokens that the text already begins or ends with */
    DOP_ENCODE_OPEN = 8,          /* with ADD_SPECIAL: add nothing after the text */
    /* Flags for prompts, and for conversations rendered with a chat template. */
    DOP_ENCODE_PROMPT = DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL | DOP_ENCODE_ONCE,
    DOP_ENCODE_CHAT = DOP_ENCODE_PROMPT | DOP_ENCODE_OPEN,
};

/* Appends the ids of a text of len bytes, which may contain NUL. Fails with DOP_E_INPUT and the byte offset if the
 * text is not valid UTF-8. On failure out_ids is unchanged. */
dop_status dop_tokenizer_encode(const dop_tokenizer *tok, const char *text, size_t len, unsigned flags, dop_diag *diag,
                                dop_ids *out_ids);
/* Encodes within a budget. The budget is charged for the steps of normalizer, regular expressions and vocabulary,
 * and for buffers while they are held. Fails with DOP_E_LIMIT when the budget is exhausted or a regular expression
 * exceeds its own limits. */
dop_status dop_tokenizer_encode_within(const dop_tokenizer *tok, const char *text, size_t len, unsigned flags,
                                       dop_budget *budget, dop_diag *diag, dop_ids *out_ids);

/* Appends the ids of a pair of texts, as cross-encoders expect them, including the tokens that the definition adds
 * around and between the two. *out_second: index in out_ids of the second text's first id. */
dop_status dop_tokenizer_encode_pair(const dop_tokenizer *tok, const char *first, size_t n_first, const char *second,
                                     size_t n_second, dop_budget *budget, dop_diag *diag, dop_ids *out_ids,
                                     size_t *out_second);

enum {
    DOP_DECODE_SKIP_SPECIAL = 1, /* omit the text of special tokens */
    /* The ids continue an earlier text. Keeps the leading space, which SentencePiece vocabularies drop at the start
     * of a text. */
    DOP_DECODE_CONTINUE = 2,
};

/* Streaming decoder: accepts ids one at a time and outputs complete characters only. Replaces each maximal
 * ill-formed byte sequence with U+FFFD. Plain data with nothing to free; the tokenizer must outlive it. */
typedef struct dop_text_stream {
    const dop_tokenizer *tok;
    unsigned flags;
    bool first;     /* true until the first token of the text was pushed */
    uint32_t strip; /* number of leading spaces still to drop */
    uint32_t held;  /* bytes in hold[], which is the start of an incomplete character */
    char hold[4];
} dop_text_stream;

void dop_text_stream_init(dop_text_stream *s, const dop_tokenizer *tok, unsigned flags);
/* Decodes one id and appends the characters that it completes. Fails with DOP_E_INPUT if the id is outside the
 * vocabulary. */
dop_status dop_text_stream_push(dop_text_stream *s, uint32_t id, dop_diag *diag, dop_buf *out);
/* Ends the text. Appends U+FFFD if a character is incomplete. */
void dop_text_stream_flush(dop_text_stream *s, dop_buf *out);

/* Decodes `count` ids and appends their text. */
dop_status dop_tokenizer_decode(const dop_tokenizer *tok, const uint32_t *ids, size_t count, unsigned flags,
                                dop_diag *diag, dop_buf *out);

uint32_t dop_tokenizer_vocab_size(const dop_tokenizer *tok); /* largest id + 1 */
/* Returns the bytes that a token adds to a text, possibly a part of a character. The bytes are not 0-terminated.
 * Returns NULL for an unknown id. */
const char *dop_tokenizer_piece(const dop_tokenizer *tok, uint32_t id, size_t *out_len);
/* Returns the token with exactly this text, or DOP_NO_TOKEN. Searches added tokens first, then the vocabulary. */
uint32_t dop_tokenizer_find(const dop_tokenizer *tok, const char *text, size_t len);
bool dop_tokenizer_is_special(const dop_tokenizer *tok, uint32_t id);
bool dop_tokenizer_is_end(const dop_tokenizer *tok, uint32_t id); /* true for end-of-generation ids */
uint32_t dop_tokenizer_bos(const dop_tokenizer *tok);             /* DOP_NO_TOKEN if there is no BOS */
uint32_t dop_tokenizer_eos(const dop_tokenizer *tok);
bool dop_tokenizer_adds_bos(const dop_tokenizer *tok); /* true if DOP_ENCODE_ADD_SPECIAL prepends BOS */
/* Returns all end-of-generation ids, ascending. The tokenizer owns the array. */
const uint32_t *dop_tokenizer_end_ids(const dop_tokenizer *tok, size_t *out_count);
/* Returns the text of the model's chat template, not 0-terminated, or NULL if the model has none. */
const char *dop_tokenizer_chat_template(const dop_tokenizer *tok, size_t *out_len);

#endif
