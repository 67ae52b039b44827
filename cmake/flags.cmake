# Flags of every target: the interface library dop_flags.
add_library(dop_flags INTERFACE)
target_include_directories(dop_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(dop_flags INTERFACE _GNU_SOURCE)
target_compile_options(dop_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${DOPPLER_WERROR}>:-Werror>
  # Integer constants are enumerations in this code, and their conversion to double is exact.
  $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-enum-float-conversion>
  # Disables fused multiply-add, so that results do not depend on the compiler.
  -ffp-contract=off
  # Makes __FILE__ relative to the project, so that binaries do not depend on the build folder.
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(WIN32) # base/os/windows supplies missing POSIX functions; every file includes it first
  target_compile_definitions(dop_flags INTERFACE _FILE_OFFSET_BITS=64 _WIN32_WINNT=0x0a00)
  # Disables format warnings: the compiler checks Microsoft's formats, but the code uses C's.
  target_compile_options(dop_flags INTERFACE -include base/os/windows/posix.h -Wno-format)
  target_include_directories(dop_flags SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/base/os/windows/include)
endif()
if(DOPPLER_CHECKED)
  target_compile_definitions(dop_flags INTERFACE DOPPLER_CHECKED)
endif()

# ---- sanitizers and fuzzers -----------------------------------------------------------------------------------------
if(DOPPLER_SANITIZE STREQUAL "thread")
  target_compile_options(dop_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -g1 -O1)
  target_link_options(dop_flags INTERFACE -fsanitize=thread)
elseif(DOPPLER_SANITIZE)
  # -g1: reports only need line numbers. Only targets with the property DOPPLER_RUNS_LONG are optimized, because most programs
  # run for less time than the optimizer, which takes four fifths of clang's time.
  target_compile_options(dop_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                                             -fno-omit-frame-pointer -g1
                                             -O$<OR:$<BOOL:${DOPPLER_FUZZ}>,$<BOOL:$<TARGET_PROPERTY:DOPPLER_RUNS_LONG>>>)
  target_link_options(dop_flags INTERFACE -fsanitize=address,undefined)
  add_library(dop_keep_modules OBJECT tests/sanitize/keep_modules.c)
  set_target_properties(dop_keep_modules PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(dop_flags INTERFACE $<TARGET_OBJECTS:dop_keep_modules>)
  if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    set(DOPPLER_FUZZERS ON) # tests/fuzz
  endif()
endif()
if(DOPPLER_FUZZ AND NOT DOPPLER_FUZZERS)
  message(FATAL_ERROR "DOPPLER_FUZZ needs DOPPLER_SANITIZE and clang")
endif()
# Short fuzzer runs (tests) count branches in modules that parse untrusted input, except in the sources that dominate their run
# time. Long runs (DOPPLER_FUZZ) also trace comparison operands, which is slower, in all modules.
set(dop_report_branches "")
set(dop_report_no_branches "")
if(DOPPLER_FUZZ)
  set(dop_report_branches -fsanitize=fuzzer-no-link)
elseif(DOPPLER_FUZZERS)
  set(dop_report_branches -fsanitize-coverage=inline-8bit-counters,pc-table)
  set(dop_report_no_branches -fno-sanitize-coverage=inline-8bit-counters,pc-table)
endif()
