/* Statements of kernels: where barriers and loads ahead are put, and what the verifier finds. */
#include "kernels/nest/finish.h"
#include "kernels/nest/nest.h"
#include "kernels/nest/print.h"
#include "kernels/nest/reduce.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct fixture {
    dop_arena arena;
    dop_diag diag;
    dop_nest n;
    uint32_t x;
} fixture;

static void
begin(fixture *f)
{
    *f = (fixture){0};
    dop_arena_init(&f->arena);
    dop_nest_open(&f->n, "test", &(dop_nest_placement){0}, &f->arena, &f->diag);
    f->x = dop_nest_shared(&f->n, "float", "x", 64);
    dop_nest_function(&f->n, "put", "uint k");
    dop_nest_store(&f->n, f->x, "x[gl_LocalInvocationIndex]", "float(k)");
    dop_nest_end(&f->n);
    dop_nest_function(&f->n, "main", "");
}

/* Ends the main function, whose text without blanks must be this. */
static void
is_printed(fixture *f, const char *want)
{
    dop_buf b = {0}, got = {0};
    dop_nest_end(&f->n);
    cr_assert_eq(dop_nest_finish(&f->n), DOP_OK, "%s", f->diag.message);
    dop_nest_print(&f->n, &b);
    const char *p = strstr(b.data, "main()\n{\n") + strlen("main()\n{\n");
    for (; *p; p++)
        if (*p != '\n' && *p != ' ')
            dop_buf_append(&got, p, 1);
    cr_assert_str_eq(got.data, want);
    dop_buf_finish(&b);
    dop_buf_finish(&got);
    dop_arena_finish(&f->arena);
}

static void
is_refused(fixture *f, const char *why)
{
    cr_assert_eq(dop_nest_finish(&f->n), DOP_E_INTERNAL);
    cr_assert(strstr(f->diag.message, why), "%s", f->diag.message);
    dop_arena_finish(&f->arena);
}

static void
read_x(fixture *f)
{
    dop_nest_let(&f->n, "float", "y", "x[0]")->reads = f->x;
}

Test(nest, memory_that_is_put_once_and_read_in_a_loop_changes_hands_before_it)
{
    fixture f;
    begin(&f);
    dop_nest_call(&f.n, "put", "0u");
    dop_nest_for(&f.n, "i", "0u", "8u", "1u");
    read_x(&f);
    dop_nest_end(&f.n);
    is_printed(&f, "put(0u);barrier();for(uinti=0u;i<8u;i+=1u){floaty=x[0];}}");
}

Test(nest, memory_that_every_turn_puts_and_reads_changes_hands_twice)
{
    fixture f;
    begin(&f);
    dop_nest_for(&f.n, "i", "0u", "8u", "1u");
    dop_nest_call(&f.n, "put", "i");
    dop_nest_for(&f.n, "j", "LANE", "8u", "LANES")->apart = true;
    read_x(&f);
    dop_nest_end(&f.n);
    dop_nest_end(&f.n);
    is_printed(&f, "for(uinti=0u;i<8u;i+=1u){barrier();put(i);barrier();for(uintj=LANE;j<8u;j+=LANES){floaty=x[0];}}}");
}

Test(nest, a_barrier_serves_all_memory_and_writes_need_none)
{
    fixture f;
    begin(&f);
    const uint32_t z = dop_nest_memory(&f.n, "z");
    dop_nest_call(&f.n, "put", "0u");
    dop_nest_store(&f.n, z, "z[0]", "1.0");
    dop_nest_store(&f.n, z, "z[1]", "1.0");
    read_x(&f);
    dop_nest_let(&f.n, "float", "w", "z[1]")->reads = z;
    is_printed(&f, "put(0u);z[0]=1.0;z[1]=1.0;barrier();floaty=x[0];floatw=z[1];}");
}

