/* Stand-in for POSIX <dlfcn.h>; declarations are in base/os/windows/posix.h. */
#ifndef DOPPLER_BASE_OS_WINDOWS_INCLUDE_DLFCN_H
#define DOPPLER_BASE_OS_WINDOWS_INCLUDE_DLFCN_H

#include "base/os/windows/posix.h"

#endif
