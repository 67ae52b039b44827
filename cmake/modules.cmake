# dop_module(NAME [IN_LIBRARY] [READS_INPUT] [FOLDERS FOLDER...] [SOURCES FILE...] [LINK LIBRARY...])
#
# Makes the static library NAME of all C files of FOLDERS, and of SOURCES; paths are relative to the module's CMakeLists.txt.
#   IN_LIBRARY   the objects are also part of a shared library
#   READS_INPUT  the module reads outside bytes: it reports branches to the fuzzers, and is optimized with sanitizers
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

# dop_uses(MODULE): the library dop_uses_MODULE is libdoppler.so for programs, which hold none of its objects (their property
# DOPPLER_PROGRAM), and the module itself for tests, which look inside and replace functions.
function(dop_uses module)
  add_library(dop_uses_${module} INTERFACE)
  target_link_libraries(dop_uses_${module} INTERFACE
    $<IF:$<BOOL:$<TARGET_PROPERTY:DOPPLER_PROGRAM>>,doppler,dop_${module}>)
endfunction()
dop_uses(base)
dop_uses(text)
dop_uses(media)
dop_uses(runtime)

# dop_plugin(NAME COMPONENT SOURCES FILE... LINK LIBRARY...) makes doppler-NAME.so, which is loaded when it is needed and uses
# libdoppler.so, and its objects dop_NAME, for tests.
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
