/* A Hugging Face directory as the GGUF file that llama.cpp's converter (conversion/ of its repository) makes of it: names,
 * rows in the order of its rotary embedding, experts stacked, a 1 that a family adds to its norms inside their weights, and
 * metadata.  It shares nothing with the importers, so that a mistake on one side shows.
 *
 * For the small models of the tests: one safetensors file, which it holds in memory. */
#ifndef DOPPLER_TESTS_UNIT_HF_TO_GGUF_H
#define DOPPLER_TESTS_UNIT_HF_TO_GGUF_H

#include "tests/unit/gguf_writer.h"

/* Fills a zeroed writer; false: `error` says why.  f32: matrices too, instead of the type that they have. */
bool hf_to_gguf(const char *dir, bool f32, gguf_writer *w, char *error, size_t size);
/* Fills it with the file of the directory's vision part (mmproj). */
bool hf_to_mmproj(const char *dir, gguf_writer *w, char *error, size_t size);

#endif
