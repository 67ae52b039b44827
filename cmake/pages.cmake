# dop_embed(MADE SYMBOL FILE [PART...]): generates the C file MADE, in which `const char *const SYMBOL` is the text of FILE. It
# depends on FILE and each PART.
function(dop_embed made symbol page)
  add_custom_command(OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DPAGE=${page} -DNAME=${symbol} -DOUT=${made} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${page} ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
endfunction()

# dop_page(NAME FOLDER TARGET): embeds FOLDER/NAME.html, its style sheet and scripts (FOLDER/NAME*) as dop_page_NAME in TARGET.
function(dop_page name folder target)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  file(GLOB parts CONFIGURE_DEPENDS ${folder}/${name}.* ${folder}/${name}_*)
  set(made ${PROJECT_BINARY_DIR}/assets/${name}.c)
  dop_embed(${made} dop_page_${name} ${folder}/${name}.html ${parts})
  target_sources(${target} PRIVATE ${made})
endfunction()
