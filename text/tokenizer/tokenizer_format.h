/* The tokenizer's binary form: a header with a table of sections, then the sections, aligned to 8 bytes.
 * Little-endian.
 *
 * All references are indices or byte offsets into sections of the same blob, so the loader only checks ranges. Hash
 * tables are stored ready to use; therefore dop_tok_hash_* below are part of the format. */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_FORMAT_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the tokenizer's tables are used in place and are little-endian"
#endif

#define DOP_TOK_MAGIC "DOPTOKEN"
#define DOP_TOK_VERSION 2u
#define DOP_TOK_MAX_TOKENS (1u << 22) /* 4 Mi tokens: several times the largest published vocabulary */
#define DOP_TOK_MAX_PIECE 1024u   /* maximum bytes of a piece in a trie; bounds the encoding time per byte of text */
#define DOP_TOK_MAX_REPLACED 256u /* maximum bytes of a charsmap replacement */
#define DOP_TOK_MAX_JOINT 32u     /* maximum bytes of BPE's end-of-word mark */
#define DOP_TOK_NONE UINT32_MAX

/* Sections of a blob, in file order: X(name, element type). */
#define DOP_TOK_SECTIONS(X)                                                                                        \
    X(piece_off, uint32_t)   /* [tokens + 1] offsets into piece_bytes */                                           \
    X(piece_bytes, char)     /* piece texts: raw bytes (byte-level) or UTF-8 with U+2581 for a space */            \
    X(text_off, uint32_t)    /* [tokens + 1] offsets into text_bytes */                                            \
    X(text_bytes, char)      /* texts that the tokens decode to */                                                 \
    X(token_flags, uint8_t)  /* [tokens] DOP_TOKEN_* bits */                                                       \
    X(vocab_hash, uint32_t)  /* piece -> id: open addressing, linear probing, at least one empty slot */           \
    X(merges, dop_tok_merge) /* pair -> rank and result: linear probing, at least one empty slot */                \
    X(ranks, uint32_t)       /* [tokens] merge priority by score, 0 is the best; empty with a merge table */       \
    X(scores, double)        /* [tokens] Unigram: log probability of a piece; otherwise empty */                   \
    X(trie_first, uint32_t)  /* [nodes + 1] first child of a node; its children end at the next entry */           \
    X(trie_label, uint8_t)   /* [nodes] byte on the edge to a node; ascending among siblings */                    \
    X(trie_token, uint32_t)  /* [nodes] token whose piece ends at a node, or DOP_TOK_NONE */                       \
    X(charsmap, char)        /* SentencePiece's character normalization rules (tokenizer_charsmap.h) */            \
    X(byte_ids, uint32_t)    /* [256] token of each byte value, or DOP_TOK_NONE */                                 \
    X(added, dop_tok_added)  /* added tokens: matched in raw text first, then those in normalized text, each     \
                                   group in bytewise order */ \
    X(ops, dop_tok_op)       /* normalizer steps, then pre-tokenizer steps */                                      \
    X(strings, char)         /* texts that `added`, `ops` and the header refer to */                               \
    X(prefix, uint32_t)      /* ids that ADD_SPECIAL prepends to a text */                                         \
    X(suffix, uint32_t)      /* ids that ADD_SPECIAL appends to a text */                                          \
    X(middle, uint32_t)      /* ids between the texts of a pair; if empty, the suffix ids */                       \
    X(end_ids, uint32_t)     /* ids that end generation, ascending */                                              \
    X(chat, char)            /* the model's chat template (Jinja) */

typedef enum dop_tok_section {
#define X(name, type) DOP_TOK_S_##name,
    DOP_TOK_SECTIONS(X)
#undef X
        DOP_TOK_S_COUNT
} dop_tok_section;

/* Algorithm that encodes a word. */
typedef enum dop_tok_model {
    DOP_TOK_BPE = 0,
    DOP_TOK_UNIGRAM,   /* most probable sequence of pieces (Viterbi); needs trie and scores */
    DOP_TOK_WORDPIECE, /* greedy longest match from the start of the word; needs the trie */
    DOP_TOK_MODEL_COUNT,
} dop_tok_model;

typedef struct dop_tok_str {
    uint32_t offset, bytes; /* position in section `strings` and length in bytes */
} dop_tok_str;

