/* hf_to_gguf MODEL_DIR OUT.gguf [f32|mmproj]: a small Hugging Face model as llama.cpp's converter writes it (hf_to_gguf.h); f32: matrices in
 * that type, for a comparison with a program that rounds what it multiplies with others; mmproj: its vision part instead. */
#include "tests/unit/hf_to_gguf.h"

#include <stdio.h>
#include <string.h>

int
main(int argc, char **argv)
{
    gguf_writer w = {0};
    char error[300] = "";
    const bool f32 = argc == 4 && strcmp(argv[3], "f32") == 0, mmproj = argc == 4 && strcmp(argv[3], "mmproj") == 0;
    if (argc != 3 && !f32 && !mmproj) {
        fprintf(stderr, "usage: hf_to_gguf MODEL_DIR OUT.gguf [f32|mmproj]\n");
        return 2;
    }
    if (!(mmproj ? hf_to_mmproj(argv[1], &w, error, sizeof error)
                 : hf_to_gguf(argv[1], f32, &w, error, sizeof error))) {
        fprintf(stderr, "hf_to_gguf: %s\n", error);
        return 1;
    }
    if (!gguf_save(&w, argv[2])) {
        fprintf(stderr, "hf_to_gguf: cannot write %s\n", argv[2]);
        return 1;
    }
    return 0;
}
