/* Shared by the test_ir_*.c files: a text with everything in it, deterministic numbers, small conveniences. */
#ifndef DOPPLER_TESTS_UNIT_TEST_IR_UTIL_H
#define DOPPLER_TESTS_UNIT_TEST_IR_UTIL_H

#include "ir/interp/interp.h"
#include "ir/syntax/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 */
static inline uint64_t
test_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [-2, 2), with few enough bits that sums of products stay exact in double. */
static inline float
test_value(uint64_t *state)
{
    return (float)((int)(test_random(state) % 4096) - 2048) / 1024.0f;
}

/* Every op, attribute, template and kind of region, as the printer writes it except for the alignment.  It grows with every op,
 * beyond the 4095 bytes of a literal that C99 guarantees; the compilers in use have no such limit. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char *const test_all_ops =
    "graph all.1(T<=5, S<=12, Q=1) {\n"
    "%tok:u32[T] = input \"tokens\"\n"
    "%pos:u32[T] = input \"positions\" ; inputs\n"
    "%seq:u32[T] = input \"sequences\"\n"
    "%emb:q4_0[40,64] = weight \"emb \\\"quoted\\\" \\\\ \\x01\\xff\"\n"
    "%w:f16[64] = weight \"w\"\n"
    "%b:bf16[64] = weight \"b\"\n"
    "%one:f32[1] = weight \"one\"\n"
    "%b32:f32[32] = weight \"b32\"\n"
    "%wq:q6_k[64,64] = weight \"wq\"\n"
    "%wk:mxfp4[32,64] = weight \"wk\"\n"
    "%rope:f32[S,8] = weight \"r\"\n"
    "%sinks:f32[4] = weight \"s\"\n"
    "%we:q8_0[6,8,32] = weight \"we\"\n"
    "%rs:f32[Q,32] = state \"L0.r\" kind=replace\n"
    "%cs:f32[Q,2,32] = state \"L0.c\" kind=replace\n"
    "%ss:f32[Q,4,16,16] = state \"L0.s\" kind=replace\n"
    "%tp:f32[3,32] = weight \"taps\"\n"
    "%kc:f16[Q,S,2,16] = state \"L0.k\" kind=append\n"
    "%rv:f32[T,8] = received \"v\"\n"
    "%vc:f16[Q,S,2,16] = state \"L0.v\" kind=append\n"
    "%x0:f32[T,64] = gather %emb, %tok ; embed\n"
    "%x1:f32[T,64] = scale %x0 by=0x1.6a09e667f3bcdp+5\n"
    "%n1:f32[T,64] = rmsnorm %x1, %w eps=0x1p-20 add=0x1p+0 ; L0/qkv\n"
    "%n2:f16[T,64] = layernorm %n1, %w, %b eps=0x1.4f8b588e368f1p-17\n"
    "%q:f32[T,64] = matmul %n2, %wq\n"
    "%img:f32[11,13,3] = input \"image\"\n"
    "%wc:f32[4,3,5,3] = weight \"wc\"\n"
    "%cn:f32[7,7,4] = conv %img, %wc stride=2 dilation=1 pad=2\n"
    "%uf:f32[T,576] = unfold %n1 width=4 height=6 taps=3 taps_y=3 stride=2 dilation=2 pad=1 more=1 up=2\n"
    "%wkd:f16[32,64] = dequant %wk\n"
    "%k:f32[T,32] = matmul %n2, %wkd\n"
    "%q3:f32[T,4,16] = reshape %q\n"
    "%k3:f32[T,2,16] = reshape %k\n"
    "%qr:f32[T,4,16] = rope %q3, %pos, %rope dims=8 interleaved=0\n"
    "%cc:f32[T,4,32] = concat %q3, %qr\n"
    "%kr:f32[T,2,16] = rope %k3, %pos, %rope dims=8 interleaved=1\n"
    "%kr16:f16[T,2,16] = cast %kr\n"
    "%kc1:f16[Q,S,2,16] = state_write %kc, %kr16, %pos, %seq\n"
    "%vc1:f16[Q,S,2,16] = state_write %vc, %k3, %pos, %seq\n"
    "%lst:u32[T] = input \"lasts\"\n"
    "%a:f32[T,4,16] = attention %qr, %kc1, %vc1, %pos, %seq, %sinks, %lst scale=0x1p-2 window=7 cap=0x1.9p+5 "
    "mask=segments\n"
    "%kx:f32[Q,S,1,16] = state \"L0.x\" kind=append\n"
    "%iw:f32[T,4] = slice %n1 start=3\n"
    "%is0:f32[T,12] = index_scores %q3, %kx, %iw, %pos, %seq scale=0x1p-3\n"
    "%lp:u32[T,5] = top_positions %is0, %pos k=5\n"
    "%al:f32[T,4,16] = attention %qr, %kc1, %vc1, %pos, %seq, %lp scale=0x1p-2 window=0 cap=0x0p+0 top=5\n"
    "%s:f32[T,12,18] = attn_split %qr, %kc1, %vc1, %pos, %seq scale=-0x1p-2 window=0 cap=0x0p+0 splits=3 whole=192 "
    "least=64\n"
    "%a2:f32[T,4,16] = attn_combine %s splits=3\n"
    "%sum:f32[T,4,16] = add %a, %a2\n"
    "%fl:f32[T,64] = reshape %sum\n"
    "%pt:f32[T,32] = slice %fl start=32\n"
    "%rms:f32[T,1] = row_rms %pt eps=0x0.0000000000001p-1022\n"
    "%mn:f32[T,1] = row_mean %pt\n"
    "%is:f32[T,1] = row_istd %pt eps=0x1p+1023\n"
    "%c0:f32[T,32] = sub %pt, %mn\n"
    "%c1:f32[T,32] = mul %c0, %is\n"
    "%c2:f32[T,32] = div %c1, %rms\n"
    "%ids:u32[T,2] = top_k %c2 k=2 groups=4 group_best=2 group_keep=2\n"
    "%pk:f32[T,2] = pick %c2, %ids\n"
    "%nw:f32[T,2] = near_softmax %c2, %ids eps=0x1p-5\n"
    "%bl:u32[7,5] = group_rows %ids experts=6 span=4\n"
    "%me0:f32[T,2,8] = matmul_at %c2, %we, %ids, %bl\n"
    "%me:f32[T,2,8] = matmul_at %c2, %we, %ids\n"
    "%ws0:f32[T,8] = weighted_sum %me0, %pk\n"
    "%ws:f32[T,8] = weighted_sum %me, %pk\n"
    "%rs1:f32[Q,32] = state_write %rs, %c2, %seq\n"
    "%cv:f32[T,32] = short_conv %c2, %cs, %tp, %seq\n"
    "%cs1:f32[Q,2,32] = state_write %cs, %c2, %seq\n"
    "%d:f32[T,4] = slice %c2 start=4\n"
    "%sc:f32[T,4,16] = linear_scan %k3, %k3, %q3, %d, %ss, %seq, %d interleaved=0\n"
    "%s1:f32[Q,4,16,16] = linear_scan_state %k3, %k3, %q3, %d, %ss, %seq interleaved=1\n"
    "%ss1:f32[Q,4,16,16] = state_write %ss, %s1\n"
    "%e0:f32[T,32] = offset %c2 by=-0x1.8p+1\n"
    "%e1:f32[T,32] = silu %e0\n"
    "%e2:f32[T,32] = gelu %e1\n"
    "%e3:f32[T,32] = gelu_tanh %e2\n"
    "%e4:f32[T,32] = relu %e3\n"
    "%e5:f32[T,32] = relu2 %e4\n"
    "%e6:f32[T,32] = sigmoid %e5\n"
    "%e7:f32[T,32] = tanh %e6\n"
    "%e7x:f32[T,32] = xielu %e7, %one, %one, %one\n"
    "%e8:f32[T,32] = exp %e7x\n"
    "%ea:f32[T,32] = at_most %e8 by=0x1.cp+2\n"
    "%eb:f32[T,32] = at_least %ea by=-0x1.cp+2\n"
    "%e9:bf16[T,32] = softplus %eb\n"
    "%e10:f32[T,32] = softcap %e9 cap=0x1.ep+4 ; head\n"
    "%lr:f32[1,32] = last_row %e10\n"
    "%p:f32[1,32] = softmax %lr\n"
    "%id:u32[1] = argmax %p\n"
    "%ap:f32[1,7,2] = argmax_part %lr parts=7\n"
    "%am:u32[1] = argmax_merge %ap\n"
    "%dw:f32[5,32] = weight \"dw\"\n"
    "%da:f32[T,2] = slice %e10 start=0\n"
    "%dt:f32[T,5] = dot_at %e10, %dw, %da span=4\n"
    "%mo:f32[3,4,3] = moments %e10 parts=3 groups=4\n"
    "%mnb:f32[1,64] = moments_norm %mo, %b32, %b32 eps=0x1p-10\n"
    "return %p, %id, %am, %kc1, %vc1, %p, %al\n"
    "}\n"
    "---\n"
    "region @1 elementwise writes %x1 { %x0 %x1 }\n"
    "region @2 row using rows_f32 writes %n1 %n2 { %n1 %n2 }\n"
    "region @3 gemv writes %q { %q }\n"
    "region @4 attention using attn/decode.f16-a writes %kc1 %vc1 %a { %q3 %k3 %qr %kr %kr16 %kc1 %vc1 %a }\n"
    "region @5 attention writes %s { %k3 %qr %kr %kr16 %kc1 %vc1 %s }\n"
    "region @6 row writes %c2 %e10 { %a2 %sum %fl %pt %rms %mn %is %c0 %c1 %c2 %e0 %e1 %e2 %e3 %e4 %e5 %e6 %e7 "
    "%e7x "
    "%e8 %ea %eb %e9 %e10 }\n"
    "region @7 row writes %p { %lr %p }\n"
    "region @8 argmax writes %id { %id }\n"
    "region @9 argmax writes %ap { %lr %ap }\n"
    "region @10 argmax writes %am { %am }\n"
    "region @11 matmul writes %k { %wkd %k }\n"
    "region @12 choice writes %ids %pk %nw { %ids %pk %nw }\n"
    "region @13 group writes %bl { %bl }\n"
    "region @14 expert_tiles writes %me0 { %me0 }\n"
    "region @15 expert writes %ws { %me %ws }\n"
    "region @16 attention writes %al { %q3 %qr %al }\n"
    "region @17 index writes %is0 { %is0 }\n"
    "region @18 positions writes %lp { %lp }\n"
    "region @19 scan writes %sc { %q3 %k3 %d %sc }\n"
    "region @20 moments writes %mo { %mo }\n";
#pragma GCC diagnostic pop

static inline dop_status
test_parse(const char *text, dop_arena *arena, dop_diag *diag, dop_graph *out)
{
    size_t end;
    return dop_graph_parse("test.dir", text, strlen(text), arena, diag, out, &end);
}

static inline void
test_must_parse(const char *text, dop_arena *arena, dop_graph *out)
{
    dop_diag diag = {0};
    cr_assert(test_parse(text, arena, &diag, out) == DOP_OK, "line %ld: %s", diag.line, diag.message);
}

static inline dop_node_id
test_find(const dop_graph *g, const char *name)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        if (strcmp(g->nodes[id].name, name) == 0)
            return id;
    }
    cr_assert_fail("no node %%%s", name);
    return 0;
}

#endif
