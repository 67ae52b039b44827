#include "tools/doppler-exec/on_demand/compiler.h"

#include <dlfcn.h>
#include <string.h>

typedef dop_status compile_fn(const char *, const char *, const dop_compile_options *, dop_diag *, dop_compile_facts *);
typedef void prepare_fn(const char *);

dop_status
dop_load_and_compile(const char *model, const char *plan, const dop_compile_options *options, dop_diag *diag,
                     dop_compile_facts *out_facts)
{
    /* The library path of the program (its run path) leads to it. It stays loaded. */
    void *handle = dlopen(DOP_COMPILER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *compile = handle ? dlsym(handle, "dop_compile") : NULL;
    void *prepare = handle ? dlsym(handle, "dop_compiler_prepare") : NULL;
    if (!compile || !prepare) {
        const char *why = dlerror();
        return DOP_FAIL_IN(
            diag, DOP_E_USAGE, model,
            "this is a model, and what compiles it is not here: install the package doppler-compiler, or "
            "make a plan elsewhere with dopplerc (%s)",
            why ? why : "another release");
    }
    compile_fn *fn;
    prepare_fn *prepare_it;
    memcpy(&fn, &compile, sizeof fn); /* POSIX: function and data pointers have the same representation */
    memcpy(&prepare_it, &prepare, sizeof prepare_it);
    prepare_it("doppler-exec");
    return fn(model, plan, options, diag, out_facts);
}

void
dop_load_and_describe_compiler(dop_buf *out)
{
    void *handle = dlopen(DOP_COMPILER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *describe = handle ? dlsym(handle, "dop_shader_compiler_describe") : NULL;
    void (*fn)(dop_buf *);
    memcpy(&fn, &describe, sizeof fn);
    dop_buf_puts(out, fn ? "with " : "without the compiler of models");
    if (fn)
        fn(out);
    dop_buf_puts(out, "\n");
}

dop_status
dop_load_picture_fetcher(dop_diag *diag, dop_fetch_picture_fn **out_fetch)
{
    void *handle = dlopen(DOP_FETCH_MODULE, RTLD_NOW | RTLD_LOCAL);
    void *fetch = handle ? dlsym(handle, DOP_FETCH_PICTURE_ENTRY) : NULL;
    *out_fetch = NULL;
    if (!fetch) {
        const char *why = dlerror();
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "--image-urls: what downloads pictures is not here: install the package doppler-compiler (%s)",
                        why ? why : "another release");
    }
    memcpy(out_fetch, &fetch, sizeof *out_fetch);
    return DOP_OK;
}

dop_status
dop_load_and_fetch(const dop_fetch_request *request, dop_diag *diag, char **out_path)
{
    void *handle = dlopen(DOP_FETCH_MODULE, RTLD_NOW | RTLD_LOCAL);
    void *fetch = handle ? dlsym(handle, DOP_FETCH_ENTRY) : NULL;
    dop_fetch_fn *fn;
    *out_path = NULL;
    if (!fetch) {
        const char *why = dlerror();
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "-hf: what downloads models is not here: install the package doppler-compiler (%s)",
                        why ? why : "another release");
    }
    memcpy(&fn, &fetch, sizeof fn);
    return fn(request, diag, out_path);
}
