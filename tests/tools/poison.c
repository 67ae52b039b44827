/* poison FILE.safetensors TENSOR INDEX nan|inf|-inf: writes that value over one value of a tensor. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
fail(const char *what)
{
    fprintf(stderr, "poison: %s\n", what);
    return 1;
}

int
main(int argc, char **argv)
{
    if (argc != 5)
        return fail("usage: poison FILE.safetensors TENSOR INDEX nan|inf|-inf");
    FILE *f = fopen(argv[1], "r+b");
    uint64_t header = 0;
    if (!f || fread(&header, sizeof header, 1, f) != 1 || header > 1 << 24)
        return fail("cannot read the file");
    char *json = calloc(1, header + 1), key[256];
    if (!json || fread(json, 1, header, f) != header)
        return fail("cannot read the header");
    snprintf(key, sizeof key, "\"%s\":", argv[2]);
    char *at = strstr(json, key), *type = at ? strstr(at, "\"dtype\":\"") : NULL;
    char *range = at ? strstr(at, "\"data_offsets\":[") : NULL;
    if (!type || !range)
        return fail("no such tensor (or spaces in the header)");
    type += strlen("\"dtype\":\"");
    int kind = strncmp(type, "F32", 3) == 0    ? 0
               : strncmp(type, "BF16", 4) == 0 ? 1
               : strncmp(type, "F16", 3) == 0  ? 2
                                               : 3;
    static const uint32_t infinity[] = {0x7f800000, 0x7f80, 0x7c00}, quiet[] = {0x7fc00000, 0x7fc0, 0x7e00};
    if (kind == 3)
        return fail("the tensor is not f32, f16 or bf16");
    uint64_t from, to;
    size_t size = kind == 0 ? 4 : 2;
    uint64_t index = strtoull(argv[3], NULL, 10);
    if (sscanf(range, "\"data_offsets\":[%lu,%lu]", &from, &to) != 2 || index >= (to - from) / size)
        return fail("the tensor has no such value");
    uint32_t bits = strcmp(argv[4], "nan") == 0 ? quiet[kind] : infinity[kind];
    if (argv[4][0] == '-')
        bits |= kind == 0 ? 0x80000000u : 0x8000u;
    if (fseek(f, (long)(sizeof header + header + from + index * size), SEEK_SET) != 0 ||
        fwrite(&bits, size, 1, f) != 1 || fclose(f) != 0)
        return fail("cannot write");
    free(json);
    return 0;
}
