/* Byte-level BPE in two files, merges.txt (a pair a line, the first merge first) and vocab.json (ids by text) beside it: how GPT-2, RoBERTa and CLIP were published before tokenizer.json.  What only code says, the split into words and the marks at its ends, is as in the tokenizers of these models; a vocabulary whose pieces end words with "</w>" is CLIP's, and others are those of tokenizer_class. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_MERGES_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_MERGES_H

#include "text/import/tokenizer_files.h"

/* Parses merges.txt with the vocab.json beside it; arguments as of dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_merges(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                     dop_diag *diag, dop_tokenizer **out_tok);
/* Whether a file is a list of merges, judged by its first line. */
bool dop_tok_is_merges(const void *bytes, size_t size);

#endif
