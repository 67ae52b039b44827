# Libraries that Doppler uses, and the options that follow from what is found.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(VULKAN REQUIRED IMPORTED_TARGET vulkan)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng) # pictures
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebpdemux libwebp)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib) # how often a transcript repeats itself
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
if(DOPPLER_COMPILER)
  pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto) # SHA-256 of RDRR shards
else()
  add_library(PkgConfig::CRYPTO INTERFACE IMPORTED)
endif()
if(DOPPLER_EDIT)
  pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
endif()

# Plugins, which programs and the library load when they need them.
find_package(MPI QUIET COMPONENTS C)
option(DOPPLER_MPI "Build the plugin that runs plans in parts, one MPI rank each" ${MPI_C_FOUND})
if(DOPPLER_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
endif()
pkg_check_modules(CURL IMPORTED_TARGET libcurl)
option(DOPPLER_FETCH "Build the plugin that downloads models (-hf)" ${CURL_FOUND})
if(DOPPLER_FETCH)
  pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
endif()
# libsndfile brings decoders that only models of speech need.
pkg_check_modules(AUDIO IMPORTED_TARGET sndfile samplerate kissfft-float)
option(DOPPLER_AUDIO "Build the plugin that reads audio" ${AUDIO_FOUND})
if(DOPPLER_AUDIO)
  pkg_check_modules(AUDIO REQUIRED IMPORTED_TARGET sndfile samplerate kissfft-float)
endif()

# Debian 12's libshaderc.so leaves glslang's symbols undefined, so nothing can be linked with it.  Where that is so, the static parts
# that its development packages ship are used.  gold looks only when it has all libraries that this one names.
add_library(dop_shaderc INTERFACE)
if(DOPPLER_COMPILER)
  include(CheckCSourceCompiles)
  find_library(SHADERC_LIBRARY NAMES shaderc shaderc_combined REQUIRED)
  set(CMAKE_REQUIRED_LIBRARIES ${SHADERC_LIBRARY} stdc++ m)
  check_c_source_compiles("#include <shaderc/shaderc.h>
                           int main(void) { shaderc_compiler_release(shaderc_compiler_initialize()); }"
                          DOPPLER_SHARED_SHADERC_LINKS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(DOPPLER_SHARED_SHADERC_LINKS)
    target_link_libraries(dop_shaderc INTERFACE ${SHADERC_LIBRARY} SPIRV-Tools stdc++)
  else()
    cmake_path(GET SHADERC_LIBRARY PARENT_PATH shaderc_parts)
    target_link_directories(dop_shaderc INTERFACE ${shaderc_parts})
    target_link_libraries(dop_shaderc INTERFACE
      shaderc_combined glslang MachineIndependent GenericCodeGen OSDependent OGLCompiler SPIRV SPIRV-Tools-opt SPIRV-Tools
      stdc++ Threads::Threads m)
  endif()
endif()
