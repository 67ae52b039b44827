/* The tokenizer's binary form: a header, a table of sections, sections aligned to 8 bytes; little-endian.
 *
 * Everything is an index or a byte offset into a section of the same blob, so the loader only has to check ranges.
 * Hash tables are stored ready to use; dop_tok_hash_* below are therefore part of the format. */
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
#define DOP_TOK_MAX_TOKENS (1u << 22) /* 4 M: several times the largest published vocabulary */
#define DOP_TOK_MAX_PIECE 1024u /* bytes of a piece where pieces are found by trie: bounds the time per byte of text */
#define DOP_TOK_MAX_REPLACED 256u /* bytes that a rule of the charsmap writes */
#define DOP_TOK_MAX_JOINT 32u     /* bytes of the mark that BPE puts behind a word */
#define DOP_TOK_NONE UINT32_MAX

/* The sections of a blob in their order, as X(name, element type). */
#define DOP_TOK_SECTIONS(X)                                                                                           \
    X(piece_off, uint32_t)   /* [tokens + 1] offsets into piece_bytes */                                              \
    X(piece_bytes, char)     /* texts of the pieces: raw bytes (byte-level) or UTF-8, U+2581 for a space */           \
    X(text_off, uint32_t)    /* [tokens + 1] offsets into text_bytes */                                               \
    X(text_bytes, char)      /* texts that tokens decode to */                                                        \
    X(token_flags, uint8_t)  /* [tokens] DOP_TOKEN_* */                                                               \
    X(vocab_hash, uint32_t)  /* piece -> id, linear probing, at least one slot empty */                               \
    X(merges, dop_tok_merge) /* pair -> rank and result, linear probing, at least one slot empty */                   \
    X(ranks, uint32_t)       /* [tokens] for merging by score: 0 is the best score; empty otherwise */                \
    X(scores, double)        /* [tokens] Unigram: logarithm of a piece's probability; empty otherwise */              \
    X(trie_first, uint32_t)  /* [nodes + 1] children of node i are the nodes [i] to [i + 1]; node 0 is the root */    \
    X(trie_label, uint8_t)   /* [nodes] byte that leads to a node; ascending among the children of a node */          \
    X(trie_token, uint32_t)  /* [nodes] token whose piece ends at a node, DOP_TOK_NONE if none */                     \
    X(charsmap, char)        /* rules that rewrite characters, in the form of SentencePiece (tokenizer_charsmap.h) */ \
    X(byte_ids, uint32_t)    /* [256] token of a byte, DOP_TOK_NONE if none */                                        \
    X(added, dop_tok_added)  /* added tokens: matched in raw text first, then those in normalized text, each     \
                                   group in bytewise order */    \
    X(ops, dop_tok_op)       /* normalizer, then pre-tokenizer */                                                     \
    X(strings, char)         /* the texts that added and ops refer to */                                              \
    X(prefix, uint32_t)      /* ids that ADD_SPECIAL puts in front of a text */                                       \
    X(suffix, uint32_t)      /* ids that ADD_SPECIAL puts behind a text */                                            \
    X(middle, uint32_t)      /* ids between the two texts of a pair; none: the ids of suffix */                       \
    X(end_ids, uint32_t)     /* ids that end generation, ascending */                                                 \
    X(chat, char)            /* chat template */

typedef enum dop_tok_section {
#define X(name, type) DOP_TOK_S_##name,
    DOP_TOK_SECTIONS(X)
#undef X
        DOP_TOK_S_COUNT
} dop_tok_section;

/* The algorithm by which a word becomes tokens. */
typedef enum dop_tok_model {
    DOP_TOK_BPE = 0,
    DOP_TOK_UNIGRAM,   /* the most probable sequence of pieces; needs trie and scores */
    DOP_TOK_WORDPIECE, /* the longest piece that the rest of the word begins with; needs the trie */
    DOP_TOK_MODEL_COUNT,
} dop_tok_model;

typedef struct dop_tok_str {
    uint32_t offset, bytes; /* place of the text in section strings, bytes */
} dop_tok_str;

typedef struct dop_tok_header {
    char magic[8];
    uint32_t version;
    uint32_t flags; /* DOP_TOK_F_* */
    uint64_t size;  /* bytes of the whole blob */
    uint32_t tokens;
    uint32_t added_raw; /* number of added tokens, the first ones, that are matched before normalization */
    uint32_t norm_ops;  /* number of ops, the first ones, that belong to the normalizer */
    uint32_t bos, eos, unk;
    uint32_t strip;    /* leading spaces that decoding drops */
    uint32_t model;    /* dop_tok_model */
    uint32_t word_max; /* WordPiece: most characters of a word; longer words become the unknown token; 0: no limit */
    /* WordPiece: prefix of pieces that continue a word, as "##"; BPE: suffix of pieces that end a word, as "</w>". */
    dop_tok_str joint;
    uint32_t reserved; /* 0 */
    double unk_score;  /* Unigram: score of a character that no piece has */
    /* With DOP_TOK_F_SEAMS: bit b is set when some merge joins byte b to a following U+2581, so that no word is cut between the two. */
    uint8_t seam[32];
    struct {
        uint64_t offset; /* from the start of the blob, multiple of 8 */
        uint64_t bytes;
    } section[DOP_TOK_S_COUNT];
} dop_tok_header;

