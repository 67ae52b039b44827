#include "base/json/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the "C" locale; (locale_t)0: out of memory, use the process's locale */
static locale_t point_locale;

static void
make_locale(void)
{
    point_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t
get_c_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_locale);
    return point_locale;
}

double
dop_strtod(const char *text, char **out_end)
{
    return get_c_locale() ? strtod_l(text, out_end, get_c_locale()) : strtod(text, out_end);
}

static size_t
write_real(double value, char out[32])
{
    char t[32];
    int p = 0;
    do
        snprintf(t, sizeof t, "%.*e", p, value);
    while (strtod(t, NULL) != value && ++p < 17);
    char *e = strchr(t, 'e');
    const int exp10 = atoi(e + 1);
    if (exp10 >= -4 && exp10 < 16)
        return (size_t)snprintf(out, 32, "%.*f", p > exp10 ? p - exp10 : 1, value);
    *e = 0;
    return (size_t)snprintf(out, 32, "%se%c%02d", t, exp10 < 0 ? '-' : '+', abs(exp10));
}

size_t
dop_real_text(double value, char out[32])
{
    if (isnan(value) || isinf(value))
        return (size_t)snprintf(out, 32, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    const locale_t before = get_c_locale() ? uselocale(get_c_locale()) : (locale_t)0;
    const size_t n = write_real(value, out);
    if (before)
        uselocale(before);
    return n;
}
