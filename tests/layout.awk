# Which file needs which, of sources (*.c, *.h, *.def), and what that says about modules and circles.
#
#   awk -f layout.awk MODULES HEADER... SOURCE...
#
# A line of MODULES is a folder, or FILE.* for the files of one name, and what it may use in addition to itself: lines above it in the list, with what
# these may use.  A file belongs to the longest line that is its name or one of its folders.  "public" permits calls of functions that
# the public headers declare, wherever they are defined; "=HEADER.h" permits the header and calls of what it declares; "=FOLDER"
# is FOLDER without what that may use.
#
# A file needs another one when it includes it; when it names a function or table that the other defines (exported names begin
# their line); and when it calls a function pointer of a structure with at least two of them that only the other fills in:
# tables of functions with one implementation are calls by another name.  (Tests count as implementations.)  "hook NAME" in
# MODULES leaves out such a structure: what calls it works without it.
#
# Prints "up FILE: OTHER (how)", "none FILE" (in no module), "row FOLDER USE" (not above it) and "circle FILE FILE ...".
# Files in a circle need each other by what they define, directly or by way of others: they are one file in pieces.
function module(file, name) { # the longest line of the table that names the file or one of its folders
    name = file
    sub(/\.[a-z]+$/, ".*", name)
    if (name in rooms) return name
    while (!(file in rooms)) if (!sub(/\/[^\/]*$/, "", file)) return ""
    return file
}
function code(text) { # without texts and comments, of which one may go on to the next line
    gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
    if (comment && !sub(/^.*\*\//, "", text)) return ""
    comment = 0
    gsub(/\/\*([^*]|\*[^\/])*\*\//, "", text)
    comment = sub(/\/\*.*/, "", text)
    sub(/\/\/.*/, "", text)
    return text
}
function may(room, use, n, i, list) { # adds what a row says
    if (use == "public") { calls_public[room]; return }
    if (use ~ /^=.*\.h$/) { opened[substr(use, 2)] = opened[substr(use, 2)] " " room; return }
    if (use ~ /^=/) { allowed[room, substr(use, 2)]; return }
    if (!(use in rooms)) print "row " room " " use
    allowed[room, use]
    n = split(behind[use], list, " ")
    for (i = 1; i <= n; i++) allowed[room, list[i]]
    behind[room] = behind[room] " " use behind[use]
}
function is_opened(file, header) { return header in opened && index(opened[header] " ", " " module(file) " ") }
function reaches(file, header, tried, list, n, i) { # does it include the header, directly or not?
    if (file == header) return 1
    if ((file, header) in seen) return seen[file, header]
    seen[file, header] = 0
    n = split(included[file], list, " ")
    for (i = 1; i <= n; i++) if (reaches(list[i], header)) return seen[file, header] = 1
    return 0
}

FILENAME == ARGV[1] {
    if ($1 ~ /^#/ || NF == 0) next
    if ($1 == "hook") { hooks[$2]; next }
    for (k = 2; k <= NF; k++) may($1, $k)
    rooms[$1]
    next
}
FNR == 1 {
    file = FILENAME
    comment = 0
    table = ""
    header = file ~ /\.(h|def)$/
    public_header = file ~ /^include\/doppler\//
    test = file ~ /^tests\//
    if (!test && module(file) == "") print "none " file
}
/^ *# *include/ {
    to = $0
    if (sub(/^ *# *include +"/, "", to)) sub(/".*/, "", to)
    else if (sub(/^ *# *include +<doppler\//, "", to)) {
        sub(/>.*/, "", to)
        to = "include/doppler/" to
    } else next
    included[file] = included[file] " " to
    if (!test) includes[file, to]
    next
}
{
    text = code($0)
    if (header) {
        if (public_header && text !~ /^typedef/)
            for (rest = text; match(rest, /dop_[a-z0-9_]+\(/); rest = substr(rest, RSTART + RLENGTH))
                public[substr(rest, RSTART, RLENGTH - 1)]
        if (file in opened && text !~ /^typedef/)
            for (rest = text; match(rest, /dop_[a-z0-9_]+\(/); rest = substr(rest, RSTART + RLENGTH))
                declares[substr(rest, RSTART, RLENGTH - 1)] = file
        if (match(text, /^(typedef )?struct dop_[a-z0-9_]+ \{/)) {
            table = substr(text, RSTART, RLENGTH)
            sub(/^(typedef )?struct /, "", table)
            sub(/ .*/, "", table)
            pointers = 0
        } else if (text ~ /^\}/ && table != "") {
            if (pointers > 1) for (k = 1; k <= pointers; k++) { field[table, pointer[k]] = file; tables[table]; of[pointer[k]] = of[pointer[k]] " " table }
            table = ""
        } else if (table != "" && match(text, /\(\*[a-z0-9_]+\)\(/))
            pointer[++pointers] = substr(text, RSTART + 2, RLENGTH - 4)
        next
    }
    if (!test && match(text, /^dop_[a-z0-9_]+\(/)) defines[substr(text, 1, RLENGTH - 1)] = file
    if (!test && match(text, /^(const )?dop_[a-z0-9_]+ (\*const )?dop_[a-z0-9_]+(\[[^]]*\])* =/)) {
        name = substr(text, 1, RLENGTH)
        sub(/(\[[^]]*\])* =$/, "", name)
        sub(/.* (\*const )?/, "", name)
        defines[name] = file
    }
    for (rest = text; match(rest, /(->|\.)[a-z0-9_]+(\(| = [a-z0-9_]+[,;}])/); rest = substr(rest, RSTART + RLENGTH)) {
        name = substr(rest, RSTART, RLENGTH)
        sub(/^(->|\.)/, "", name)
        if (sub(/\($/, "", name)) { if (!test) pointed[file, name] }
        else if (sub(/ = .*/, "", name) && name in of) fills[file, name]
    }
    for (rest = text; match(rest, /dop_[a-z0-9_]+/);) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (name in tables && (rest ~ /^ [a-z0-9_]+(\[[^]]*\])* = \{([^0]|$)/ || rest ~ /^\)\{([^0]|$)/)) implements[name, file]
        if (!test) uses[file, name]
    }
}
END {
    for (pair in uses) {
        split(pair, part, SUBSEP)
        to = defines[part[2]]
        if (to == "" || to == part[1]) continue
        edge[part[1], to] = part[2] "()"
        if (part[2] in public && module(part[1]) in calls_public) continue
        if (part[2] in declares && is_opened(part[1], declares[part[2]])) continue
        arc[part[1], to] = part[2] "()"
    }
    # Tables with one implementation.
    for (pair in fills) {
        split(pair, part, SUBSEP)
        n = split(of[part[2]], list, " ")
        for (k = 1; k <= n; k++) if ((part[1], list[k]) in uses || part[1] ~ /^tests\//) implements[list[k], part[1]]
    }
    for (pair in implements) {
        split(pair, part, SUBSEP)
        made[part[1]]++
        maker[part[1]] = part[2]
    }
    for (pair in pointed) {
        split(pair, part, SUBSEP)
        n = split(of[part[2]], list, " ")
        for (k = 1; k <= n; k++) {
            to = maker[list[k]]
            if (made[list[k]] == 1 && !(list[k] in hooks) && to != part[1] && to !~ /^tests\// && reaches(part[1], field[list[k], part[2]]))
                arc[part[1], to] = edge[part[1], to] = list[k] "." part[2]
        }
    }
    for (pair in includes) if (!(pair in arc)) arc[pair] = "included"
    for (pair in arc) {
        split(pair, part, SUBSEP)
        from = module(part[1])
        to = module(part[2])
        if (from != to && !is_opened(part[1], part[2]) && !((from, to) in allowed)) print "up " part[1] ": " part[2] " (" arc[pair] ")"
    }
    # What nobody needs, or what needs nobody, stands in no circle.
    do {
        split("", before); split("", after); dropped = 0
        for (pair in edge) { split(pair, part, SUBSEP); after[part[1]]; before[part[2]] }
        for (pair in edge) {
            split(pair, part, SUBSEP)
            if (!(part[1] in before) || !(part[2] in after)) { delete edge[pair]; dropped = 1 }
        }
    } while (dropped)
    for (pair in edge) { split(pair, part, SUBSEP); node[part[1]]; node[part[2]]; reach[pair] }
    for (k in node) for (i in node) if ((i, k) in reach) for (j in node) if ((k, j) in reach) reach[i, j]
    for (i in node) {
        n = 0
        for (j in node) if ((i, j) in reach && (j, i) in reach) {
            for (k = n++; k > 0 && member[k - 1] > j; k--) member[k] = member[k - 1]
            member[k] = j
        }
        if (n == 0 || member[0] != i) continue
        line = "circle"
        for (k = 0; k < n; k++) line = line " " member[k]
        print line
    }
}
