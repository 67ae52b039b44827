/* Facts about a tokenizer from files other than its own: BOS, EOS, and the added tokens of tokenizer_config.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_FACTS_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_FACTS_H

#include "text/import/tokenizer_files.h"

void dop_tokenizer_facts_init(dop_tokenizer_facts *facts);

#endif
