/* make_int4 KIND GROUP SOURCE DIR PLAIN: see int4_model.h.  KIND: awq, gptq, gptq_v2; "gptq_sym" has only zero points of 8, "gptq_act" its
 * inputs in activation order.
 * Exit status 0, or 2 when a file cannot be used. */
#include "tests/tools/int4_model.h"

int
main(int argc, char **argv)
{
    int4_kind k = {.name = argc == 6 ? argv[1] : ""};
    if (argc != 6) {
        fprintf(stderr, "usage: make_int4 awq|gptq|gptq_v2|gptq_sym|gptq_act GROUP SOURCE DIR PLAIN\n");
        return 2;
    }
    k.group = atoi(argv[2]);
    k.flags = strcmp(k.name, "gptq_sym") == 0 ? INT4_SYMMETRIC : strcmp(k.name, "gptq_act") == 0 ? INT4_ACT_ORDER : 0;
    if (k.flags)
        k.name = "gptq";
    return int4_make(argv[3], &k, argv[4], argv[5]) ? 0 : 2;
}
