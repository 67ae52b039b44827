/* Lists of supported names, one per line: --list-targets, --list-types, --list-kernels, --list-models. */
#include "base/storage/types.h"
#include "compiler/pack/quant.h"
#include "compiler/target/target.h"
#include "compiler/target/target_files.h"
#include "frontend/facts/import.h"
#include "frontend/families/families.h"
#include "ir/graph/cache_row.h"
#include "kernels/kernel.h"
#include "tools/dopplerc/cli.h"

#include <stdio.h>

static void
list_targets(void)
{
    printf("%-16s the device at hand\n", "auto");
    for (const dop_target_file *f = dop_target_files; f->name; f++) {
        dop_target target, *t = &target;
        if (dop_target_resolve(f->name, NULL, t) != DOP_OK)
            continue;
        printf("%-16s ", t->name);
        if (t->caps & DOP_CAP_subgroup)
            printf("subgroups of %u", t->subgroup);
        else
            printf("no subgroups");
        printf(t->caps & DOP_CAP_f16_math ? ", f16" : ", no f16");
        if (t->matrix)
            printf(", matrix units %ux%ux%u", dop_matrix_m(t->matrix), dop_matrix_n(t->matrix),
                   dop_matrix_k(t->matrix));
        printf(", %.0f GB/s%s\n", t->bandwidth / 1e9, t->cpu ? ", a software device" : "");
    }
}

/* Prints the storage types: size, and support by --quant and by caches. */
static void
list_types(void)
{
    for (int i = 0; i < DOP_TYPE_COUNT; i++) {
        const dop_type_info *t = dop_type_of((dop_type)i);
        if (t->kind == DOP_KIND_INT)
            continue;
        const bool is_float = t->kind == DOP_KIND_FLOAT;
        const bool cache = i == DOP_TYPE_f32 || i == DOP_TYPE_f16 || dop_cache_blocks((dop_type)i);
        printf("%-16s %6.3f bits a value%s%s\n", t->name, 8.0 * t->bytes / t->block,
               is_float || dop_quantizable((dop_type)i) ? ", --quant" : "", cache ? ", --kv" : "");
    }
}

static void
list_kernels(void)
{
    for (int i = DOP_VARIANT_none + 1; i < DOP_VARIANT_COUNT; i++) {
        const dop_variant *v = dop_variant_of((dop_variant_id)i);
        printf("%-20s %s\n", v->name, v->when);
    }
}

/* Prints the model families, each with its Hugging Face and GGUF architectures. */
static void
list_models(void)
{
    for (uint32_t i = 0; i < dop_n_families; i++) {
        const dop_family *f = &dop_families[i];
        printf("%-18s", f->name);
        for (size_t k = 0; k < sizeof f->archs / sizeof *f->archs && f->archs[k]; k++)
            printf(" %s", f->archs[k]);
        printf(f->gguf ? ", GGUF %s\n" : "\n", f->gguf);
    }
}

bool
dop_cli_print_lists(const dop_compiler_cli *o)
{
    if (o->list_targets)
        list_targets();
    if (o->list_types)
        list_types();
    if (o->list_kernels)
        list_kernels();
    if (o->list_models)
        list_models();
    return o->list_targets || o->list_types || o->list_kernels || o->list_models;
}