typedef struct dop_tok_header {
    char magic[8];
    uint32_t version;
    uint32_t flags; /* DOP_TOK_F_* bits */
    uint64_t size;  /* size of the whole blob in bytes */
    uint32_t tokens;
    uint32_t added_raw; /* number of added tokens matched before normalization, the first ones in `added` */
    uint32_t norm_ops;  /* number of normalizer steps, the first ones in `ops` */
    uint32_t bos, eos, unk;
    uint32_t strip;    /* maximum number of leading spaces that decoding drops */
    uint32_t model;    /* a dop_tok_model */
    uint32_t word_max; /* WordPiece: maximum characters of a word, longer words become the unknown token; 0: no limit */
    /* WordPiece: prefix of pieces that continue a word, such as "##". BPE: suffix of pieces that end a word, such as
     * "</w>". */
    dop_tok_str joint;
    uint32_t reserved; /* must be 0 */
    double unk_score;  /* Unigram: score of a character without a piece */
    /* With DOP_TOK_F_SEAMS: bit b is set if some merge joins byte b to a following U+2581. Words must not be cut
     * there. */
    uint8_t seam[32];
    struct {
        uint64_t offset; /* bytes from the start of the blob; a multiple of 8 */
        uint64_t bytes;
    } section[DOP_TOK_S_COUNT];
} dop_tok_header;

enum {
    DOP_TOK_F_BYTE_LEVEL = 1,    /* BPE starts from bytes instead of characters */
    DOP_TOK_F_BYTE_FALLBACK = 2, /* characters without a token become byte tokens */
    DOP_TOK_F_FUSE_UNK = 4,      /* consecutive unknown characters share one unknown token */
    DOP_TOK_F_IGNORE_MERGES = 8, /* a word that is itself a token is not split */
    DOP_TOK_F_BY_SCORE = 16,     /* merge order by score of the result (SentencePiece) instead of by pair table */
    DOP_TOK_F_SEAMS = 32,        /* words may be cut before U+2581 unless the header's `seam` forbids it */
    DOP_TOK_F_GGUF_MATCH = 64,   /* llama.cpp's matching of added tokens: ignored special tokens do not hide others;
                                  * strips only ASCII white space */
    DOP_TOK_F_HAS_CHAT = 128,
    DOP_TOK_F_USER_DEFINED = 256, /* some tokens have DOP_TOKEN_USER_DEFINED; needs the trie */
    DOP_TOK_F_FLOAT_SCORES = 512, /* Unigram: rounds sums of scores to float, as SentencePiece does */
    DOP_TOK_F_FIRST_TRIM = 1024,  /* the first token of a text decodes without its spaces */
    /* Decoding drops one leading space of each token until a token leaves text. */
    DOP_TOK_F_STRIP_EACH = 2048,
    DOP_TOK_F_LINES = 4096, /* IGNORE_MERGES only for words that consist of line feeds */
    DOP_TOK_F_ALL = 8191,
};

enum {
    DOP_TOKEN_SPECIAL = 1,      /* control token: omitted from output, matched in text only with PARSE_SPECIAL */
    DOP_TOKEN_MODEL = 2,        /* member of the model's vocabulary and of vocab_hash */
    DOP_TOKEN_USED = 4,         /* the id is assigned */
    DOP_TOKEN_USER_DEFINED = 8, /* matched unnormalized wherever its piece occurs in a text */
    /* WordPiece: continues a word. At the start of a text it decodes with the header's `joint` prepended. */
    DOP_TOKEN_GOES_ON = 16,
};

typedef struct dop_tok_merge {
    uint32_t a, b; /* the pair; a == DOP_TOK_NONE marks an empty slot */
    uint32_t rank; /* lower ranks merge first */
    uint32_t id;   /* resulting token */
} dop_tok_merge;

typedef struct dop_tok_added {
    uint32_t id;
    uint32_t flags; /* DOP_ADDED_* bits */
    dop_tok_str text;
} dop_tok_added;

enum {
    DOP_ADDED_LSTRIP = 1,      /* the match includes white space on its left */
    DOP_ADDED_RSTRIP = 2,      /* the match includes white space on its right */
    DOP_ADDED_SINGLE_WORD = 4, /* matches only where no word character is adjacent */
    DOP_ADDED_SPECIAL = 8,
};

