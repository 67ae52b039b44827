#include "runtime/device/pipeline_report.h"

#include "plan/plan_names.h"
#include "runtime/device/pipelines.h"
#include "runtime/device/views.h"

#include <stdlib.h>
#include <string.h>

/* Pipeline statistics that drivers report under different names. */
typedef enum number { REGISTERS, SPILLED, SCRATCH, SHARED, WAVES, CODE, N_NUMBERS } number;

static const char *const headings[N_NUMBERS] = {"registers", "spilled", "scratch", "shared", "waves", "code"};

/* Statistic names of Mesa's drivers for AMD, Intel and Adreno (RADV, ANV, Turnip) and of NVIDIA's. For spills, Intel
 * reports stores to memory, AMD the registers that did not fit. */
static const struct {
    number of;
    const char *name;
} names[] = {
    {REGISTERS, "VGPRs"},
    {REGISTERS, "Max live registers"},
    {REGISTERS, "Register Count"},
    {REGISTERS, "Full precision registers"},
    {SPILLED, "Spilled VGPRs"},
    {SPILLED, "Spill Count"},
    {SCRATCH, "Scratch size"},
    {SCRATCH, "Scratch Memory Size"},
    {SCRATCH, "Local Memory Size"},
    {SHARED, "LDS size"},
    {SHARED, "Workgroup Memory Size"},
    {SHARED, "Shared Memory Size"},
    {WAVES, "Subgroups per SIMD"},
    {WAVES, "Max Waves Per Core"},
    {CODE, "Code size"},
    {CODE, "Binary Size"},
    {CODE, "Instruction Count"},
};

typedef struct made {
    uint64_t value[N_NUMBERS];
    bool told[N_NUMBERS];
    uint32_t subgroup;
} made;

typedef struct asker {
    dop_device device;
    VkPipelineLayout layout;
    PFN_vkGetPipelineExecutablePropertiesKHR properties;
    PFN_vkGetPipelineExecutableStatisticsKHR statistics;
} asker;

static void
take_statistic(const VkPipelineExecutableStatisticKHR *s, made *out)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(s->name, names[i].name) != 0 || s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR)
            continue;
        /* NVIDIA's driver 580 writes only the lower half of a local memory size. */
        const uint64_t value =
            s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR ? s->value.b32 : (uint32_t)s->value.u64;
        if (!out->told[names[i].of] || value > out->value[names[i].of])
            out->value[names[i].of] = value; /* take the maximum over the parts of a pipeline */
        out->told[names[i].of] = true;
    }
}

static void
query_statistics(const asker *a, VkPipeline pipeline, made *out)
{
    enum { MAX_PARTS = 4, MAX_STATISTICS = 64 };
    VkPipelineExecutablePropertiesKHR parts[MAX_PARTS];
    VkPipelineExecutableStatisticKHR rows[MAX_STATISTICS];
    const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    uint32_t n_parts = MAX_PARTS;
    memset(parts, 0, sizeof parts);
    for (uint32_t i = 0; i < MAX_PARTS; i++)
        parts[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    if (a->properties(a->device.handle, &info, &n_parts, parts) < 0)
        return;
    for (uint32_t i = 0; i < n_parts; i++) {
        const VkPipelineExecutableInfoKHR part = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = i};
        uint32_t n = MAX_STATISTICS;
        memset(rows, 0, sizeof rows);
        for (uint32_t k = 0; k < MAX_STATISTICS; k++)
            rows[k].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
        if (a->statistics(a->device.handle, &part, &n, rows) < 0)
            continue;
        out->subgroup = parts[i].subgroupSize;
        for (uint32_t k = 0; k < n; k++)
            take_statistic(&rows[k], out);
    }
}

/* Finds a schedule that dispatches a kernel; NULL: none. Kernels of stages have no pipeline, because they are parts of
 * another kernel. If several profiles use a kernel, the shape of its matrices is the same in all of them. */
static const dop_plan_schedule *
find_dispatching_schedule(const dop_plan *plan, uint32_t kernel)
{
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        for (uint32_t k = 0; k < s->n_dispatches; k++)
            if (plan->dispatches[s->first_dispatch + k].kernel == kernel)
                return s;
    }
    return NULL;
}

static void
put_kernel_line(const dop_plan_kernel *k, const char *name, const made *m, dop_buf *out)
{
    dop_buf_printf(out, "%-44s %6u %8u", name, k->local[0] * k->local[1] * k->local[2], m->subgroup);
    for (uint32_t i = 0; i < N_NUMBERS; i++)
        if (m->told[i])
            dop_buf_printf(out, " %9llu", (unsigned long long)m->value[i]);
        else
            dop_buf_printf(out, " %9s", "-");
    dop_buf_puts(out, "\n");
}