enum {
    DOP_TOK_F_BYTE_LEVEL = 1,    /* BPE starts from bytes; otherwise from characters */
    DOP_TOK_F_BYTE_FALLBACK = 2, /* characters without a token become byte tokens */
    DOP_TOK_F_FUSE_UNK = 4,      /* consecutive unknown characters become one unknown token */
    DOP_TOK_F_IGNORE_MERGES = 8, /* a word that is a token is that token */
    DOP_TOK_F_BY_SCORE = 16,     /* merge by score of the result (SentencePiece), not by pair table */
    DOP_TOK_F_SEAMS = 32,        /* words may be cut before U+2581 where the header's `seam` allows it */
    DOP_TOK_F_GGUF_MATCH = 64,   /* added tokens as llama.cpp finds them: special ones that may not be parsed do not
                                  hide others, and only ASCII white space is stripped */
    DOP_TOK_F_HAS_CHAT = 128,
    DOP_TOK_F_USER_DEFINED = 256, /* some tokens are DOP_TOKEN_USER_DEFINED; needs the trie */
    DOP_TOK_F_FLOAT_SCORES = 512, /* Unigram: sums of scores are rounded to float, as in SentencePiece */
    DOP_TOK_F_FIRST_TRIM = 1024,  /* the first token of a text decodes without its spaces */
    /* Decoding drops one space of each leading token, up to the first token that leaves text. */
    DOP_TOK_F_STRIP_EACH = 2048,
    DOP_TOK_F_LINES = 4096, /* as IGNORE_MERGES, for words of line feeds only */
    DOP_TOK_F_ALL = 8191,
};

enum {
    DOP_TOKEN_SPECIAL = 1,      /* control token: skipped in output, matched in text only with PARSE_SPECIAL */
    DOP_TOKEN_MODEL = 2,        /* the token is in the model's vocabulary and in vocab_hash */
    DOP_TOKEN_USED = 4,         /* the id exists */
    DOP_TOKEN_USER_DEFINED = 8, /* wherever its piece stands in a text, it is this token, unnormalized */
    /* WordPiece: continues a word; at the start of a text it decodes with the header's `joint` in front */
    DOP_TOKEN_GOES_ON = 16,
};

typedef struct dop_tok_merge {
    uint32_t a, b; /* a == DOP_TOK_NONE: empty slot */
    uint32_t rank; /* lower goes first */
    uint32_t id;   /* the result */
} dop_tok_merge;

typedef struct dop_tok_added {
    uint32_t id;
    uint32_t flags; /* DOP_ADDED_* */
    dop_tok_str text;
} dop_tok_added;

enum {
    DOP_ADDED_LSTRIP = 1,      /* the white space on its left belongs to the match */
    DOP_ADDED_RSTRIP = 2,      /* the white space on its right belongs to the match */
    DOP_ADDED_SINGLE_WORD = 4, /* only where no word character touches it */
    DOP_ADDED_SPECIAL = 8,
};

/* One step of the normalizer or the pre-tokenizer. */
typedef struct dop_tok_op {
    uint32_t kind;  /* dop_tok_op_kind */
    uint32_t flags; /* meaning depends on kind */
    dop_tok_str a, b;
} dop_tok_op;

/* Kinds of steps; each comment says what the step does with its texts a and b and its flags. */
typedef enum dop_tok_op_kind {
    DOP_OP_NFC = 0,
    DOP_OP_NFD,
    DOP_OP_NFKC,
    DOP_OP_NFKD,
    DOP_OP_LOWERCASE,
    DOP_OP_STRIP_ACCENTS, /* drops nonspacing marks; flag 1: all marks */
    DOP_OP_STRIP,         /* flags: 1 left, 2 right */
    DOP_OP_REPLACE,       /* literal a by b */
    DOP_OP_REPLACE_REGEX, /* matches of a by literal b */
    DOP_OP_PREPEND,       /* a, unless the text is empty or (flag 1) starts with it; flag 2: only at offset 0 */
    DOP_OP_SPLIT,         /* at literal a; flags: dop_tok_split, 16 = inverted */
    DOP_OP_SPLIT_REGEX,   /* at matches of a; flags: as for DOP_OP_SPLIT */
    DOP_OP_BERT_CLEAN,    /* drops control characters, makes every white space a space */
    DOP_OP_BERT_CHINESE,  /* spaces around Chinese characters */
    DOP_OP_CHARSMAP,      /* rewrites by the charsmap, grapheme by grapheme, as Hugging Face's Precompiled does */
    DOP_OP_SENTENCEPIECE, /* SentencePiece's own normalizer; flags: DOP_SP_* */
    /* Bytes become the letters that stand for them in vocabularies of BPE from bytes, so that splits see these; and back, as the last op. */
    DOP_OP_LETTERS,
    DOP_OP_BYTES,
    DOP_TOK_OP_COUNT,
} dop_tok_op_kind;

enum { DOP_PREPEND_MISSING = 1, DOP_PREPEND_FIRST = 2, DOP_SPLIT_INVERT = 16, DOP_ACCENTS_ALL = 1 };

enum {
    DOP_SP_MERGE_SPACES = 1, /* drops spaces at both ends and all but one of a run */
    DOP_SP_PREFIX = 2,       /* a space in front of the text */
    DOP_SP_ESCAPE = 4,       /* spaces become U+2581 */
    DOP_SP_SUFFIX = 8,       /* the space of DOP_SP_PREFIX goes behind the text instead */
    DOP_SP_CHARSMAP = 16,    /* characters go through the charsmap, the longest rule first */
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

/* Finalizer of MurmurHash3 (public domain, Austin Appleby): every input bit reaches every output bit. */
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

/* The first slot to probe for a hash, in a table of `slots` (at most 2^32) slots. */
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
