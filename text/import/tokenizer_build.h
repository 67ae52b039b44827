/* A tokenizer under construction: importers fill in its facts, and dop_tok_build_finish() turns them into the binary form and a
 * tokenizer. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_BUILD_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_BUILD_H

#include "text/import/tokenizer_files.h"
#include "text/tokenizer/tokenizer_internal.h"

typedef struct dop_tok_build_added {
    uint32_t id, flags; /* DOP_ADDED_* */
    bool normalized;    /* matched in normalized text; its text is normalized when the tokenizer is finished */
    dop_tok_str text;
} dop_tok_build_added;

/* Zero-initialize, then dop_tok_build_init.  Strings are copied into `strings`. */
typedef struct dop_tok_build {
    const char *path; /* for messages */
    uint32_t tokens;
    uint32_t flags; /* DOP_TOK_F_* */
    uint32_t bos, eos, unk, strip;
    uint32_t byte_ids[256];
    dop_tok_str *piece, *text; /* [tokens] in strings */
    uint8_t *token_flags;      /* [tokens] */
    uint32_t *ranks;           /* [tokens] or NULL */
    double *scores;            /* [tokens] or NULL; Unigram */
    dop_tok_model model;
    uint32_t
        word_max; /* WordPiece: characters of the longest word that is split into pieces; longer words are unknown */
    dop_tok_str joint; /* WordPiece: beginning of pieces that continue a word; BPE: ending of pieces that end one */
    double unk_score;
    dop_buf charsmap;      /* tokenizer_charsmap.h; empty: none */
    dop_tok_merge *merges; /* rank order; NULL when merging by score */
    size_t merge_count;
    bool first_merge_wins; /* of several merges of one pair the first counts; otherwise the last */
    dop_tok_build_added *added;
    size_t added_count, added_cap;
    dop_tok_op ops[64];
    uint32_t norm_ops, op_count;
    dop_ids prefix, suffix, middle,
        end_ids; /* middle: none where a pair is like two texts with one suffix between them */
    dop_buf strings;
    const char *chat; /* NULL: none */
    size_t chat_len;
} dop_tok_build;

dop_status dop_tok_build_init(dop_tok_build *b, const char *path, uint32_t tokens, dop_diag *diag);
void dop_tok_build_free(dop_tok_build *b);
dop_tok_str dop_tok_build_string(dop_tok_build *b, const char *s, size_t n);
dop_status dop_tok_build_op(dop_tok_build *b, dop_tok_op_kind kind, uint32_t flags, const char *a, size_t an,
                            const char *c, size_t cn, dop_diag *diag);
dop_status dop_tok_build_add(dop_tok_build *b, uint32_t id, uint32_t flags, bool normalized, const char *s, size_t n,
                             dop_diag *diag);
/* The id of a token by its text, looked up among added tokens, then pieces; DOP_TOK_NONE: there is none. */
uint32_t dop_tok_build_find(const dop_tok_build *b, const char *text, size_t n);
/* Sets BOS, EOS, end ids, what add_special adds, and the chat template, as far as facts know them. */
void dop_tok_build_facts(dop_tok_build *b, const dop_tokenizer_facts *facts);
/* Tokens of "added_tokens_decoder" in facts->config, for vocabularies whose own file does not hold them.
 * dop_tok_config_tokens says how many ids they need; dop_tok_config_add adds them. */
dop_status dop_tok_config_tokens(const dop_tokenizer_facts *facts, const char *path, dop_diag *diag,
                                 uint32_t *in_out_tokens);
dop_status dop_tok_config_add(dop_tok_build *b, const dop_tokenizer_facts *facts, dop_diag *diag);
/* Sets b->ranks from scores [tokens]: the best score has rank 0, equal scores have equal ranks. */
dop_status dop_tok_build_ranks(dop_tok_build *b, const double *scores, dop_diag *diag);
/* Vocabularies of byte strings with ranks (tokenizer_tiktoken.c), for which b->ranks [tokens] is allocated: adds the token `id`, a string of
 * bytes, with its rank; then sets merging by rank, and words split by one pattern; adds a special token. */
dop_status dop_tok_ranks_token(dop_tok_build *b, uint32_t id, uint32_t rank, const char *s, size_t n, dop_diag *diag);
dop_status dop_tok_ranks_pattern(dop_tok_build *b, const char *pattern, size_t n, dop_diag *diag);
dop_status dop_tok_ranks_special(dop_tok_build *b, uint32_t id, const char *text, size_t n, dop_diag *diag);
/* Adds the ops of BERT's normalizer. */
dop_status dop_tok_build_bert(dop_tok_build *b, bool clean, bool chinese, bool accents, bool lower, dop_diag *diag);
/* Adds the ops that split text into words as BERT does: at white space, and each punctuation mark by itself. */
dop_status dop_tok_build_bert_words(dop_tok_build *b, dop_diag *diag);
/* Checks b->charsmap. */
dop_status dop_tok_build_charsmap(dop_tok_build *b, dop_diag *diag);
/* Makes the tokenizer.  The build cannot be used afterwards, but must still be freed. */
dop_status dop_tok_build_finish(dop_tok_build *b, dop_diag *diag, dop_tokenizer **out_tok);

/* Writes the trie of the model's pieces as three sections of the binary form. */
dop_status dop_tok_build_trie(const dop_tok_build *b, dop_diag *diag, dop_buf *first, dop_buf *label, dop_buf *token);

/* The byte that a token "<0xNN>" stands for; -1: it is no such token. */
int dop_tok_byte_token(const char *s, size_t n);

/* The split pattern of GPT-2, which ByteLevel uses unless told otherwise. */
extern const char dop_tok_gpt2_pattern[];
/* The pattern of one punctuation mark, as Hugging Face's tokenizers define it. */
extern const char dop_tok_punctuation[];

#endif