Test(nest, an_own_sum_shows_what_was_written_before_and_other_sums_do_not)
{
    fixture f;
    begin(&f);
    dop_reduce_begin(&f.n, DOP_REDUCE_sum, "a");
    dop_nest_call(&f.n, "put", "0u");
    dop_reduce_note(dop_nest_let(&f.n, "float", "s", "%s", dop_reduce_all(&f.n, DOP_REDUCE_sum, DOP_BY_own + 1, "a")),
                    DOP_BY_own + 1);
    read_x(&f);
    is_printed(&f, "floata=0.0;put(0u);floats=dop_own_sum(1u,a);floaty=x[0];}");
    begin(&f);
    dop_reduce_begin(&f.n, DOP_REDUCE_most, "a");
    dop_nest_call(&f.n, "put", "0u");
    dop_reduce_note(dop_nest_let(&f.n, "float", "s", "%s", dop_reduce_all(&f.n, DOP_REDUCE_most, DOP_BY_lanes, "a")),
                    DOP_BY_lanes);
    read_x(&f);
    is_printed(&f, "floata=-3.4e38;put(0u);floats=subgroupMax(a);barrier();floaty=x[0];}");
}

Test(nest, a_function_leaves_what_it_wrote_after_its_last_barrier)
{
    fixture f;
    begin(&f);
    dop_nest_call(&f.n, "sum", "");
    read_x(&f);
    dop_nest_end(&f.n);
    dop_nest_function(&f.n, "sum", "");
    dop_nest_call(&f.n, "put", "0u");
    dop_reduce_note(dop_nest_let(&f.n, "float", "s", "dop_own_sum(0u, 1.0)"), DOP_BY_own);
    is_printed(&f, "sum();floaty=x[0];}voidsum(){put(0u);floats=dop_own_sum(0u,1.0);}");
}

Test(nest, memory_is_declared_before_the_function_that_is_open)
{
    fixture f;
    dop_buf b = {0};
    begin(&f);
    dop_nest_return(&f.n, "t >= %uu", 4u);
    const uint32_t c = dop_nest_shared(&f.n, "uint", "c", 4);
    cr_assert_eq(dop_nest_named(&f.n, "c[x1] + 2 * xc"), c);
    cr_assert_eq(dop_nest_named(&f.n, "c[x[0]]"), c | f.x);
    dop_nest_end(&f.n);
    cr_assert_eq(dop_nest_finish(&f.n), DOP_OK, "%s", f.diag.message);
    dop_nest_print(&f.n, &b);
    cr_assert(strstr(b.data, "shared uint c[4];\nvoid main()\n{\n    if (t >= 4u) return;\n}\n"), "%s", b.data);
    dop_buf_finish(&b);
    dop_arena_finish(&f.arena);
}

Test(nest, what_lines_of_code_do_to_memory_is_found_by_its_names)
{
    fixture f;
    begin(&f);
    dop_nest_code(&f.n, "x[y[0]].z = 1.0;\n");
    dop_nest_code(&f.n, "float xx = ax[0];\n");
    dop_nest_code(&f.n, "float z = x[1] == 0.0 ? 1.0 : 2.0;\n");
    dop_nest_code(&f.n, "if (u)\n    x[2] = z;\n");
    is_printed(&f, "x[y[0]].z=1.0;floatxx=ax[0];barrier();floatz=x[1]==0.0?1.0:2.0;barrier();if(u)x[2]=z;}");
}

Test(nest, code_that_hands_memory_over_is_refused_unless_its_elements_are_disjoint)
{
    fixture f;
    begin(&f);
    dop_nest_code(&f.n, "x[0] += x[1];\n");
    dop_nest_end(&f.n);
    is_refused(&f, "memory changes hands where invocations part");
    begin(&f);
    dop_nest_for(&f.n, "i", "0u", "8u", NULL);
    dop_nest_code(&f.n, "x[i] += x[i + 8u];\n")->disjoint = true;
    dop_nest_end(&f.n);
    is_printed(&f, "for(uinti=0u;i<8u;i++){barrier();x[i]+=x[i+8u];}}");
}

Test(nest, an_unrolled_loop_may_have_barriers)
{
    fixture f;
    begin(&f);
    dop_nest_unrolled(&f.n, "i", 2);
    dop_nest_call(&f.n, "put", "i");
    read_x(&f);
    dop_nest_end(&f.n);
    is_printed(&f, "[[unroll]]for(uinti=0u;i<2u;i++){barrier();put(i);barrier();floaty=x[0];}}");
}

Test(nest, lanes_that_run_in_step_call_what_the_placement_says)
{
    fixture f;
    begin(&f);
    f.n.placement.step = "STEP()";
    dop_nest_call(&f.n, "put", "0u");
    read_x(&f);
    is_printed(&f, "put(0u);STEP();floaty=x[0];}");
}

