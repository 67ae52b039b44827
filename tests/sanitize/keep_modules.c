/* Linked into every program of the sanitized build: no shared library is unloaded before the program ends.
 *
 * LeakSanitizer looks for leaks when a program ends, and calls memory leaked when nothing points to it.  What a Vulkan
 * driver keeps in its own global variables is lost in this sense once the loader unloads the driver, which it does in
 * vkDestroyInstance.  Mesa allocates such memory on AMD processors (a table of L3 masks); the report then names an
 * "<unknown module>", which no suppression can match, and says nothing about Doppler.
 *
 * The Vulkan loader calls dlclose through its procedure linkage table, so that this definition in the executable, which
 * the linker exports because libvulkan.so refers to the name, is found before that of the C library and before the weak
 * one of AddressSanitizer's runtime.  `mistake unloaded` (tests/tools/mistake.c) proves it in every run of
 * tests/run.sh.  Memory that our code loses is reported as before: no root of the search is added but the globals of
 * libraries that our code cannot write to. */
#include <dlfcn.h>

int
dlclose(void *handle)
{
    (void)handle;
    return 0;
}
