# dop_module(NAME [IN_LIBRARY] [READS_INPUT] [FOLDERS FOLDER...] [SOURCES FILE...] [LINK LIBRARY...])
#
# Builds the static library NAME from all C files in FOLDERS and from SOURCES, relative to the module's CMakeLists.txt.
#   IN_LIBRARY   the objects are also part of a shared library
#   READS_INPUT  the module parses untrusted input: it has fuzzer coverage, and is optimized in sanitizer builds
function(dop_module name)
  cmake_parse_arguments(MODULE "IN_LIBRARY;READS_INPUT" "" "FOLDERS;SOURCES;LINK" ${ARGN})
  foreach(folder IN LISTS MODULE_FOLDERS)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.c)
    list(APPEND MODULE_SOURCES ${files})
  endforeach()
  add_library(${name} STATIC ${MODULE_SOURCES})
  target_link_libraries(${name} PUBLIC dop_flags ${MODULE_LINK})
  if(MODULE_IN_LIBRARY)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${name} PRIVATE -fno-semantic-interposition)
  endif()
  if(MODULE_READS_INPUT)
    set_target_properties(${name} PROPERTIES DOPPLER_RUNS_LONG ON)
  endif()
  if(MODULE_READS_INPUT OR DOPPLER_FUZZ)
    target_compile_options(${name} PRIVATE ${dop_report_branches})
  endif()
endfunction()

# dop_uses(MODULE): defines dop_uses_MODULE. For programs (property DOPPLER_PROGRAM) it links libdoppler.so; for tests, which
# use internals and replace functions, it links the module statically.
function(dop_uses module)
  add_library(dop_uses_${module} INTERFACE)
  target_link_libraries(dop_uses_${module} INTERFACE
    $<IF:$<BOOL:$<TARGET_PROPERTY:DOPPLER_PROGRAM>>,doppler,dop_${module}>)
endfunction()
dop_uses(base)
dop_uses(text)
dop_uses(media)
dop_uses(runtime)

# dop_plugin(NAME COMPONENT SOURCES FILE... LINK LIBRARY...): builds doppler-NAME.so, which is loaded on demand and links
# libdoppler.so, and its objects as the library dop_NAME, for tests.
function(dop_plugin name component)
  cmake_parse_arguments(PLUGIN "" "" "SOURCES;LINK" ${ARGN})
  add_library(dop_${name} STATIC ${PLUGIN_SOURCES})
  target_link_libraries(dop_${name} PUBLIC dop_flags dop_uses_base ${PLUGIN_LINK})
  set_target_properties(dop_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(doppler-${name} MODULE $<TARGET_OBJECTS:dop_${name}>)
  target_link_libraries(doppler-${name} PRIVATE dop_flags doppler ${PLUGIN_LINK})
  set_target_properties(doppler-${name} PROPERTIES
    LINKER_LANGUAGE C PREFIX "" BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS doppler-${name} DESTINATION ${CMAKE_INSTALL_LIBDIR}/doppler COMPONENT ${component})
endfunction()
