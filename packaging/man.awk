# Generates a program's manual page from its --help and from a file of roff sections:
#   awk -v name=PROGRAM -v version=V -v what=TEXT -f man.awk PROGRAM.help PROGRAM.man
function roff(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    return s ~ /^[.']/ ? "\\&" s : s
}
NR == 1 {
    sub(/^usage: /, "")
    printf ".TH %s 1 \"\" \"Doppler %s\" \"User Commands\"\n", toupper(name), version
    printf ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n", roff(name), roff(what), roff($0)
    next
}
FILENAME ~ /\.man$/ {
    if (heading != "") print roff(heading)
    heading = ""
    print
    next
}
# Text up to the first heading: a single line that follows an empty line and has rows under it.
/^$/ { empty = 1; next }
/^  -/ {
    if (heading != "") print ".SS " roff(heading)
    heading = ""
    end = 29
    if (substr($0, end, 1) != " " || substr($0, 28, 2) !~ / /) end = 28 + index(substr($0, 29), " ")
    left = substr($0, 3, end - 3)
    sub(/ +$/, "", left)
    print ".TP\n.B " roff(left) "\n" roff(substr($0, end + 1))
    rows = 1
    next
}
/^ / { # copies other rows verbatim
    if (heading != "") print ".SS " roff(heading)
    heading = ""
    print ".nf\n" roff($0) "\n.fi"
    next
}
{
    if (!described) print ".SH DESCRIPTION"
    if (heading != "") print roff(heading)
    heading = ""
    if (empty && described) heading = $0
    else print roff($0)
    described = 1
    empty = 0
}
END { if (heading != "") print roff(heading) }
