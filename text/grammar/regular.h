/* Regular languages over characters, as terms with derivatives (Brzozowski 1964): what may follow a character is again a term, so
 * intersection and complement are plain operators.  Equal terms exist once (hash consing).  dop_regular_emit makes a deterministic
 * automaton of a term, whose states are the term's derivatives. */
#ifndef DOPPLER_TEXT_GRAMMAR_REGULAR_H
#define DOPPLER_TEXT_GRAMMAR_REGULAR_H

#include "text/grammar/automaton.h"

typedef uint32_t dop_term; /* index of a term; 0: no text at all */

enum { DOP_TERM_NONE = 0, DOP_TERM_EMPTY = 1, DOP_TERM_ANY = 2 /* all texts */, DOP_TERM_ONE = 3 /* any character */ };

typedef enum dop_term_kind {
    DOP_TERM_NOTHING, /* no text */
    DOP_TERM_EPSILON, /* the empty text */
    DOP_TERM_SET,     /* one character: a = index of a set */
    DOP_TERM_CAT,     /* a text of term a, then one of term b */
    DOP_TERM_ALT,
    DOP_TERM_AND,
    DOP_TERM_NOT,
    DOP_TERM_REPEAT,   /* texts of term a, min to max times */
    DOP_TERM_WORDS,    /* words number min to max - 1 of words[a], each from byte b on */
    DOP_TERM_MULTIPLE, /* a decimal number: multiples of a / 10^b; see regular_number.c */
    DOP_TERM_COMPARE   /* a decimal number: at least, or at most, the bound a; see regular_number.c */
} dop_term_kind;

typedef struct dop_term_node {
    uint8_t kind;
    bool nullable; /* the language has the empty text */
    bool plain;    /* the term and its parts are no AND, NOT, WORDS or numbers */
    uint32_t a, b, min, max;
    uint32_t chain; /* next term with the same hash */
} dop_term_node;

/* A list of words, for DOP_TERM_WORDS. */
typedef struct dop_words {
    const char **words; /* owned list of texts that are not owned, sorted by bytes */
    size_t n;
} dop_words;

/* A bound for decimal numbers that are not negative, as its digits before and behind the point. */
typedef struct dop_decimal {
    char whole[24], part[24];
    bool at_least; /* a lower bound; else an upper one */
    bool strict;   /* the bound itself is excluded */
} dop_decimal;

typedef struct dop_regular {
    dop_term_node *terms; /* owned */
    dop_charset *sets;    /* owned, in order and without overlaps */
    dop_words *words;     /* owned */
    dop_decimal *bounds;  /* owned */
    size_t n_terms, cap_terms, n_sets, cap_sets, n_words, cap_words, n_bounds, cap_bounds;
    uint32_t *heads; /* owned, [n_heads], a power of 2: hash table of terms, the first of each chain */
    size_t n_heads;
    dop_budget *budget; /* NULL: no limits */
    uint32_t depth;
    /* Computes the derivative of a number's term; regular_number.c sets it when it makes such a term. */
    dop_term (*derive_number)(struct dop_regular *r, const dop_term_node *n, uint32_t c);
    bool failed;  /* out of memory */
    bool limited; /* the budget is exhausted, or a term is nested too deeply */
} dop_regular;

void dop_regular_init(dop_regular *r, dop_budget *budget);
void dop_regular_finish(dop_regular *r);

dop_term dop_regular_set(dop_regular *r, const dop_charset *set);
dop_term dop_regular_cat(dop_regular *r, dop_term a, dop_term b);
dop_term dop_regular_alt(dop_regular *r, dop_term a, dop_term b);
dop_term dop_regular_and(dop_regular *r, dop_term a, dop_term b);
dop_term dop_regular_not(dop_regular *r, dop_term a);
/* Texts of term a, min to max times; max DOP_AUTO_MANY: no limit. */
dop_term dop_regular_repeat(dop_regular *r, dop_term a, uint32_t min, uint32_t max);
dop_term dop_regular_text(dop_regular *r, const char *text, size_t n);
/* One word of a list, which is sorted.  Takes ownership of the list, not of its words, which must be valid UTF-8 and outlive the
 * term. */
dop_term dop_regular_words(dop_regular *r, const char **words, size_t n);
/* Decimal numbers without sign that are multiples of of / 10^places, with at most `places` digits behind the point. */
dop_term dop_regular_multiple(dop_regular *r, uint32_t of, uint32_t places);
dop_term dop_regular_compare(dop_regular *r, const dop_decimal *bound);

bool dop_regular_nullable(const dop_regular *r, dop_term t);
dop_term dop_regular_derive(dop_regular *r, dop_term t, uint32_t c);
/* Adds the characters at which a term's derivative may change: between two neighbouring borders all characters have the same one. */
void dop_regular_borders(dop_regular *r, dop_term t, dop_charset *io_borders);
/* Makes a term from its node, or returns the equal one that exists; for regular_number.c. */
dop_term dop_regular_node(dop_regular *r, dop_term_node node);

/* How an automaton spells a character of a set. */
typedef struct dop_spelling {
    /* Returns the rule for one character of a set without plain characters; the set stays the caller's. */
    uint32_t (*rule)(void *user, const dop_charset *set);
    void *user;
    dop_charset plain; /* ASCII characters that are spelled as they are, without an escape */
} dop_spelling;

/* Adds a term's texts to an automaton, from one state to another.  DOP_E_LIMIT: the term needs more than `most` states, and nothing was
 * added.  DOP_E_INPUT: the term has no text. */
dop_status dop_regular_emit(dop_regular *r, dop_term t, size_t most, const dop_spelling *how, dop_auto *a,
                            uint32_t from, uint32_t to, dop_diag *diag);

#endif
