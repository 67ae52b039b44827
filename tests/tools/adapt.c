/* Makes a random LoRA adapter for a model in a Hugging Face directory: adapt MODEL DIR RANK SEED [WORD [SIZE]].  WORD: names of adapted
 * tensors have it; "-": any.  DIR/merged is the model with the adapter merged by hand. */
#include "tests/tools/make_adapter.h"

int
main(int argc, char **argv)
{
    if (argc < 5 || argc > 7) {
        fprintf(stderr, "usage: adapt MODEL DIR RANK SEED [WORD [SIZE]]\n");
        return 2;
    }
    const adapter_way way = {.rank = (uint32_t)atoi(argv[3]),
                             .seed = (uint32_t)atoi(argv[4]),
                             .alpha = 2 * atoi(argv[3]),
                             .only = argc > 5 && strcmp(argv[5], "-") != 0 ? argv[5] : NULL,
                             .size = argc > 6 ? atof(argv[6]) : 0};
    const uint32_t n = make_adapter(argv[1], argv[2], &way, true);
    printf("%u tensors\n", n);
    return n == 0;
}
