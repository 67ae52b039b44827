/* Tokenizer under construction. Importers fill in its fields; dop_tok_build_finish() creates the binary form and
 * loads it. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_BUILD_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_BUILD_H

#include "text/import/tokenizer_files.h"
#include "text/tokenizer/tokenizer_internal.h"

typedef struct dop_tok_build_added {
    uint32_t id, flags; /* DOP_ADDED_* bits */
    bool normalized;    /* true if matched in normalized text; dop_tok_build_finish() normalizes `text` */
    dop_tok_str text;
} dop_tok_build_added;

/* Zero-initialize, then call dop_tok_build_init(). Texts are copied into `strings`. */
typedef struct dop_tok_build {
    const char *path; /* source file, for messages */
    uint32_t tokens;
    uint32_t flags; /* DOP_TOK_F_* bits */
    uint32_t bos, eos, unk, strip;
    uint32_t byte_ids[256];
    dop_tok_str *piece, *text; /* [tokens] ranges in `strings` */
    uint8_t *token_flags;      /* [tokens] DOP_TOKEN_* bits */
    uint32_t *ranks;           /* [tokens] merge priority, 0 is the best; NULL with a merge table */
    double *scores;            /* [tokens] log probabilities (Unigram); otherwise NULL */
    dop_tok_model model;
    uint32_t word_max; /* WordPiece: maximum characters of a word, longer words become unknown */
    dop_tok_str joint; /* WordPiece: prefix of continuing pieces; BPE: suffix of word-final pieces */
    double unk_score;
    dop_buf charsmap;      /* see tokenizer_charsmap.h; empty if there is none */
    dop_tok_merge *merges; /* in rank order; NULL when merging by score */
    size_t merge_count;
    bool first_merge_wins; /* true if the first of several merges of a pair counts; false if the last does */
    dop_tok_build_added *added;
    size_t added_count, added_cap;
    dop_tok_op ops[64];
    uint32_t norm_ops, op_count;
    dop_ids prefix, suffix, middle, end_ids; /* middle: empty if a pair is written with one suffix between its texts */
    dop_buf strings;
    const char *chat; /* chat template; NULL if there is none */
    size_t chat_len;
} dop_tok_build;

dop_status dop_tok_build_init(dop_tok_build *b, const char *path, uint32_t tokens, dop_diag *diag);
void dop_tok_build_free(dop_tok_build *b);
dop_tok_str dop_tok_build_string(dop_tok_build *b, const char *s, size_t n);
dop_status dop_tok_build_op(dop_tok_build *b, dop_tok_op_kind kind, uint32_t flags, const char *a, size_t an,
                            const char *c, size_t cn, dop_diag *diag);
dop_status dop_tok_build_add(dop_tok_build *b, uint32_t id, uint32_t flags, bool normalized, const char *s, size_t n,
                             dop_diag *diag);
/* Returns the id of the token with this text, or DOP_TOK_NONE. Searches added tokens first, then pieces. */
uint32_t dop_tok_build_find(const dop_tok_build *b, const char *text, size_t n);
/* Sets BOS, EOS, end ids, the prefix and suffix, and the chat template from the facts that are known. */
void dop_tok_build_facts(dop_tok_build *b, const dop_tokenizer_facts *facts);
/* Handle "added_tokens_decoder" of facts->config, for vocabularies whose own file omits these tokens.
 * dop_tok_config_tokens() raises *in_out_tokens to cover their ids; dop_tok_config_add() adds the tokens. */
dop_status dop_tok_config_tokens(const dop_tokenizer_facts *facts, const char *path, dop_diag *diag,
                                 uint32_t *in_out_tokens);
dop_status dop_tok_config_add(dop_tok_build *b, const dop_tokenizer_facts *facts, dop_diag *diag);
/* Sets b->ranks from scores [tokens]. The best score has rank 0; equal scores have equal ranks. */
dop_status dop_tok_build_ranks(dop_tok_build *b, const double *scores, dop_diag *diag);
/* Build vocabularies of ranked byte strings (tokenizer_tiktoken.c). b->ranks [tokens] must be allocated. _token adds
 * one byte string with its rank; _pattern then selects merging by rank and the split pattern; _special adds a
 * special token. */
dop_status dop_tok_ranks_token(dop_tok_build *b, uint32_t id, uint32_t rank, const char *s, size_t n, dop_diag *diag);
dop_status dop_tok_ranks_pattern(dop_tok_build *b, const char *pattern, size_t n, dop_diag *diag);
dop_status dop_tok_ranks_special(dop_tok_build *b, uint32_t id, const char *text, size_t n, dop_diag *diag);
/* Adds the ops of BERT's normalizer. Each flag enables one step. */
dop_status dop_tok_build_bert(dop_tok_build *b, bool clean, bool chinese, bool accents, bool lower, dop_diag *diag);
/* Adds the ops of BERT's pre-tokenizer: splits at white space and isolates each punctuation mark. */
dop_status dop_tok_build_bert_words(dop_tok_build *b, dop_diag *diag);
/* Checks the content of b->charsmap. */
dop_status dop_tok_build_charsmap(dop_tok_build *b, dop_diag *diag);
/* Creates the tokenizer. Afterwards the build is unusable, but must still be freed. */
dop_status dop_tok_build_finish(dop_tok_build *b, dop_diag *diag, dop_tokenizer **out_tok);

/* Appends the trie of the model's pieces as three sections of the binary form. */
dop_status dop_tok_build_trie(const dop_tok_build *b, dop_diag *diag, dop_buf *first, dop_buf *label, dop_buf *token);

/* Returns the byte value of a token "<0xNN>", or -1 for other tokens. */
int dop_tok_byte_token(const char *s, size_t n);

/* GPT-2's split pattern, the default of ByteLevel. */
extern const char dop_tok_gpt2_pattern[];
/* Pattern of one punctuation mark, as Hugging Face's tokenizers define it. */
extern const char dop_tok_punctuation[];

#endif
