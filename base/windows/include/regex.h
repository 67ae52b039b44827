/* Regular expressions of POSIX, which PCRE2 has. */
#ifndef DOPPLER_BASE_WINDOWS_INCLUDE_REGEX_H
#define DOPPLER_BASE_WINDOWS_INCLUDE_REGEX_H

#include <pcre2posix.h>

#endif