Test(nest, subgroups_that_pass_a_loop_by_themselves_meet_there_in_step_and_all_of_them_before_and_after)
{
    fixture f;
    begin(&f);
    dop_nest_call(&f.n, "put", "0u");
    dop_nest_for(&f.n, "i", "sub", "8u", NULL)->in_step = "STEP()";
    read_x(&f);
    dop_nest_call(&f.n, "put", "i");
    dop_nest_let(&f.n, "float", "z", "x[i]")->reads = f.x;
    dop_nest_end(&f.n);
    read_x(&f);
    is_printed(&f, "put(0u);barrier();for(uinti=sub;i<8u;i++){floaty=x[0];STEP();put(i);STEP();floatz=x[i];}barrier();"
                   "floaty=x[0];}");
}

Test(nest, branches_have_barriers_of_their_own)
{
    fixture f;
    begin(&f);
    dop_nest_call(&f.n, "put", "0u");
    dop_nest_if(&f.n, "uniform_one");
    read_x(&f);
    dop_nest_else(&f.n);
    dop_nest_let(&f.n, "uint", "nothing", "0u");
    dop_nest_end(&f.n);
    read_x(&f);
    is_printed(&f, "put(0u);if(uniform_one){barrier();floaty=x[0];}else{uintnothing=0u;}barrier();floaty=x[0];}");
}

Test(nest, loads_go_a_turn_ahead_also_to_the_next_turn_of_loops_around)
{
    static const char *const q[] = {"q0"};
    fixture f;
    begin(&f);
    dop_nest_array(&f.n, "vec4", "q0", 2);
    dop_stmt *s = dop_nest_for(&f.n, "row", "0u", "4u", "1u");
    s->more = "row + 1u < 4u";
    s->again = "row + 1u, 0u";
    dop_nest_for(&f.n, "u", "0u", "8u", "2u");
    dop_nest_ahead(&f.n, "fetch", "0u, 0u", "row, u", q, 1);
    dop_nest_add(&f.n, "sum", "q0[0].x");
    dop_nest_end(&f.n);
    dop_nest_end(&f.n);
    is_printed(&f, "vec4q0[2];vec4next_q0[2];fetch(0u,0u,q0);for(uintrow=0u;row<4u;row+=1u){for(uintu=0u;u<8u;u+=2u){"
                   "uintnext=u+2u;if(next<8u){fetch(row,next,next_q0);}elseif(row+1u<4u){fetch(row+1u,0u,next_q0);}"
                   "sum+=q0[0].x;q0=next_q0;}}}");
}

Test(nest, a_late_load_is_issued_when_the_turn_is_over)
{
    static const char *const q[] = {"q0"};
    fixture f;
    begin(&f);
    dop_nest_array(&f.n, "vec4", "q0", 2);
    dop_stmt *s = dop_nest_for(&f.n, "row", "0u", "4u", "1u");
    s->more = "row + 1u < 4u";
    s->again = "row + 1u, 0u";
    s->late = true;
    dop_nest_for(&f.n, "u", "0u", "8u", "2u");
    dop_nest_ahead(&f.n, "fetch", "0u, 0u", "row, u", q, 1);
    dop_nest_end(&f.n);
    dop_nest_end(&f.n);
    is_printed(&f, "vec4q0[2];vec4next_q0[2];fetch(0u,0u,q0);for(uintrow=0u;row<4u;row+=1u){for(uintu=0u;u<8u;u+=2u){"
                   "uintnext=u+2u;if(next<8u){fetch(row,next,next_q0);}q0=next_q0;}"
                   "if(row+1u<4u){fetch(row+1u,0u,q0);}}}");
}

Test(nest, a_loop_may_be_tested_behind_its_body)
{
    fixture f;
    begin(&f);
    dop_nest_let(&f.n, "uint", "b", "0u");
    dop_nest_rolled(&f.n, "b", NULL, "8u", "(b = more(b))");
    dop_nest_rolled(&f.n, "v", "0u", "4u", NULL);
    dop_nest_zeros(&f.n, "acc", 2);
    dop_nest_end(&f.n);
    dop_nest_end(&f.n);
    is_printed(
        &f,
        "uintb=0u;[[dont_unroll]]for(;;){[[dont_unroll]]for(uintv=0u;;){floatacc[2];[[unroll]]for(uinti=0u;i<2u;i++)"
        "{acc[i]=0.0;}if(++v>=4u)break;}if((b=more(b))>=8u)break;}}");
    begin(&f);
    dop_nest_rolled(&f.n, "v", "0u", "4u", NULL);
    dop_nest_end(&f.n);
    dop_nest_set(&f.n, "x[0]", "float(v)");
    dop_nest_end(&f.n);
    is_refused(&f, "not known where it is used: v");
}

