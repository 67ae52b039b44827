/* Text to token ids and back: BPE (from bytes or from characters), Unigram and WordPiece.
 *
 * A tokenizer is made from the binary form that plans carry, which is also its form in memory: importers
 * (text/import/tokenizer_files.h) write it, the loader checks it and uses it in place.
 *
 * Time and memory are bounded by the text and the definition: encoding n bytes takes memory in proportion to n, and time
 * n log n (BPE) or n times the longest piece (Unigram and WordPiece, whose pieces have at most 1024 bytes), beside what
 * PCRE2 takes for the definition's regular expressions, which a budget bounds.  A normalizer may lengthen a text by a
 * factor of 256 at most.
 *
 * A dop_tokenizer is immutable; any number of threads may use one.
 */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_H

#include "base/budget.h"
#include "text/tokenizer/ids.h"

typedef struct dop_tokenizer dop_tokenizer;

#define DOP_NO_TOKEN UINT32_MAX

void dop_tokenizer_destroy(dop_tokenizer *tok);

/* Binary form (tokenizer_format.h).  Serializing appends it to out, deterministically. */
dop_status dop_tokenizer_serialize(const dop_tokenizer *tok, dop_buf *out);
/* The bytes must outlive the tokenizer and are used in place when 8-byte aligned, otherwise copied. */
dop_status dop_tokenizer_from_blob(const void *bytes, size_t size, dop_diag *diag, dop_tokenizer **out_tok);

enum {
    DOP_ENCODE_ADD_SPECIAL = 1,   /* add what the definition adds around a text (BOS, EOS) */
    DOP_ENCODE_PARSE_SPECIAL = 2, /* special tokens written in the text become that token, not plain text */
    DOP_ENCODE_ONCE = 4,          /* ADD_SPECIAL leaves out what the text itself begins or ends with */
    DOP_ENCODE_OPEN = 8,          /* ADD_SPECIAL adds nothing behind the text */
    /* Flags for prompts, and for conversations that a chat template wrote. */
    DOP_ENCODE_PROMPT = DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL | DOP_ENCODE_ONCE,
    DOP_ENCODE_CHAT = DOP_ENCODE_PROMPT | DOP_ENCODE_OPEN,
};

/* Appends the ids of a text of len bytes (any bytes, NUL included).  Text that is not valid UTF-8 is DOP_E_INPUT
 * naming the byte offset.  On failure out_ids holds what it held before. */
dop_status dop_tokenizer_encode(const dop_tokenizer *tok, const char *text, size_t len, unsigned flags, dop_diag *diag,
                                dop_ids *out_ids);
/* Encodes within a budget, which is charged for the steps of normalizer, regular expressions and vocabulary, and for the bytes of
 * their buffers while they are held.  DOP_E_LIMIT: the budget is exhausted, or a regular expression exceeds its own limits. */
dop_status dop_tokenizer_encode_within(const dop_tokenizer *tok, const char *text, size_t len, unsigned flags,
                                       dop_budget *budget, dop_diag *diag, dop_ids *out_ids);

/* Appends the ids of a pair of texts, as cross-encoders take them, with the tokens that the definition adds around and between the two.
 * *out_second: index in out_ids of the second text's first id, behind the tokens between the texts. */
dop_status dop_tokenizer_encode_pair(const dop_tokenizer *tok, const char *first, size_t n_first, const char *second,
                                     size_t n_second, dop_budget *budget, dop_diag *diag, dop_ids *out_ids,
                                     size_t *out_second);

enum {
    DOP_DECODE_SKIP_SPECIAL = 1, /* special tokens give no text */
    /* The ids continue an earlier text: the leading space is kept, which decoding with a SentencePiece vocabulary drops at the start of
     * a text. */
    DOP_DECODE_CONTINUE = 2,
};

/* Streaming decoder: takes ids one by one and gives complete characters only.  Bytes that cannot become valid UTF-8 become U+FFFD, one
 * for each maximal ill-formed part.  Plain data, nothing to free; the tokenizer must outlive it. */
typedef struct dop_text_stream {
    const dop_tokenizer *tok;
    unsigned flags;
    bool first;     /* the next token is the first of a text */
    uint32_t strip; /* leading spaces of the text that are still to be dropped */
    uint32_t held;  /* bytes in hold[]: the start of an incomplete character */
    char hold[4];
} dop_text_stream;

void dop_text_stream_init(dop_text_stream *s, const dop_tokenizer *tok, unsigned flags);
/* Decodes one more id and appends the characters that it completes.  An id outside the vocabulary is DOP_E_INPUT. */
dop_status dop_text_stream_push(dop_text_stream *s, uint32_t id, dop_diag *diag, dop_buf *out);
/* Ends the text: an incomplete character becomes U+FFFD. */
void dop_text_stream_flush(dop_text_stream *s, dop_buf *out);

/* Appends the text of count ids. */
dop_status dop_tokenizer_decode(const dop_tokenizer *tok, const uint32_t *ids, size_t count, unsigned flags,
                                dop_diag *diag, dop_buf *out);

uint32_t dop_tokenizer_vocab_size(const dop_tokenizer *tok); /* largest id + 1 */
/* The bytes that a token contributes to a text (perhaps a part of a character); not 0-terminated.  NULL for an unknown id. */
const char *dop_tokenizer_piece(const dop_tokenizer *tok, uint32_t id, size_t *out_len);
/* The token whose written form is this text (added tokens first, then vocabulary pieces); DOP_NO_TOKEN if none. */
uint32_t dop_tokenizer_find(const dop_tokenizer *tok, const char *text, size_t len);
bool dop_tokenizer_is_special(const dop_tokenizer *tok, uint32_t id);
bool dop_tokenizer_is_end(const dop_tokenizer *tok, uint32_t id); /* one of the end-of-generation ids */
uint32_t dop_tokenizer_bos(const dop_tokenizer *tok);             /* DOP_NO_TOKEN if there is none */
uint32_t dop_tokenizer_eos(const dop_tokenizer *tok);
bool dop_tokenizer_adds_bos(const dop_tokenizer *tok); /* does DOP_ENCODE_ADD_SPECIAL put BOS in front? */
/* All end-of-generation ids, ascending; owned by the tokenizer. */
const uint32_t *dop_tokenizer_end_ids(const dop_tokenizer *tok, size_t *out_count);
/* Text of the model's chat template, not 0-terminated; NULL if the model has none. */
const char *dop_tokenizer_chat_template(const dop_tokenizer *tok, size_t *out_len);

#endif
