/* Ends a program whose shader compiler runs out of memory. */
#include "compiler/library/job.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* std::set_new_handler of the C++ library. The shader compiler is C++ and may hold a lock when an allocation fails.
 * Threads that need this lock would then wait forever, so the program exits instead. */
void (*set_new_handler(void (*handler)(void)))(void) __asm__("_ZSt15set_new_handlerPFvvE");

static const char *program_name = ""; /* static, because a new-handler has no arguments */

static void
end_without_memory(void)
{
    static const char text[] = ": error: out of memory in the shader compiler: fewer threads (-j) need less\n";
    static atomic_flag ends = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&ends)) /* another thread is ending the program */
        pause();
    ssize_t n = write(STDERR_FILENO, program_name, strlen(program_name));
    n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
    _exit(1);
}

void
dop_compiler_prepare(const char *program)
{
    program_name = program;
    (void)set_new_handler(end_without_memory);
}
