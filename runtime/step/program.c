#include "runtime/step/program.h"

#include <string.h>

const dop_value *
dop_value_find(const dop_value *values, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i].name, name) == 0)
            return &values[i];
    return NULL;
}

dop_status
dop_value_check(const dop_value *v, size_t n, dop_diag *diag)
{
    return !v || v->n == n ? DOP_OK
                           : DOP_FAIL(diag, DOP_E_INPUT, "\"%s\" has %zu values, expected %zu", v->name, v->n, n);
}
