/* States of prompts in host memory and in files. */
#include "runtime/cache/store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const dop_snapshot_plan plan = {.plan = 7, .layout = 9, .vocab = 1000, .ctx = 4096};
static char folder[64];
static dop_diag diag;

static void
make_folder(void)
{
    strcpy(folder, "/tmp/test_store.XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void
remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

/* The keys of a prompt, and the image of a block or point of it, whose states are bytes of one value. */
static void
make_keys(uint32_t seed, uint32_t *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (seed * 31 + i * 7) % 1000;
}

static dop_snapshot_key
key_of(const uint32_t *keys, uint32_t from, uint32_t to, bool whole)
{
    dop_snapshot_key key = {.from = from, .to = to, .whole = whole};
    uint64_t digest[1][2];
    dop_snapshot_digests(0, keys, &to, 1, digest);
    memcpy(key.digest, digest[0], sizeof key.digest);
    return key;
}

static dop_snapshot_key
put(dop_store *s, const uint32_t *keys, uint32_t from, uint32_t to, bool whole, uint8_t value, uint64_t size)
{
    const dop_snapshot_key key = key_of(keys, from, to, whole);
    dop_snapshot_head head;
    dop_snapshot *x = dop_snapshot_begin(&plan, &key, 0, 0, keys + (whole ? 0 : from), size, &head);
    cr_assert(x);
    memset(x->bytes + dop_snapshot_states_at(&head), value, size);
    dop_snapshot_finish(x);
    dop_store_put(s, &key, x);
    dop_snapshot_release(x);
    return key;
}

static bool
has(dop_store *s, const dop_snapshot_key *key, const uint32_t *keys, uint8_t value)
{
    dop_snapshot *x = dop_store_get(s, key, keys + (key->whole ? 0 : key->from));
    dop_snapshot_head head;
    if (!x)
        return false;
    cr_assert_eq(dop_snapshot_check(x->bytes, x->size, &plan, "", &diag, &head), DOP_OK, "%s", diag.message);
    const bool good = x->bytes[dop_snapshot_states_at(&head)] == value;
    dop_snapshot_release(x);
    return good;
}

Test(store, memory)
{
    const dop_store_options o = {.memory = 10000, .block = 64, .plan = plan};
    uint32_t a[256], b[256], n, *at;
    dop_store *s;
    make_keys(1, a, 256);
    make_keys(2, b, 256);
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    const dop_snapshot_key first = put(s, a, 0, 64, false, 1, 2000), second = put(s, a, 64, 128, false, 2, 2000),
                           point = put(s, a, 128, 130, true, 3, 2000);
    cr_assert(has(s, &first, a, 1) && has(s, &second, a, 2) && has(s, &point, a, 3));
    cr_assert(!has(s, &(dop_snapshot_key){.to = 64}, a, 1));
    cr_assert(dop_store_get(s, &first, b) == NULL, "equal digests are not enough: keys are compared");
    cr_assert(has(s, &first, a, 1));
    cr_assert(dop_store_points(s, 129, &n) == NULL && n == 0);
    at = dop_store_points(s, 200, &n);
    cr_assert(n == 1 && at[0] == 130);
    free(at);
    /* The least recently used go. */
    dop_store_refresh(s);
    cr_assert(has(s, &first, a, 1));
    for (uint32_t i = 0; i < 4; i++)
        (void)put(s, b, i * 64 / 4, 64 + i, true, 9, 1500);
    cr_assert(dop_store_count(s).bytes <= 10000);
    cr_assert(!has(s, &second, a, 2));
    dop_store_destroy(s);
}

Test(store, files, .init = make_folder, .fini = remove_folder)
{
    const dop_store_options o = {.memory = 0, .folder = folder, .bound = 1 << 20, .block = 64, .plan = plan};
    dop_store_options other = o;
    uint32_t a[256];
    struct stat sb;
    char path[256], name[DOP_FILE_NAME];
    dop_store *s, *t;
    make_keys(3, a, 256);
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    cr_assert_eq(dop_store_create(&o, &diag, &t), DOP_OK); /* another process */
    const dop_snapshot_key row = put(s, a, 0, 64, false, 1, 5000), point = put(s, a, 64, 70, true, 2, 5000);
    dop_store_destroy(s); /* everything is written */
    dop_store_refresh(t);
    cr_assert(has(t, &row, a, 1) && has(t, &point, a, 2), "what others wrote is found");
    cr_assert_eq(dop_store_count(t).from_files, 2);
    dop_store_destroy(t);
    /* After a restart; not for another plan. */
    other.plan.plan = 8;
    cr_assert_eq(dop_store_create(&other, &diag, &t), DOP_OK);
    cr_assert(!dop_store_has(t, &row));
    dop_store_destroy(t);
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    cr_assert(dop_store_has(s, &row) && has(s, &point, a, 2));
    /* A damaged file is no file, and goes. */
    dop_file_name(&plan, &row, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert(stat(path, &sb) == 0 && (sb.st_mode & 0777) == 0600);
    int fd = open(path, O_WRONLY);
    cr_assert(fd >= 0 && pwrite(fd, "x", 1, 2000) == 1 && close(fd) == 0);
    cr_assert(!has(s, &row, a, 1) && access(path, F_OK) != 0 && !dop_store_has(s, &row));
    /* One that is gone is missed once. */
    dop_file_name(&plan, &point, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert(unlink(path) == 0 && !has(s, &point, a, 2) && !dop_store_has(s, &point));
    dop_store_destroy(s);
}

Test(store, bound_of_files, .init = make_folder, .fini = remove_folder)
{
    const dop_store_options o = {.memory = 0, .folder = folder, .bound = 50000, .block = 64, .plan = plan};
    uint32_t a[256];
    dop_store *s;
    dop_snapshot_key keys[8];
    make_keys(4, a, 256);
    for (uint32_t i = 0; i < 8; i++) {
        cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
        keys[i] = put(s, a, i / 8, 64 + i, true, (uint8_t)i, 10000);
        dop_store_destroy(s);
        usleep(5000); /* file times tell them apart */
    }
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    cr_assert(!dop_store_has(s, &keys[0]) && has(s, &keys[7], a, 7), "the oldest went");
    dop_store_destroy(s);
}

/* Waits for what the thread writes. */
static void
settle(const dop_store *s)
{
    while (dop_store_count_files(s).waiting > 0)
        usleep(1000);
}

/* A folder that somebody empties or removes is filled again, and what stands in a file's place is left alone. */
Test(store, files_that_go, .init = make_folder, .fini = remove_folder)
{
    const dop_store_options o = {.folder = folder, .bound = 1 << 20, .block = 64, .plan = plan};
    uint32_t a[256];
    char path[256], name[DOP_FILE_NAME];
    dop_store *s;
    make_keys(1, a, 256);
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    const dop_snapshot_key first = put(s, a, 0, 64, false, 1, 2000);
    settle(s);
    remove_folder();
    dop_store_refresh(s);
    cr_assert(!dop_store_has(s, &first), "nobody reads it in vain");
    (void)put(s, a, 0, 64, false, 1, 2000);
    settle(s);
    dop_store_refresh(s);
    cr_assert(has(s, &first, a, 1));
    dop_file_name(&plan, &first, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    cr_assert(!has(s, &first, a, 1), "a FIFO is not waited for");
    (void)put(s, a, 0, 64, false, 1, 2000);
    settle(s);
    cr_assert_eq(dop_store_count_files(s).written, 2);
    dop_store_destroy(s);
}

Test(store, bound_that_shrinks, .init = make_folder, .fini = remove_folder)
{
    dop_store_options o = {.folder = folder, .bound = 1 << 20, .block = 64, .plan = plan};
    uint32_t a[256];
    dop_store *s;
    make_keys(1, a, 256);
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    for (uint32_t i = 0; i < 4; i++)
        (void)put(s, a, i * 64, (i + 1) * 64, false, 1, 2000);
    dop_store_destroy(s);
    o.bound = 5000;
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    dop_store_destroy(s);
    o.bound = 1 << 20;
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_OK);
    cr_assert_eq(dop_store_count_files(s).removed, 0);
    cr_assert_leq(dop_store_count_files(s).bytes, 5000);
    cr_assert_gt(dop_store_count_files(s).bytes, 0);
    dop_store_destroy(s);
}

Test(store, folders_that_cannot_be, .init = make_folder, .fini = remove_folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    dop_store_options o = {.folder = path, .bound = 1, .block = 64, .plan = plan};
    dop_store *s;
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_E_IO);
    o.folder = "/nowhere/at/all";
    cr_assert_eq(dop_store_create(&o, &diag, &s), DOP_E_IO);
}

Test(store, names)
{
    const dop_snapshot_key key = {.digest = {5, 1ull << 63}, .from = 64, .to = 100, .whole = true};
    dop_snapshot_plan other = plan;
    dop_snapshot_key read;
    char name[DOP_FILE_NAME];
    dop_file_name(&plan, &key, name);
    cr_assert(dop_file_name_read(&plan, name, &read) && memcmp(&read.digest, &key.digest, sizeof key.digest) == 0 &&
              read.from == 64 && read.to == 100 && read.whole);
    other.layout = 1;
    cr_assert(!dop_file_name_read(&other, name, &read));
    name[0] = 'Z';
    cr_assert(!dop_file_name_read(&plan, name, &read) && !dop_file_name_read(&plan, "", &read) &&
              !dop_file_name_read(&plan, "README", &read));
}

Test(store, images_that_are_not)
{
    uint32_t a[64];
    make_keys(5, a, 64);
    const dop_snapshot_key key = key_of(a, 0, 64, false);
    dop_snapshot_head head, read;
    dop_snapshot *x = dop_snapshot_begin(&plan, &key, 0, 0, a, 100, &head);
    dop_snapshot_finish(x);
    cr_assert_eq(dop_snapshot_check(x->bytes, x->size, &plan, "", &diag, &read), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_snapshot_states_size(&read), 100);
    for (uint64_t n = 0; n < x->size; n++) /* cut short anywhere */
        cr_assert_eq(dop_snapshot_check(x->bytes, n, &plan, "", NULL, &read), DOP_E_INPUT);
    for (uint64_t i = 0; i < x->size; i++) { /* one byte changed */
        x->bytes[i] ^= 1;
        cr_assert_eq(dop_snapshot_check(x->bytes, x->size, &plan, "", NULL, &read), DOP_E_INPUT);
        x->bytes[i] ^= 1;
    }
    /* Counts that do not fit, under a digest that does. */
    uint32_t *const counts[] = {&head.n_tokens, &head.from,    &head.to,   &head.over,
                                &head.n_note,   &head.n_marks, &head.flags};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const uint32_t right = *counts[i];
        *counts[i] = UINT32_MAX - 3;
        memcpy(x->bytes, &head, sizeof head);
        dop_snapshot_finish(x);
        cr_assert_eq(dop_snapshot_check(x->bytes, x->size, &plan, "", NULL, &read), DOP_E_INPUT, "count %zu", i);
        *counts[i] = right;
    }
    dop_snapshot_release(x);
}
