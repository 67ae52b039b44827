/* sound SECONDS SEED: sound that changes, as a WAV file at 16 kHz, to stdout.
 * sound largest FILE FROM END: the code of the language whose token has the largest of the logits [FROM, END), of which the first is
 * that of the first language. */
#include "base/encoding/languages.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
largest(const char *path, long from, long end)
{
    FILE *f = fopen(path, "rb");
    long best = -1;
    float value, most = 0;
    if (!f || fseek(f, from * 4, SEEK_SET) != 0)
        return 1;
    for (long i = from; i < end && fread(&value, sizeof value, 1, f) == 1; i++)
        if (best < 0 || value > most) {
            most = value;
            best = i;
        }
    fclose(f);
    if (best < 0)
        return 1;
    puts(dop_language_at((uint32_t)(best - from))->code);
    return 0;
}

int
main(int argc, char **argv)
{
    enum { RATE = 16000 };
    if (argc == 5 && strcmp(argv[1], "largest") == 0)
        return largest(argv[2], strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
    const uint32_t n = argc == 3 ? RATE * (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint32_t random = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) * 2654435761u + 1 : 0;
    if (n == 0) {
        fprintf(stderr, "usage: sound SECONDS SEED | sound largest FILE FROM END\n");
        return 2;
    }
    const uint32_t head[] = {0x46464952, 36 + 2 * n, 0x45564157, 0x20746d66, 16,   0x00010001,
                             RATE,       2 * RATE,   0x00100002, 0x61746164, 2 * n};
    fwrite(head, sizeof head, 1, stdout);
    double pitch = 200, phase = 0;
    for (uint32_t i = 0; i < n; i++) {
        random = random * 1664525 + 1013904223;
        if (i % (RATE / 5) == 0)
            pitch = 100 + random % 2000;
        phase += 2 * acos(-1.0) * pitch / RATE;
        const double loud = 0.5 + 0.5 * sin(i * 3.0 / RATE);
        const int16_t v = (int16_t)(9000 * loud * sin(phase) + (random >> 16) % 600 - 300.0);
        fwrite(&v, sizeof v, 1, stdout);
    }
    return ferror(stdout) ? 1 : 0;
}
