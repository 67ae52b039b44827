/* Additions to the public interface for this tree's own programs: facts about plans and devices. */
#ifndef DOPPLER_RUNTIME_MODEL_INFO_H
#define DOPPLER_RUNTIME_MODEL_INFO_H

#include "base/base.h"
#include "base/caps.h"
#include "base/os/log.h"
#include "plan/plan.h"
#include "runtime/sample/sampling.h"

#include <doppler/doppler.h>

typedef struct dop_model_info {
    const dop_plan *plan;
    const dop_device_caps *device;
    uint32_t profile;  /* index in the plan's profiles */
    uint32_t decode;   /* index in the plan's schedules of the one that decodes one token */
    uint32_t ordering; /* DOP_ORDER_* of `decode`; barriers after a stall */
    bool stalled;      /* a wait for a value exceeded its bound, and the steps were repeated with barriers */
    double probe_ms;   /* time to choose the ordering, part of load_ms; 0: no probe ran */
    double load_ms;    /* duration of dop_model_open */
    double pipelines_ms, upload_ms,
        verify_ms;         /* parts of load_ms, which overlap; pipelines_ms covers the first schedules only */
    double waited_ms;      /* time after loading that steps waited for kernels that were not compiled yet */
    uint64_t device_bytes; /* size of all device allocations */
} dop_model_info;

enum { DOP_SLOT_KINDS = DOP_SLOT_SENT + 1 };
/* Computes the device memory in bytes of a profile with all its schedules, by DOP_SLOT_*. */
dop_status dop_used_memory(const dop_plan *plan, uint32_t profile, dop_diag *diag, uint64_t out_bytes[DOP_SLOT_KINDS]);

void dop_model_describe(const dop_model *model, dop_model_info *out_info);

#endif