/* One step of the normalizer or the pre-tokenizer. */
typedef struct dop_tok_op {
    uint32_t kind;  /* a dop_tok_op_kind */
    uint32_t flags; /* meaning depends on `kind` */
    dop_tok_str a, b;
} dop_tok_op;

/* Kinds of steps, each with the meaning of its texts a and b and of its flags. */
typedef enum dop_tok_op_kind {
    DOP_OP_NFC = 0,
    DOP_OP_NFD,
    DOP_OP_NFKC,
    DOP_OP_NFKD,
    DOP_OP_LOWERCASE,
    DOP_OP_STRIP_ACCENTS, /* drops nonspacing marks; with flag 1 all marks */
    DOP_OP_STRIP,         /* drops white space; flags: 1 left, 2 right */
    DOP_OP_REPLACE,       /* replaces literal a with b */
    DOP_OP_REPLACE_REGEX, /* replaces matches of pattern a with literal b */
    DOP_OP_PREPEND,       /* prepends a to a nonempty text; flag 1: unless it starts with a; flag 2: only at offset 0 */
    DOP_OP_SPLIT,         /* splits at literal a; flags: a dop_tok_split, 16 = inverted */
    DOP_OP_SPLIT_REGEX,   /* splits at matches of pattern a; flags: as for DOP_OP_SPLIT */
    DOP_OP_BERT_CLEAN,    /* drops control characters and replaces all white space with a space */
    DOP_OP_BERT_CHINESE,  /* puts spaces around Chinese characters */
    DOP_OP_CHARSMAP,      /* applies the charsmap grapheme by grapheme, as Hugging Face's Precompiled does */
    DOP_OP_SENTENCEPIECE, /* SentencePiece's own normalizer; flags: DOP_SP_* */
    /* LETTERS replaces each byte with its letter in GPT-2's byte alphabet, so that splits match letters. BYTES
     * reverts this and must be the last op. */
    DOP_OP_LETTERS,
    DOP_OP_BYTES,
    DOP_TOK_OP_COUNT,
} dop_tok_op_kind;

enum { DOP_PREPEND_MISSING = 1, DOP_PREPEND_FIRST = 2, DOP_SPLIT_INVERT = 16, DOP_ACCENTS_ALL = 1 };

enum {
    DOP_SP_MERGE_SPACES = 1, /* drops spaces at both ends and collapses runs of spaces */
    DOP_SP_PREFIX = 2,       /* prepends a space to the text */
    DOP_SP_ESCAPE = 4,       /* replaces spaces with U+2581 */
    DOP_SP_SUFFIX = 8,       /* DOP_SP_PREFIX appends the space instead of prepending it */
    DOP_SP_CHARSMAP = 16,    /* applies the charsmap, longest rule first */
    DOP_SP_ALL = 31,
};

typedef enum dop_tok_split {
    DOP_SPLIT_REMOVED = 0,
    DOP_SPLIT_ISOLATED,
    DOP_SPLIT_MERGED_WITH_PREVIOUS,
    DOP_SPLIT_MERGED_WITH_NEXT,
    DOP_SPLIT_CONTIGUOUS,
    DOP_SPLIT_COUNT,
} dop_tok_split;

/* Finalizer of MurmurHash3 (public domain, Austin Appleby): each input bit affects each output bit. */
static inline uint64_t
dop_tok_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

static inline uint64_t
dop_tok_hash_bytes(const char *s, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15ull, w;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0x9fb21c651e98df25ull;
        h ^= h >> 32;
    }
    w = 0;
    for (size_t i = 0; i < n; i++)
        w |= (uint64_t)(uint8_t)s[i] << (8 * i);
    return dop_tok_mix(h ^ w);
}

/* Returns the first slot to probe for a hash in a table of `slots` (at most 2^32) slots. */
static inline uint32_t
dop_tok_slot(uint64_t hash, uint64_t slots)
{
    return (uint32_t)(((hash >> 32) * slots) >> 32);
}

static inline uint64_t
dop_tok_hash_pair(uint32_t a, uint32_t b)
{
    return dop_tok_mix((uint64_t)a << 32 | b);
}

#endif
