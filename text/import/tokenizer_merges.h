/* Byte-level BPE in two files: merges.txt (one pair per line, best first) and vocab.json (ids by text) next to it.
 * GPT-2, RoBERTa and CLIP were published in this form before tokenizer.json. Word splitting and special tokens,
 * which these files omit, are as in the models' own tokenizers. A vocabulary with "</w>" at the end of pieces is
 * treated as CLIP's; otherwise tokenizer_class decides. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_MERGES_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_MERGES_H

#include "text/import/tokenizer_files.h"

/* Parses merges.txt and the vocab.json in the same directory. Arguments as in dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_merges(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                     dop_diag *diag, dop_tokenizer **out_tok);
/* True if the first line identifies a list of merges. */
bool dop_tok_is_merges(const void *bytes, size_t size);

#endif