Test(nest, names_are_known_where_they_are_used)
{
    fixture f;
    begin(&f);
    dop_nest_for(&f.n, "i", "0u", "8u", "1u");
    dop_nest_end(&f.n);
    dop_nest_let(&f.n, "uint", "late", "i + 1u");
    dop_nest_end(&f.n);
    is_refused(&f, "not known where it is used: i");
}

Test(nest, barriers_are_where_all_invocations_come)
{
    fixture f;
    begin(&f);
    dop_nest_if(&f.n, "LANE == 0u")->apart = true;
    dop_nest_reduce(&f.n, "sum", "dop_team_sum(sum)")->together = true;
    dop_nest_end(&f.n);
    dop_nest_end(&f.n);
    is_refused(&f, "not all invocations come to the barrier of sum");
}

Test(nest, memory_does_not_change_hands_where_invocations_part)
{
    fixture f;
    begin(&f);
    dop_nest_for(&f.n, "i", "LANE", "8u", "LANES")->apart = true;
    dop_nest_call(&f.n, "put", "i");
    read_x(&f);
    dop_nest_end(&f.n);
    dop_nest_end(&f.n);
    is_refused(&f, "memory changes hands where invocations part: i");
}

Test(nest, blocks_end)
{
    fixture f;
    begin(&f);
    dop_nest_if(&f.n, "true");
    is_refused(&f, "a block is still open");
}

Test(nest, loads_ahead_have_registers_and_a_loop)
{
    static const char *const q[] = {"q0"};
    fixture f;
    begin(&f);
    dop_nest_for(&f.n, "u", "0u", "8u", "2u");
    dop_nest_ahead(&f.n, "fetch", "0u", "u", q, 1);
    dop_nest_end(&f.n);
    dop_nest_end(&f.n);
    is_refused(&f, "no registers for loads ahead by fetch");
    begin(&f);
    dop_nest_array(&f.n, "vec4", "q0", 2);
    dop_nest_ahead(&f.n, "fetch", "0u", "u", q, 1);
    dop_nest_end(&f.n);
    is_refused(&f, "no loop is around loads ahead by fetch");
}

Test(nest, a_statement_in_an_unrolled_loop_may_read_what_a_library_writes)
{
    fixture f;
    begin(&f);
    dop_nest_if(&f.n, "a < b");
    dop_nest_for(&f.n, "i", "0u", "2u", NULL);
    dop_nest_ends(&f.n, 2);
    dop_nest_library(&f.n, "fill", "1u", 0, f.x);
    dop_nest_each(&f.n, "j", 4, "sum", "x[j]")->reads = f.x;
    dop_nest_library(&f.n, "drain", "", f.x, 0);
    is_printed(
        &f, "if(a<b){for(uinti=0u;i<2u;i++){}}fill(1u);barrier();[[unroll]]for(uintj=0u;j<4u;j++){sum=x[j];}drain();}");
}

Test(nest, a_dump_names_placements_memory_and_holes)
{
    fixture f;
    begin(&f);
    f.n.placement.at[DOP_PLACE_k][DOP_LEVEL_lane] = 32;
    f.n.placement.at[DOP_PLACE_k][DOP_LEVEL_reg] = 4;
    dop_nest_call(&f.n, "put", "0u");
    read_x(&f);
    dop_nest_hole(&f.n, "end", "    store(y);\n");
    dop_nest_end(&f.n);
    cr_assert_eq(dop_nest_finish(&f.n), DOP_OK);
    dop_buf b = {0};
    dop_nest_dump(&f.n, &b);
    static const char *const want[] = {
        "nest test\n", "\n  k: lane 32, reg 4\n",
        "\n  shared float x[64]\n  function put(uint k)\n    store x[gl_LocalInvocationIndex] = float(k), writes x\n",
        "\n    call put(0u)\n    barrier\n    let float y = x[0], reads x\n", "\n    hole end\n    store(y);\n"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        cr_expect(strstr(b.data, want[i]), "%s\nin\n%s", want[i], b.data);
    dop_buf_finish(&b);
    dop_arena_finish(&f.arena);
}
