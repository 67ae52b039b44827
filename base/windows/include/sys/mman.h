/* What <sys/mman.h> of POSIX has is in base/windows/posix.h. */
#ifndef DOPPLER_BASE_WINDOWS_INCLUDE_SYS_MMAN_H
#define DOPPLER_BASE_WINDOWS_INCLUDE_SYS_MMAN_H

#include "base/windows/posix.h"

#endif
