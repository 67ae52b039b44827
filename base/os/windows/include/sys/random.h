/* Stand-in for POSIX <sys/random.h>; declarations are in base/os/windows/posix.h. */
#ifndef DOPPLER_BASE_OS_WINDOWS_INCLUDE_SYS_RANDOM_H
#define DOPPLER_BASE_OS_WINDOWS_INCLUDE_SYS_RANDOM_H

#include "base/os/windows/posix.h"

#endif
