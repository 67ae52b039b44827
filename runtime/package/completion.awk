# Completion for bash from a program's --help:  PROGRAM --help | awk -v name=PROGRAM -f completion.awk
# Words that begin with a dash are options; everything else is a file.
/^  -/ {
    left = substr($0, 1, 34)
    if (match(left, /--[a-z][a-z0-9-]*/)) {
        option = substr(left, RSTART, RLENGTH)
        if (!(option in seen)) words = words " " option
        seen[option] = 1
    }
}
END {
    f = name
    gsub(/-/, "_", f)
    printf "_%s() {\n    COMPREPLY=()\n    case ${COMP_WORDS[COMP_CWORD]} in\n", f
    printf "    -*) mapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"${COMP_WORDS[COMP_CWORD]}\") ;;\n", substr(words, 2)
    printf "    esac\n}\ncomplete -o default -F _%s %s\n", f, name
}
