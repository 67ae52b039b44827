/* Put at the top of every mutated file.  DOP_MUTANT=K selects mutant K; with DOP_MUTANT_LOG=FOLDER every mutant that is reached
 * leaves a folder of its number there.  Includes nothing, because the file may define feature macros after it. */
#ifndef DOPPLER_TESTS_MUTANTS_MUTANT_H
#define DOPPLER_TESTS_MUTANTS_MUTANT_H
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wpointer-arith"
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
#pragma GCC diagnostic ignored "-Wformat-truncation"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wunused"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wredundant-decls"
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"

extern char *getenv(const char *);
extern int mkdir(const char *, unsigned);

static __attribute__((unused)) int
dop_mutant(int k)
{
    static int selected = -1;
    static const char *log;
    static unsigned char logged[1 << 16];
    if (selected < 0) {
        const char *s = getenv("DOP_MUTANT");
        int n = 0;
        while (s && *s >= '0' && *s <= '9')
            n = n * 10 + *s++ - '0';
        log = getenv("DOP_MUTANT_LOG");
        selected = n;
    }
    if (log && *log && !logged[k & 0xffff]) {
        char path[1100];
        int n = 0, digits = 1;
        logged[k & 0xffff] = 1;
        while (log[n] && n < 1000) {
            path[n] = log[n];
            n++;
        }
        path[n++] = '/';
        while (k / digits >= 10)
            digits *= 10;
        for (; digits; digits /= 10)
            path[n++] = (char)('0' + k / digits % 10);
        path[n] = 0;
        mkdir(path, 0777);
    }
    return k == selected;
}
#endif
