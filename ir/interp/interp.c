/* Driver of the reference interpreter: finds the nodes that are needed and caches their values. */
#include "ir/interp/interp.h"

#include "ir/graph/dims.h"
#include "ir/graph/graph_add.h"
#include "ir/interp/interp_ops.h"
#include "ir/interp/interp_util.h"

#include <stdlib.h>
#include <string.h>

typedef struct slot {
    dop_tensor value;
    void *own;  /* memory to free; NULL if the provider or a source owns it */
    bool ready; /* the value has been computed */
    bool set;   /* the value comes from dop_interp_set() */
} slot;

struct dop_interp {
    const dop_graph *g;
    uint32_t size[DOP_N_SYMS]; /* sizes of the symbolic dimensions in this step */
    dop_leaf_provider leaves;
    bool round;
    slot *slots;   /* [n_nodes] */
    uint8_t *need; /* [n_nodes] scratch of one evaluation: the node is needed */
};

static bool
holds_ids(dop_type t)
{
    return t == DOP_TYPE_u32 || t == DOP_TYPE_i32;
}

static dop_status
fail_value_memory(const dop_interp *it, dop_node_id id, dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory for the value of %%%s", it->g->nodes[id].name);
}

dop_status
dop_interp_create(const dop_graph *g, uint32_t t, const dop_leaf_provider *leaves, dop_diag *diag, dop_interp **out)
{
    *out = NULL;
    if (t < 1 || t > g->max_t)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: a step of %u tokens, but T is 1 to %u", g->name, t, g->max_t);
    dop_interp *it = calloc(1, sizeof *it);
    if (!it)
        return DOP_NO_MEMORY(diag);
    it->g = g;
    memcpy(it->size, g->bound, sizeof it->size);
    it->size[DOP_SYM_T] = t;
    if (leaves)
        it->leaves = *leaves;
    it->slots = calloc(g->n_nodes, sizeof *it->slots);
    it->need = calloc(g->n_nodes, sizeof *it->need);
    if (!it->slots || !it->need) {
        dop_interp_destroy(it);
        return DOP_NO_MEMORY(diag);
    }
    *out = it;
    return DOP_OK;
}

void
dop_interp_destroy(dop_interp *it)
{
    if (!it)
        return;
    for (dop_node_id id = 0; it->slots && id < it->g->n_nodes; id++)
        free(it->slots[id].own);
    free(it->slots);
    free(it->need);
    free(it);
}

dop_status
dop_interp_size(dop_interp *it, const char *dimension, uint32_t size, dop_diag *diag)
{
    const dop_sym sym = dop_graph_dim(it->g, dimension, strlen(dimension));
    if (sym < DOP_SYM_OWN || size < 1 || size > it->g->bound[sym])
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: no dimension %.20s can be %u", it->g->name, dimension, size);
    it->size[sym] = size;
    return DOP_OK;
}

void
dop_interp_round_storage(dop_interp *it, bool on)
{
    it->round = on;
}

/* Sets shape and count of a node for this step, without memory. */
static void
set_concrete_shape(const dop_interp *it, dop_node_id id, dop_tensor *out)
{
    const dop_shape *s = &it->g->nodes[id].shape;
    memset(out, 0, sizeof *out);
    out->shape.rank = s->rank;
    out->count = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        uint64_t v = (uint64_t)s->dim[i].mul *
                     it->size[s->dim[i].sym]; /* cannot overflow: the graph checked it for the bounds */
        out->shape.dim[i] = dop_dim_n((uint32_t)v);
        out->count *= v;
    }
}

static bool
alloc_value(slot *s, dop_type type)
{
    void *p = s->value.count <= SIZE_MAX / sizeof(float) ? calloc((size_t)s->value.count, sizeof(float)) : NULL;
    s->own = p;
    if (holds_ids(type))
        s->value.u = p;
    else
        s->value.f = p;
    return p != NULL;
}

