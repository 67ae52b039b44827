/* A target profile: what the device offers and roughly what things cost there.  Passes and kernels read it; the
 * compiler fills it from a built-in row, a YAML file or the device itself. */
#ifndef DOPPLER_IR_TARGET_H
#define DOPPLER_IR_TARGET_H

#include "runtime/caps.h"

/* Kernels that round activations to 8 bits: when asked for, wherever they can be used, or never. */
typedef enum dop_int_dot { DOP_INT_DOT_ALLOW, DOP_INT_DOT_PREFER, DOP_INT_DOT_OFF } dop_int_dot;

typedef struct dop_target {
    char name[32];
    uint32_t caps;          /* DOP_CAP_* */
    uint32_t subgroup;      /* invocations per subgroup; 1 when caps lacks subgroup */
    uint32_t max_workgroup; /* invocations */
    uint32_t shared_bytes;  /* per workgroup */
    uint32_t push_bytes;
    uint32_t registers;  /* 32-bit registers per invocation before spilling hurts */
    uint32_t cores;      /* multiprocessors, or CPU cores */
    uint32_t matrix;     /* DOP_MATRIX_SHAPE of its matrix units; 0 when caps lacks them */
    uint64_t max_alloc;  /* bytes of one device allocation */
    double bandwidth;    /* bytes per second, read */
    double dispatch_us;  /* one empty dispatch */
    double barrier_us;   /* one dependent dispatch on top of that */
    double workgroup_us; /* one empty workgroup (what counts on CPUs) */
    bool merges;         /* workgroups of a dispatch may tell each other by atomics: the last one merges cache splits */
    uint32_t persistent; /* invocations per workgroup of a dispatch whose workgroups, one per core, stay; 0: none */
    bool cpu;            /* a software device: few large workgroups, wide loads */
    dop_int_dot int_dot; /* off: caps lacks it too */
} dop_target;

#endif
