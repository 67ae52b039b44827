/* Validation of tiles: one check for every tile, regardless of its source. Assumptions of a variant's generator are checked
 * by `legal` of its descriptor, and rules for all variants here. */
#include "kernels/gen/legal.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/products.h"
#include "kernels/gen/trips.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool __attribute__((format(printf, 4, 5)))
break_rule(dop_check *c, bool broken, int field, const char *format, ...)
{
    va_list args;
    if (!broken || *c->fault->why)
        return !*c->fault->why;
    c->fault->field = field;
    va_start(args, format);
    (void)vsnprintf(c->fault->why, sizeof c->fault->why, format, args);
    va_end(args);
    return false;
}

static uint32_t
tile_field_value(const dop_check *c, int field)
{
    return dop_tile_get(c->tile, field);
}

bool
dop_check_range(dop_check *c, int field, uint32_t least, uint32_t most)
{
    const uint32_t x = tile_field_value(c, field);
    return break_rule(c, x < least || x > most, field, "%s must be between %u and %u, not %u", dop_tile_name(field),
                      least, most, x);
}

bool
dop_check_power(dop_check *c, int field, uint32_t least, uint32_t most)
{
    const uint32_t x = tile_field_value(c, field);
    return break_rule(c, x < least || x > most || (x & (x - 1)) != 0, field,
                      "%s must be a power of two between %u and %u, not %u", dop_tile_name(field), least, most, x);
}

bool
dop_check_multiple(dop_check *c, int field, uint32_t of, uint32_t least, uint32_t most)
{
    const uint32_t x = tile_field_value(c, field);
    return break_rule(c, x < least || x > most || x % of != 0, field,
                      "%s must be a multiple of %u between %u and %u, not %u", dop_tile_name(field), of, least, most,
                      x);
}

bool
dop_check_divides(dop_check *c, int field, uint32_t of, const char *what)
{
    const uint32_t x = tile_field_value(c, field);
    return break_rule(c, x == 0 || of % x != 0, field, "%s must divide %u (%s), which %u does not",
                      dop_tile_name(field), of, what, x);
}

bool
dop_check_equal(dop_check *c, int field, uint64_t value, const char *what)
{
    const uint32_t x = tile_field_value(c, field);
    return break_rule(c, x != value, field, "%s must be %llu (%s), not %u", dop_tile_name(field),
                      (unsigned long long)value, what, x);
}

bool
dop_check_most(dop_check *c, int field, uint64_t value, uint64_t most, const char *what)
{
    return break_rule(c, value > most, field, "%s must be at most %llu here, not %llu", what, (unsigned long long)most,
                      (unsigned long long)value);
}

bool
dop_check_when(dop_check *c, bool holds, int field, const char *rule)
{
    return break_rule(c, !holds, field, "%s", rule);
}

/* Checks the workgroup size: within the target's limit, and whole subgroups. Without subgroups it is a power of two if the
 * kernel has tree reductions. */
static bool
check_workgroup(dop_check *c, const dop_descriptor *d)
{
    const dop_target *t = c->s->t;
    if (c->tile->subgroup)
        return dop_check_multiple(c, DOP_TILE_NO_wg, t->subgroup, t->subgroup,
                                  t->max_workgroup / t->subgroup * t->subgroup);
    if (d->any_wg)
        return dop_check_range(c, DOP_TILE_NO_wg, 1, t->max_workgroup);
    return dop_check_power(c, DOP_TILE_NO_wg, 1, dop_pow2_floor(t->max_workgroup));
}

static void
check_resources(dop_check *c, const dop_descriptor *d)
{
    const dop_target *t = c->s->t;
    const dop_selection choice = {.tile = *c->tile};
    dop_diag ignored = {0};
    dop_gen gen;
    dop_gen_open(&gen, c->s, d, &choice, &ignored);
    const uint64_t shared = dop_gen_shared(&gen);
    if (!break_rule(c, shared > t->shared_bytes, DOP_TILE_FIELDS,
                    "it needs more shared memory than a workgroup has (%llu bytes, target %s has %u)",
                    (unsigned long long)shared, t->name, t->shared_bytes))
        c->fault->remedy = "a target with larger shared_bytes";
    else if (!c->s->routes &&
             !break_rule(c, dop_trips_too_many(c->s, d, c->tile), DOP_TILE_FIELDS,
                         "its loops have more turns than the target's driver makes (%u)", t->loop_trips))
        c->fault->remedy = "a smaller `ctx` or `chunks`, or a target with larger loop_trips";
}

bool
dop_tile_legal(const dop_site *s, const dop_descriptor *d, const dop_tile *tile, dop_tile_fault *out_fault)
{
    dop_check c = {s, tile, out_fault};
    *out_fault = (dop_tile_fault){.field = DOP_TILE_FIELDS};
    if (check_workgroup(&c, d) && d->legal)
        d->legal(&c);
    if (!*out_fault->why)
        check_resources(&c, d);
    return !*out_fault->why;
}
