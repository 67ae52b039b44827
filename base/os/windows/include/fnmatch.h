/* Stand-in for POSIX <fnmatch.h>; declarations are in base/os/windows/posix.h. */
#ifndef DOPPLER_BASE_OS_WINDOWS_INCLUDE_FNMATCH_H
#define DOPPLER_BASE_OS_WINDOWS_INCLUDE_FNMATCH_H

#include "base/os/windows/posix.h"

#endif
