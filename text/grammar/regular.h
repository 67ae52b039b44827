/* Regular languages over characters, as terms with Brzozowski derivatives (1964). The texts that may follow a
 * character form a term again, so intersection and complement are plain operators. Equal terms exist only once (hash
 * consing). dop_regular_emit() converts a term to a deterministic automaton with one state per derivative. */
#ifndef DOPPLER_TEXT_GRAMMAR_REGULAR_H
#define DOPPLER_TEXT_GRAMMAR_REGULAR_H

#include "text/grammar/automaton.h"

typedef uint32_t dop_term; /* index of a term; 0: the empty language */

enum { DOP_TERM_NONE = 0, DOP_TERM_EMPTY = 1, DOP_TERM_ANY = 2 /* all texts */, DOP_TERM_ONE = 3 /* any character */ };

typedef enum dop_term_kind {
    DOP_TERM_NOTHING, /* the empty language */
    DOP_TERM_EPSILON, /* the empty text */
    DOP_TERM_SET,     /* one character of the set sets[a] */
    DOP_TERM_CAT,     /* concatenation: a text of term a, then one of term b */
    DOP_TERM_ALT,
    DOP_TERM_AND,
    DOP_TERM_NOT,
    DOP_TERM_REPEAT,   /* repetition: texts of term a, min to max times */
    DOP_TERM_WORDS,    /* words min to max - 1 of words[a], each without its first b bytes */
    DOP_TERM_MULTIPLE, /* decimal multiples of a / 10^b; see regular_number.c */
    DOP_TERM_COMPARE   /* decimal numbers at least, or at most, bounds[a]; see regular_number.c */
} dop_term_kind;

typedef struct dop_term_node {
    uint8_t kind;
    bool nullable; /* true if the language contains the empty text */
    bool plain;    /* true if the term and its operands contain no AND, NOT, WORDS or number terms */
    uint32_t a, b, min, max;
    uint32_t chain; /* next term in the same hash bucket */
} dop_term_node;

/* Word list of a DOP_TERM_WORDS. */
typedef struct dop_words {
    const char **words; /* [n] owned array sorted bytewise; the texts are not owned */
    size_t n;
} dop_words;

/* Bound for non-negative decimal numbers: its digits before and after the point. */
typedef struct dop_decimal {
    char whole[24], part[24];
    bool at_least; /* true for a lower bound, false for an upper bound */
    bool strict;   /* true if the bound itself is excluded */
} dop_decimal;

typedef struct dop_regular {
    dop_term_node *terms; /* [n_terms] owned */
    dop_charset *sets;    /* [n_sets] owned; ranges sorted, without overlaps */
    dop_words *words;     /* [n_words] owned word lists */
    dop_decimal *bounds;  /* [n_bounds] owned number bounds */
    size_t n_terms, cap_terms, n_sets, cap_sets, n_words, cap_words, n_bounds, cap_bounds;
    uint32_t *heads; /* [n_heads] owned, size a power of 2: hash table of terms, the first of each bucket */
    size_t n_heads;
    dop_budget *budget; /* not owned; NULL: no limits */
    uint32_t depth;
    /* Computes the derivative of a number term; set by regular_number.c when it creates one. */
    dop_term (*derive_number)(struct dop_regular *r, const dop_term_node *n, uint32_t c);
    bool failed;  /* true after an allocation failure */
    bool limited; /* true if the budget is exhausted or a term is nested too deeply */
} dop_regular;

void dop_regular_init(dop_regular *r, dop_budget *budget);
void dop_regular_finish(dop_regular *r);

dop_term dop_regular_set(dop_regular *r, const dop_charset *set);
dop_term dop_regular_cat(dop_regular *r, dop_term a, dop_term b);
dop_term dop_regular_alt(dop_regular *r, dop_term a, dop_term b);
dop_term dop_regular_and(dop_regular *r, dop_term a, dop_term b);
dop_term dop_regular_not(dop_regular *r, dop_term a);
/* Returns the term of texts of term a, repeated min to max times; max DOP_AUTO_MANY: unlimited. */
dop_term dop_regular_repeat(dop_regular *r, dop_term a, uint32_t min, uint32_t max);
dop_term dop_regular_text(dop_regular *r, const char *text, size_t n);
/* Returns the term of a list of words, which is sorted in place. Takes ownership of the list but not of its words.
 * The words must be valid UTF-8 and outlive the term. */
dop_term dop_regular_words(dop_regular *r, const char **words, size_t n);
/* Returns the term of unsigned decimal numbers that are multiples of `of` / 10^places and have at most `places`
 * digits after the point. */
dop_term dop_regular_multiple(dop_regular *r, uint32_t of, uint32_t places);
dop_term dop_regular_compare(dop_regular *r, const dop_decimal *bound);

bool dop_regular_nullable(const dop_regular *r, dop_term t);
dop_term dop_regular_derive(dop_regular *r, dop_term t, uint32_t c);
/* Adds the border characters of a term: its derivative is the same for all characters between two adjacent borders. */
void dop_regular_borders(dop_regular *r, dop_term t, dop_charset *io_borders);
/* Returns the term of a node, creating it unless an equal term exists. For regular_number.c. */
dop_term dop_regular_node(dop_regular *r, dop_term_node node);

/* How an automaton spells characters of a set. */
typedef struct dop_spelling {
    /* returns the rule for one character of a set without plain characters; the caller keeps the set */
    uint32_t (*rule)(void *user, const dop_charset *set);
    void *user;
    dop_charset plain; /* ASCII characters that are written unescaped */
} dop_spelling;

/* Adds a term's texts to an automaton, from one state to another. Fails with DOP_E_LIMIT, adding nothing, if the
 * term needs more than `most` states. Fails with DOP_E_INPUT if the term has no text. */
dop_status dop_regular_emit(dop_regular *r, dop_term t, size_t most, const dop_spelling *how, dop_auto *a,
                            uint32_t from, uint32_t to, dop_diag *diag);

#endif
