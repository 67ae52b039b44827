/* hf_to_rdrr MODEL_DIR OUT_DIR [MEMBERS]: a small Hugging Face model as an RDRR directory (rdrr_writer.h), whose manifest also has the
 * members of a JSON object.  Objects of both are merged. */
#include "tests/unit/rdrr_writer.h"

#include <sys/stat.h>

int
main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: hf_to_rdrr MODEL_DIR OUT_DIR [MEMBERS]\n");
        return 2;
    }
    mkdir(argv[2], 0777);
    json_t *manifest = rdrr_convert(argv[1], argv[2], 1 << 20), *more = argc == 4 ? json_loads(argv[3], 0, NULL) : NULL;
    rdrr_check(argc == 3 || (more && json_object_update_recursive(manifest, more) == 0), "MEMBERS is not an object");
    char *text = json_dumps(manifest, JSON_INDENT(2));
    rdrr_check(text != NULL, "out of memory");
    rdrr_write(argv[2], "manifest.json", text, strlen(text));
    free(text);
    json_decref(manifest);
    json_decref(more);
    return 0;
}