static dop_status
eval_interp_leaf(dop_interp *it, dop_node_id id, dop_diag *diag)
{
    const dop_node *n = &it->g->nodes[id];
    slot *s = &it->slots[id];
    dop_tensor given = s->value;
    if (!it->leaves.get)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "%%%s: nobody provides %s \"%s\"", n->name, dop_op_of(n->op)->name,
                        n->attr[0].s);
    dop_status st = it->leaves.get(it->leaves.user, it->g, id, it->size[DOP_SYM_T], &given, diag);
    if (st != DOP_OK)
        return st;
    if (given.count != s->value.count || !(holds_ids(n->type) ? (void *)given.u : (void *)given.f))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "%%%s: the value given for %s \"%s\" has the wrong type or size", n->name,
                        dop_op_of(n->op)->name, n->attr[0].s);
    s->value.f = given.f;
    s->value.u = given.u;
    s->ready = true;
    return DOP_OK;
}

static dop_status
eval_interp_node(dop_interp *it, dop_node_id id, dop_diag *diag)
{
    const dop_node *n = &it->g->nodes[id];
    slot *s = &it->slots[id];
    set_concrete_shape(it, id, &s->value);
    if (dop_op_of(n->op)->traits & DOP_LEAF)
        return eval_interp_leaf(it, id, diag);
    dop_interp_node c = {.g = it->g, .id = id, .round = it->round, .diag = diag};
    for (uint32_t i = 0; i < n->n_srcs; i++)
        c.src[i] = &it->slots[n->src[i]].value;
    if (n->op == DOP_OP_reshape || (n->op == DOP_OP_state_write && dop_shape_appends(&n->shape))) {
        s->value.f = c.src[0]->f;
        s->value.u = c.src[0]->u;
    } else if (!alloc_value(s, n->type)) {
        return fail_value_memory(it, id, diag);
    }
    c.out = s->value;
    dop_status st = dop_interp_compute(&c);
    if (st != DOP_OK) {
        free(s->own);
        s->own = NULL;
        return st;
    }
    if (it->round && s->own && s->value.f) {
        for (uint64_t i = 0; i < s->value.count; i++)
            s->value.f[i] = dop_interp_round(n->type, s->value.f[i]);
    }
    s->ready = true;
    return DOP_OK;
}

dop_status
dop_interp_eval(dop_interp *it, dop_node_id id, dop_diag *diag, const dop_tensor **out)
{
    *out = NULL;
    if (id == 0 || id >= it->g->n_nodes)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: %u is not a node", it->g->name, id);
    /* Sources precede their readers in the array, so two sweeps replace recursion. */
    memset(it->need, 0, it->g->n_nodes);
    it->need[id] = 1;
    for (dop_node_id i = id + 1; i-- > 1;) {
        const dop_node *n = &it->g->nodes[i];
        for (uint32_t k = 0; it->need[i] && !it->slots[i].ready && k < n->n_srcs; k++)
            it->need[n->src[k]] = 1;
    }
    for (dop_node_id i = 1; i <= id; i++) {
        if (!it->need[i] || it->slots[i].ready)
            continue;
        dop_status st = eval_interp_node(it, i, diag);
        if (st != DOP_OK)
            return st;
    }
    *out = &it->slots[id].value;
    return DOP_OK;
}

dop_status
dop_interp_set(dop_interp *it, dop_node_id id, const float *values, dop_diag *diag)
{
    if (id == 0 || id >= it->g->n_nodes)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: %u is not a node", it->g->name, id);
    slot fresh = {.set = true, .ready = true};
    set_concrete_shape(it, id, &fresh.value);
    if (!alloc_value(&fresh, it->g->nodes[id].type))
        return fail_value_memory(it, id, diag);
    for (uint64_t i = 0; i < fresh.value.count;
         i++) { /* copied before anything is freed, since values may point into it */
        if (fresh.value.u)
            fresh.value.u[i] = (uint32_t)values[i];
        else
            fresh.value.f[i] = values[i];
    }
    for (dop_node_id i = id; i < it->g->n_nodes; i++) { /* readers have higher ids */
        slot *s = &it->slots[i];
        if (i != id && (s->set || (dop_op_of(it->g->nodes[i].op)->traits & DOP_LEAF)))
            continue;
        free(s->own);
        memset(s, 0, sizeof *s);
    }
    it->slots[id] = fresh;
    return DOP_OK;
}
