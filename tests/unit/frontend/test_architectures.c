/* docs/architectures.md: what it says of every architecture of llama.cpp and transformers is what the tables of
 * families say. */
#include "frontend/families/families.h"
#include "tests/unit/import_util.h"

#include "frontend/facts/import.h"

/* Cuts a row of a table into its fields, without the marks of code; returns how many there are. */
static size_t
cut(char *line, char *fields[4])
{
    size_t n = 0;
    for (char *at = strtok(line, "|"); at; at = strtok(NULL, "|")) {
        at += strspn(at, " `");
        for (size_t len = strlen(at); len > 0 && strchr(" `\n", at[len - 1]); len--)
            at[len - 1] = 0;
        if (*at && n < 4)
            fields[n++] = at;
    }
    return n;
}

Test(architectures, as_documented)
{
    FILE *f = fopen(DOP_SOURCE_DIR "/docs/architectures.md", "r");
    cr_assert(f);
    char line[400], *fields[4];
    unsigned gguf = 0, hf = 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "| `", 3) != 0)
            continue;
        const size_t n = cut(line, fields);
        cr_assert(n == 3 || n == 4, "%s", line);
        const char *name = fields[n - 3], *says = fields[n - 2], *as = fields[n - 1];
        const dop_family *family =
            n == 4 ? dop_family_by_arch(name) : dop_family_by_gguf(name, strlen(name), false, false);
        if (n == 3 && !family)
            family = dop_family_by_gguf(name, strlen(name), true, false);
        n == 4 ? hf++ : gguf++;
        cr_expect(family ? strcmp(says, "read") == 0 : strcmp(says, "refused") == 0, "%s: %s", name, says);
        if (family && n == 4) {
            cr_expect_str_eq(as, family->name, "%s", name);
            const dop_family *by_type = dop_family_by_model_type(fields[0]);
            cr_expect(by_type, "model_type %s", fields[0]);
        }
    }
    fclose(f);
    cr_expect(gguf > 130 && hf > 130, "%u, %u rows", gguf, hf);
}
