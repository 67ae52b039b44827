/* Epilogues of products on CPU devices: stores of a block's sums. */
#include "kernels/gen/templates.h"
#include "kernels/product/gen_rows.h"
#include "kernels/row/gen_group.h"

const char *
dop_rows_row(const dop_rows_gen *s)
{
    return s->blocks.n ? dop_blocks_row(s->gen, &s->blocks, DOP_ROWS_PAIR) : "t0 + j";
}

static void
emit_store(dop_rows_gen *s, const dop_segment *part, dop_buf *store)
{
    dop_emit *e = &s->gen->e;
    dop_index ix = {s->tb > 1 ? "t" : "0u", "c"};
    uint32_t n_binds = e->n_binds;
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_emit_bind(e, s->p.sum ? s->p.sum : part->mats[m], dop_emit_str(e, "y[%u]", m + (s->p.beside != 0)), false,
                      NULL);
    if (s->p.beside) /* its round is the last, so its sums are in y[0] */
        dop_emit_bind(e, s->p.beside, "y[0]", false, NULL);
    dop_emit_scope(e, store, "                    ");
    if (s->blocks.n) {
        dop_emit_line(e, "uint at = %s;", dop_blocks_column(s->gen, &s->blocks, DOP_ROWS_PAIR, part->rows));
        ix.c = "at";
    } else if (s->p.experts && !s->p.sum) {
        ix.c = dop_emit_str(e, "(dop_slot * %uu + c)", part->rows);
    }
    for (uint32_t i = 0; i < s->p.n_stats; i++) {
        dop_emit_line(e, "float st%u = dop_st[j * %uu + %uu];", i, s->p.n_stats, i);
        dop_emit_bind(e, s->p.stats[i], dop_emit_str(e, "st%u", i), false, NULL);
    }
    const uint32_t width = s->fours ? 4 : 1;
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, width, dop_emit_value(e, part->outs[i], ix, width));
    if (part->argmax) {
        const char *y = dop_emit_value(e, dop_node_at(e->g, part->argmax)->src[0], ix, 1);
        dop_emit_line(e, "float logit = dop_logit(%s);", y);
        dop_emit_line(e, "if (logit > best) {");
        dop_emit_line(e, "    best = logit;");
        dop_emit_line(e, "    where = c;");
        dop_emit_line(e, "}");
    }
    e->n_binds = n_binds;
}

/* Returns the epilogues of the n parts of a group. */
static const char *
ends_of(dop_rows_gen *s, const dop_segment *const *parts, uint32_t n)
{
    dop_buf end = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (n > 1)
            dop_buf_printf(&end, "                if (part == %uu) {\n", i);
        emit_store(s, parts[i], &end);
        if (n > 1)
            dop_buf_puts(&end, "                }\n");
    }
    return dop_gen_keep(s->gen, &end);
}

/* Emits code that stores the sums of all products for row c and the current token, if both exist. */
static void
store_if(dop_rows_gen *s, const char *condition, const char *type, const char *sum, const char *end)
{
    dop_nest *n = &s->nest;
    dop_nest_if(n, "%s", condition);
    dop_nest_array(n, type, "y", s->mats);
    dop_nest_each(n, "m", s->mats, "y[m]", "%s", sum);
    dop_nest_hole(n, "end", end);
    dop_nest_end(n);
}

/* Epilogue for one token: every lane has its sums. */
static void
finish_one(dop_rows_gen *s, const char *end)
{
    dop_nest *n = &s->nest;
    dop_nest_unrolled(n, "r", s->rows);
    dop_nest_let(n, "uint", "c", "row + r * SG");
    dop_nest_let(n, "const uint", "j", "0u");
    store_if(s, "c < rows", "float", "acc[m * ROWS + r]", end);
    dop_nest_end(n);
}

/* Epilogue for several tokens, through shared memory, so that code that uses a sum exists once instead of once per token. */
static void
finish_many(dop_rows_gen *s, const char *end)
{
    dop_nest *n = &s->nest;
    const uint32_t fours = s->tb / 4;
    dop_nest_for(n, "i", "0u", dop_nest_text(n, "%uu", s->mats * s->rows * s->tb), "4u")->unroll = true;
    dop_nest_set(n, "dop_part[i / 4u * SG + LANE]", "vec4(acc[i], acc[i + 1u], acc[i + 2u], acc[i + 3u])");
    dop_nest_end(n);
    dop_nest_rolled(n, "p", "0u", dop_nest_text(n, "%uu", s->rows * fours), NULL);
    dop_nest_let(n, "uint", "c", "row + p / %uu * SG", fours);
    dop_nest_array(n, "vec4", "sum", s->mats);
    dop_nest_each(n, "m", s->mats, "sum[m]", "dop_part[(m * %uu + p) * SG + LANE]", s->rows * fours);
    dop_nest_rolled(n, "k", "0u", "4u", NULL);
    dop_nest_let(n, "uint", "j", "p %% %uu * 4u + k", fours);
    dop_nest_let(n, "uint", "t", "%s", dop_rows_row(s));
    store_if(s, "c < rows && t < n_tokens", "float", "sum[m][k]", end);
    dop_nest_ends(n, 2);
}

/* Epilogue for several tokens in which each lane gets four adjacent rows of the result, so that whole vectors are stored and
 * sums stay in registers. If adjacent lanes have two rows each, the first one gets the rows of both for the first half of the
 * tokens. */
static void
finish_fours(dop_rows_gen *s, const char *end)
{
    dop_nest *n = &s->nest;
    const uint32_t tb = s->tb, each = tb * s->rows / 4, half = tb / 2;
    dop_nest_array(n, "vec4", "fours", s->mats * each);
    if (s->rows == 2)
        dop_nest_let(n, "const bool", "upper", "(LANE & 1u) != 0u");
    dop_nest_unrolled(n, "i", s->mats * each);
    dop_nest_let(n, "uint", "a", "i / %uu * ROWS * TB + i %% %uu", each, each);
    if (s->rows == 4) {
        dop_nest_set(n, "fours[i]", "vec4(acc[a], acc[a + TB], acc[a + 2u * TB], acc[a + 3u * TB])");
    } else {
        dop_nest_let(n, "vec2", "one", "vec2(acc[a], acc[a + TB])");
        dop_nest_let(n, "vec2", "two", "vec2(acc[a + %uu], acc[a + %uu + TB])", half, half);
        dop_nest_let(n, "vec2", "own", "upper ? two : one");
        dop_nest_let(n, "vec2", "other", "subgroupShuffle(upper ? one : two, LANE ^ 1u)");
        dop_nest_set(n, "fours[i]", "upper ? vec4(other, own) : vec4(own, other)");
    }
    dop_nest_end(n);
    dop_nest_let(n, "const uint", "first", "%s", s->rows == 4 ? "0u" : dop_nest_text(n, "upper ? %uu : 0u", half));
    dop_nest_let(n, "const uint", "c", "row & ~3u");
    dop_nest_unrolled(n, "k", each);
    dop_nest_let(n, "uint", "j", "first + k");
    dop_nest_let(n, "uint", "t", "%s", dop_rows_row(s));
    store_if(s, "c < rows && t < n_tokens", "vec4", dop_nest_text(n, "fours[m * %uu + k]", each), end);
    dop_nest_end(n);
}

void
dop_rows_end(dop_rows_gen *s, const dop_segment *const *parts, uint32_t n)
{
    (s->tb == 1 ? finish_one : s->fours ? finish_fours : finish_many)(s, ends_of(s, parts, n));
}
