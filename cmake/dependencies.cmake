# System features and libraries, and the options that depend on them.

# Requires 64 bits: plans and weights are mapped into memory as a whole.
if(CMAKE_SIZEOF_VOID_P AND NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  math(EXPR bits "8 * ${CMAKE_SIZEOF_VOID_P}")
  message(FATAL_ERROR "Doppler needs a 64-bit system, and ${CMAKE_C_COMPILER} makes code of ${bits} bits (docs/platforms.md)")
endif()
if(CMAKE_C_BYTE_ORDER STREQUAL "BIG_ENDIAN")
  message(FATAL_ERROR "Doppler needs a little-endian system, and ${CMAKE_C_COMPILER} makes big-endian code (docs/platforms.md)")
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
# dop_need(PREFIX OPTION MODULE...): requires pkg-config libraries, as PkgConfig::PREFIX. The error suggests -DOPTION=OFF unless OPTION is empty.
function(dop_need prefix option)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${ARGN})
  if(${prefix}_FOUND)
    return()
  endif()
  foreach(module IN LISTS ARGN)
    pkg_check_modules(one_${module} QUIET ${module})
    if(NOT one_${module}_FOUND)
      list(APPEND missing ${module})
    endif()
  endforeach()
  list(JOIN missing ", " missing)
  if(option)
    set(option ", or leave it out with -D${option}=OFF")
  endif()
  message(FATAL_ERROR "pkg-config does not find ${missing}: install the library (tests/packages.txt names Debian's package)${option}")
endfunction()
# dop_offer(OPTION DEFAULT HELP PREFIX MODULE...): defines an option. It defaults to on if DEFAULT is on and the libraries are found.
function(dop_offer option default help prefix)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${ARGN})
  if(NOT ${prefix}_FOUND)
    list(JOIN ARGN ", " modules)
    if(default AND NOT ${option})
      message(STATUS "${option} is off (${help}): pkg-config does not find all of ${modules}")
    endif()
    set(default OFF)
  endif()
  option(${option} "${help}" ${default})
  if(${option})
    dop_need(${prefix} ${option} ${ARGN})
  endif()
endfunction()

dop_need(VULKAN "" vulkan)
dop_need(JANSSON "" jansson)
dop_need(PCRE2 "" libpcre2-8)
dop_need(UTF8PROC "" libutf8proc)
dop_need(XXHASH "" libxxhash)
dop_need(ZLIB "" zlib) # detects repetitive transcripts by their compression ratio
dop_need(YAML "" yaml-0.1)
if(DOPPLER_MEDIA)
  set(DOPPLER_MEDIA_MODULES libpng libjpeg libwebpdemux libwebp)
  dop_need(MEDIA DOPPLER_MEDIA ${DOPPLER_MEDIA_MODULES})
  list(JOIN DOPPLER_MEDIA_MODULES " " DOPPLER_MEDIA_MODULES) # for doppler.pc
else()
  add_library(PkgConfig::MEDIA INTERFACE IMPORTED)
endif()
if(DOPPLER_COMPILER)
  dop_need(CRYPTO DOPPLER_COMPILER libcrypto) # SHA-256 of RDRR shards
else()
  add_library(PkgConfig::CRYPTO INTERFACE IMPORTED)
endif()
dop_offer(DOPPLER_EDIT ${on_posix} "line editing in doppler-exec -i" EDIT libedit)

# Plugins, loaded on demand by programs and the library.
find_package(MPI QUIET COMPONENTS C)
option(DOPPLER_MPI "Build the plugin that runs plans in parts, one MPI rank each" ${MPI_C_FOUND})
if(DOPPLER_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
elseif(NOT MPI_C_FOUND)
  message(STATUS "DOPPLER_MPI is off (the plugin that runs plans in parts): CMake does not find MPI")
endif()
dop_offer(DOPPLER_FETCH ON "the plugin that downloads models, -hf" FETCH libcurl libcrypto)
# A plugin, because libsndfile depends on decoders that only speech models need.
dop_offer(DOPPLER_AUDIO ON "the plugin that reads audio" AUDIO sndfile samplerate kissfft-float)

# Debian 12's libshaderc.so has undefined glslang symbols, so linking with it fails. In that case, the static libraries of the
# development packages are used. gold reports undefined symbols only if it has all dependencies of a library.
add_library(dop_shaderc INTERFACE)
# DOPPLER_SHADERC_FILE: shared library of the shader compiler, such as libshaderc.so.1; empty if it is linked statically.
set(DOPPLER_SHADERC_FILE "")
if(DOPPLER_COMPILER)
  include(CheckCSourceCompiles)
  find_library(SHADERC_LIBRARY NAMES shaderc shaderc_combined)
  if(NOT SHADERC_LIBRARY)
    message(FATAL_ERROR "CMake does not find libshaderc: install it (tests/packages.txt names Debian's package), "
                        "or leave the compiler out with -DDOPPLER_COMPILER=OFF")
  endif()
  set(CMAKE_REQUIRED_LIBRARIES ${SHADERC_LIBRARY} stdc++ m)
  check_c_source_compiles("#include <shaderc/shaderc.h>
                           int main(void) { shaderc_compiler_release(shaderc_compiler_initialize()); }"
                          DOPPLER_SHARED_SHADERC_LINKS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  cmake_path(GET SHADERC_LIBRARY PARENT_PATH shaderc_folder)
  if(DOPPLER_SHARED_SHADERC_LINKS)
    target_link_libraries(dop_shaderc INTERFACE ${SHADERC_LIBRARY} SPIRV-Tools stdc++)
    if(IS_SYMLINK ${SHADERC_LIBRARY})
      file(READ_SYMLINK ${SHADERC_LIBRARY} DOPPLER_SHADERC_FILE)
      cmake_path(ABSOLUTE_PATH DOPPLER_SHADERC_FILE BASE_DIRECTORY ${shaderc_folder})
    endif()
  else()
    target_link_directories(dop_shaderc INTERFACE ${shaderc_folder})
    target_link_libraries(dop_shaderc INTERFACE
      shaderc_combined glslang MachineIndependent GenericCodeGen OSDependent OGLCompiler SPIRV SPIRV-Tools-opt SPIRV-Tools
      stdc++ Threads::Threads m)
  endif()
endif()
pkg_check_modules(SHADERC QUIET shaderc)
if(NOT SHADERC_VERSION)
  set(SHADERC_VERSION "of an unknown release")
endif()
# Relative path from the installed libraries to the kernel templates.
file(RELATIVE_PATH DOPPLER_GLSL_FROM_LIBRARY /${CMAKE_INSTALL_LIBDIR} /share/doppler/glsl)
