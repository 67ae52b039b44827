/* SentencePiece model files (tokenizer.model): Unigram and BPE. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_SPM_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_SPM_H

#include "text/import/tokenizer_files.h"

/* Parses a SentencePiece model (Unigram or BPE). Arguments as in dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_sentencepiece(const char *path, const void *bytes, size_t size,
                                            const dop_tokenizer_facts *facts, dop_diag *diag, dop_tokenizer **out_tok);

#endif
