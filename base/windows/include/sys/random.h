/* What <sys/random.h> of POSIX has is in base/windows/posix.h. */
#ifndef DOPPLER_BASE_WINDOWS_INCLUDE_SYS_RANDOM_H
#define DOPPLER_BASE_WINDOWS_INCLUDE_SYS_RANDOM_H

#include "base/windows/posix.h"

#endif
