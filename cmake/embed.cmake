# cmake -DPAGE=FILE.html -DNAME=SYMBOL -DOUT=FILE.c -P embed.cmake
#
# Writes a C file that defines `const char *const SYMBOL`: the text of PAGE with each @file.css@ and @file.js@ replaced by
# the file of that name next to it. dop_page_fill replaces other @names@ at run time. The output depends only on
# these files.
file(READ "${PAGE}" page)
get_filename_component(folder "${PAGE}" DIRECTORY)
string(REGEX MATCHALL "@[a-z_]+\\.(css|js)@" parts "${page}")
foreach(part IN LISTS parts)
  string(REPLACE "@" "" file "${part}")
  file(READ "${folder}/${file}" text)
  string(REPLACE "${part}" "${text}" page "${page}")
endforeach()
# Emits bytes, because the text exceeds the string length that C11 guarantees.
string(HEX "${page}" hex)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
get_filename_component(title "${PAGE}" NAME)
file(WRITE "${OUT}" "/* Made from ${title} by embed.cmake. */
extern const char *const ${NAME};
static const unsigned char bytes[] = {
${hex}
0};
const char *const ${NAME} = (const char *)bytes;
")
