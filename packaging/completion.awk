# Generates bash completion from a program's --help, and completes values from lists of names:
#   awk -v name=PROGRAM -f completion.awk -- [--OPTION[,--OPTION]=FILE.list ...] PROGRAM.help
# A list has a name at the start of each line. A line that names options applies to these options only.
# Words that begin with a dash complete to options; other words without a list complete to files.
function offer(names, word,    list, n, i) {
    n = split(names, list, ",")
    for (i = 1; i <= n; i++) values[list[i]] = values[list[i]] " " word
}
BEGIN {
    if (name == "dopplerc") {
        offer("--emit", "ir regions nest glsl spirv plan")
        offer("--weights", "embed external model")
    } else {
        offer("--log", "text json")
        offer("--sampler", "euler ancestral ddim lcm")
        offer("--image-urls", "public any")
        offer("--embed", "cls mean last all")
        offer("--cache-clear", "all")
        offer("--draft", "none")
        offer("--ordering", "auto barriers persistent")
        offer("--chat-template", "chatml gemma llama2 llama2-sys llama3 mistral mistral-v1 mistral-v3 mistral-v3-tekken mistral-v7")
    }
    offer("--act", "f32 f16")
    offer("--parts", "auto")
    offer("--quant", "keep")
    for (i = 1; i < ARGC; i++)
        if (ARGV[i] ~ /^--/) {
            list = substr(ARGV[i], index(ARGV[i], "=") + 1)
            of = substr(ARGV[i], 1, index(ARGV[i], "=") - 1)
            while ((getline line < list) > 0) {
                split(line, part, " ")
                if (line !~ / --/) offer(of, part[1])
                else {
                    n = split(line, part, /[ ,]+/)
                    for (k = 2; k <= n; k++) if (part[k] ~ /^--/) offer(part[k], part[1])
                }
            }
            close(list)
            ARGV[i] = ""
        }
}
/^  -/ {
    left = substr($0, 1, 34)
    if (match(left, /--[a-z][a-z0-9-]*/)) {
        option = substr(left, RSTART, RLENGTH)
        if (!(option in seen)) options[++n_options] = option
        seen[option] = 1
    }
}
/^  [A-Z]  [a-z]/ { offer("--skip,--stop-after", $2) } # the passes
END {
    for (i = 1; i <= n_options; i++) words = words " " options[i]
    f = name
    gsub(/-/, "_", f)
    printf "_%s() {\n    local now=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) words= before= equals=\n", f
    print "    # Bash splits words at =, so --option=value and A=B are three words."
    print "    if [ \"$now\" = = ]; then"
    print "        now= equals=1"
    print "    elif [ \"${COMP_WORDS[at]}\" = = ]; then"
    print "        at=$((at - 1)) equals=1"
    print "    fi"
    print "    if [ -n \"$equals\" ] && [ \"${COMP_WORDS[at - 1]}\" = --force ]; then"
    print "        at=$((at - 1))"
    print "    elif [ \"${COMP_WORDS[at]}\" = --force ]; then"
    print "        at=0 # names of ops depend on the model"
    print "    fi"
    print "    COMPREPLY=()\n    case ${COMP_WORDS[at]} in"
    for (i = 1; i <= n_options; i++)
        if (options[i] in values) printf "    %s) words=\"%s\" ;;\n", options[i], substr(values[options[i]], 2)
    print "    esac"
    print "    case $now in *,*) before=${now%,*}, ;; esac # completes the last name of a list"
    print "    if [ -n \"$words\" ]; then"
    print "        mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$words\" -- \"${now##*,}\")"
    print "        return"
    print "    fi"
    print "    case $now in"
    printf "    -*) mapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$now\") ;;\n", substr(words, 2)
    printf "    esac\n}\ncomplete -o default -F _%s %s\n", f, name
}
