/* Points at which memory is asked for, and which can fail: shared by the programs here.
 *
 * A program is linked with --wrap for every function with a __wrap_ in points.c (tests/CMakeLists.txt): malloc and its
 * relatives of our code and of Jansson, and appends to growable buffers (few of them grow one).  It may wrap more with
 * POINT_FAILS(). */
#ifndef DOPPLER_TESTS_FAULTS_POINTS_H
#define DOPPLER_TESTS_FAULTS_POINTS_H

#include "base/base.h"

enum { MAX_POINTS = 4000000 };

/* Sanitizers make a process of its own take a second. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

extern bool points_armed;
extern uint64_t points_fail_at;      /* 1 is the first point; 0: none */
extern _Atomic uint64_t points_seen; /* so far in this run */
extern void **points_places;         /* [MAX_POINTS] of the first run; NULL in the others */

/* Whether this point is to fail; errno is set then. */
bool points_fail(void *place);
#define POINT_FAILS() points_fail(__builtin_return_address(0))
#define WRAP(type, name, parameters, arguments)                \
    type __real_##name parameters;                             \
    type __wrap_##name parameters;                             \
    type __wrap_##name parameters                              \
    {                                                          \
        return POINT_FAILS() ? NULL : __real_##name arguments; \
    }

/* Lets Jansson's allocations fail too, but those while it reads. */
void points_of_json(void);
/* Points to let fail, of n whose places are known: per place the first and the last, and some that lie between; or (all)
 * each.  Returns how many. */
uint64_t points_choose(bool all, uint64_t n, uint64_t *out);

#endif