typedef struct counts {
    uint32_t kernels, made, spilling;
} counts;

static dop_status
report_kernel(asker *a, const dop_plan *plan, bool *only, uint32_t i, uint32_t matrix, counts *n, dop_buf *out,
              dop_diag *diag)
{
    const dop_plan_kernel *k = &plan->kernels[i];
    const char *name = dop_plan_string(plan, k->name);
    dop_buf reason = {0};
    VkPipeline pipeline = VK_NULL_HANDLE;
    dop_diag why = {0};
    n->kernels++;
    only[i] = true;
    dop_pipelines_refuse(&a->device.info, plan, only, NULL, 0, matrix, &reason);
    only[i] = false;
    if (reason.failed) {
        dop_buf_finish(&reason);
        return DOP_NO_MEMORY(diag);
    }
    if (reason.size || dop_pipeline_create(&a->device, a->layout, VK_NULL_HANDLE, plan, i, &pipeline, &why) != DOP_OK) {
        dop_buf_printf(out, "%-44s no pipeline: %s\n", name, reason.size ? reason.data : why.message);
        dop_buf_finish(&reason);
        return DOP_OK;
    }
    made m = {0};
    query_statistics(a, pipeline, &m);
    vkDestroyPipeline(a->device.handle, pipeline, NULL);
    put_kernel_line(k, name, &m, out);
    n->made++;
    n->spilling += m.value[SPILLED] > 0 || m.value[SCRATCH] > 0;
    return DOP_OK;
}

static dop_status
report_kernels(asker *a, const dop_plan *plan, dop_buf *out, dop_diag *diag)
{
    counts n = {0};
    bool *only = calloc(plan->n_kernels, sizeof *only);
    if (!only)
        return DOP_NO_MEMORY(diag);
    dop_buf_printf(out, "%-44s %6s %8s", "kernel", "local", "subgroup");
    for (uint32_t i = 0; i < N_NUMBERS; i++)
        dop_buf_printf(out, " %9s", headings[i]);
    dop_buf_puts(out, "\n");
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < plan->n_kernels && st == DOP_OK; i++) {
        const dop_plan_schedule *s = find_dispatching_schedule(plan, i);
        if (s)
            st = report_kernel(a, plan, only, i, plan->profiles[s->profile].matrix, &n, out, diag);
    }
    dop_buf_printf(out, "%s: %u of %u kernels made, %u of them with spilled registers\n", a->device.info.caps.name,
                   n.made, n.kernels, n.spilling);
    free(only);
    if (st == DOP_OK && out->failed)
        st = DOP_NO_MEMORY(diag);
    return st;
}

dop_status
dop_pipelines_report(const dop_plan *plan, const char *which, dop_buf *out, dop_diag *diag)
{
    dop_instance instance;
    asker a = {0};
    uint32_t index = 0, wanted = 0;
    dop_status st = dop_instance_create(diag, &instance);
    if (st != DOP_OK)
        return st;
    st = dop_instance_choose(&instance, which, diag, &index);
    if (st != DOP_OK)
        goto error;
    dop_device_info *info = &instance.devices[index];
    if (!info->has_statistics) {
        st = DOP_FAIL(diag, DOP_E_DEVICE, "%s does not tell what it makes of kernels: its driver lacks %s",
                      info->caps.name, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
        goto error;
    }
    info->statistics = true;
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        wanted |= plan->kernels[i].caps & info->caps.caps;
    st = dop_device_create(&instance, index, wanted, diag, &a.device);
    if (st == DOP_OK)
        st = dop_pipeline_layout(&a.device, diag, &a.layout);
    if (st != DOP_OK)
        goto error;
    a.properties = (PFN_vkGetPipelineExecutablePropertiesKHR)vkGetDeviceProcAddr(
        a.device.handle, "vkGetPipelineExecutablePropertiesKHR");
    a.statistics = (PFN_vkGetPipelineExecutableStatisticsKHR)vkGetDeviceProcAddr(
        a.device.handle, "vkGetPipelineExecutableStatisticsKHR");
    st = a.properties && a.statistics ? report_kernels(&a, plan, out, diag)
                                      : DOP_FAIL(diag, DOP_E_DEVICE, "%s lacks functions of %s", info->caps.name,
                                                 VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
error:
    if (a.device.handle)
        vkDestroyPipelineLayout(a.device.handle, a.layout, NULL);
    dop_device_destroy(&a.device);
    dop_instance_destroy(&instance);
    return st;
}
