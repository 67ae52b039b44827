/* Target files: what is printed of a target is read as the same target. */
#include "compiler/target/target.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
read_again(const dop_target *base, const dop_target *now, dop_target *out)
{
    dop_buf text = {0};
    dop_diag diag = {0};
    char path[] = "/tmp/doppler-target-XXXXXX.yaml";
    const int fd = mkstemps(path, 5);
    cr_assert(fd >= 0);
    dop_buf_printf(&text, "base: %s\nname: changed\n", base->name);
    dop_target_print(base, now, &text);
    dop_buf_puts(&text, "schedule:\n  row_loads: 4\n");
    (void)dop_schedule_print(&base->schedule, &now->schedule, &text);
    cr_assert_not(text.failed);
    cr_assert_eq(write(fd, text.data, text.size), (ssize_t)text.size);
    close(fd);
    const dop_status st = dop_target_resolve(path, &diag, out);
    unlink(path);
    cr_assert_eq(st, DOP_OK, "%s in\n%s", diag.message, text.data);
    dop_buf_finish(&text);
}

static const char *const names[] = {"tier1", "tier3", "lavapipe", "nvidia-hopper", "amd-rdna3", "intel-xe2"};

Test(target_files, printed_numbers_are_read)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (uint32_t k = 0; k < dop_schedule_count(); k += 3) {
            dop_target base, now, again;
            dop_diag diag = {0};
            const char *name;
            uint32_t least;
            cr_assert_eq(dop_target_resolve(names[i], &diag, &base), DOP_OK);
            now = base;
            uint32_t *at = dop_schedule_number(&now.schedule, k, &name, &least);
            if (strcmp(name, "row_loads") == 0)
                continue;
            *at = *at * 2 + least;
            read_again(&base, &now, &again);
            cr_assert_eq(memcmp(&again.schedule, &now.schedule, sizeof now.schedule), 0, "%s of %s", name, names[i]);
        }
}

Test(target_files, printed_tables_are_read)
{
    uint32_t dropped = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (uint32_t k = 0; k < dop_schedule_table_count(); k++) {
            dop_target base, now, again;
            dop_diag diag = {0};
            cr_assert_eq(dop_target_resolve(names[i], &diag, &base), DOP_OK);
            now = base;
            cr_assert_not(dop_schedule_table_drop(&now.schedule, k, dop_schedule_table_rows(&base.schedule, k)));
            if (!dop_schedule_table_drop(&now.schedule, k, 0))
                continue;
            dropped++;
            read_again(&base, &now, &again);
            for (uint32_t t = 0; t < dop_schedule_table_count(); t++)
                cr_assert_eq(dop_schedule_table_rows(&again.schedule, t), dop_schedule_table_rows(&now.schedule, t));
            cr_assert_eq(dop_schedule_table_rows(&now.schedule, k) + 1, dop_schedule_table_rows(&base.schedule, k));
        }
    cr_assert_gt(dropped, 10);
}

Test(target_files, printed_fields_are_read)
{
    dop_target base, now, again;
    dop_diag diag = {0};
    cr_assert_eq(dop_target_resolve("nvidia-hopper", &diag, &base), DOP_OK);
    now = base;
    now.cores = 7;
    now.caps &= ~(uint32_t)(DOP_CAP_coop | DOP_CAP_coop_pairs | DOP_CAP_coop_f16_sums);
    now.matrix = 0;
    now.bandwidth = 1.25e11;
    now.max_alloc = 1u << 30;
    now.merges = false;
    now.int_dot = DOP_INT_DOT_ALLOW;
    read_again(&base, &now, &again);
    cr_assert_eq(again.cores, 7);
    cr_assert_eq(again.caps, now.caps);
    cr_assert_eq(again.matrix, 0);
    cr_assert_eq(again.bandwidth, now.bandwidth);
    cr_assert_eq(again.max_alloc, now.max_alloc);
    cr_assert_eq(again.merges, false);
    cr_assert_eq(again.int_dot, DOP_INT_DOT_ALLOW);
}
