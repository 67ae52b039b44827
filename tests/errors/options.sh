# What dopplerc must refuse although the model is fine: options, targets, outputs.
. "$(dirname "$0")/../lib.sh"
model=$SRC/tests/golden/llama

# refuses STATUS TEXT ARGUMENT...: named after its arguments; leaves no file behind
refuses() {
    check_fails "$(echo "${*:3}" | cut -c1-60)" "$1" "$2" "$DOPPLERC" "${@:3}" || return
    if [ -n "$(find . -name 'plan*')" ]; then
        fail "$(echo "${*:3}" | cut -c1-60): leaves no file" "$(find . -name 'plan*')"
        rm -f plan*
    fi
}

# ---- lists ----------------------------------------------------------------------------------------------------------
names() { "$DOPPLERC" "--list-$1" | cut -d' ' -f1 | sort | paste -sd' '; } # LIST
rows() { sed -n "s/^$1(\([a-z0-9_]*\),.*/\1/p" "$SRC/$2" | sort | paste -sd' '; } # MACRO FILE
check "--list-targets: those with a file, and auto" \
    [ "$(names targets)" = "$({ echo auto && basename -a -s .yaml "$SRC"/examples/targets/*.yaml; } | sort | paste -sd' ')" ]
check "--list-types: those of weights" \
    [ "$(names types)" = "$(rows TYPE base/storage/types.def | tr ' ' '\n' | grep -vxE 'none|u32|i32' | paste -sd' ')" ]
check "--list-types: a size" grep -qx 'q4_k  *4.500 bits a value, --quant' <("$DOPPLERC" --list-types)
check "--list-kernels: those of the table" [ "$(names kernels)" = "$(rows KERNEL kernels/kernels.def)" ]
check "--list-models: their names in files" grep -qx 'deepseek_v3  *DeepseekV3ForCausalLM, GGUF deepseek2' <("$DOPPLERC" --list-models)
check "--list-models: one a line" [ "$("$DOPPLERC" --list-models | grep -cE "For[A-Z]|Model\b")" -eq "$("$DOPPLERC" --list-models | wc -l)" ]
check "several lists, one after the other" [ "$("$DOPPLERC" --list-types --list-targets | wc -l)" -eq \
    "$({ "$DOPPLERC" --list-types && "$DOPPLERC" --list-targets; } | wc -l)" ]

# ---- usage: status 2 ------------------------------------------------------------------------------------------------
refuses 2 "no model: dopplerc MODEL -o PLAN"
refuses 2 "nothing to do: name the plan with -o FILE" "$model"
refuses 2 "-o needs a value: FILE" "$model" -o
refuses 2 "there is \"other.plan\"; -o PLAN names the plan" "$model" other.plan
refuses 2 "unknown option --quantize; did you mean --quant?" "$model" -o plan --quantize q8_0
refuses 2 "unknown option --bogus; see --help" "$model" -o plan --bogus
refuses 2 "--list-targets and the other lists take no model" "$model" --list-types
refuses 2 "unknown target nope; known: auto adreno amd-cdna amd-rdna2 amd-rdna3" "$model" -o plan --target nope
refuses 2 "--quant: unknown type zzz; known are keep f32 f16 bf16" "$model" -o plan --quant zzz
refuses 2 "--ctx must lie between 1 and" "$model" -o plan --ctx 0
refuses 2 "--ctx must lie between 1 and" "$model" -o plan --ctx -5
refuses 2 '--ctx needs a whole number, not "many"' "$model" -o plan --ctx many
refuses 2 "--chunks 0: expected sizes from 1 to" "$model" -o plan --chunks 0
refuses 2 "--chunks 8,,9: expected sizes from 1 to" "$model" -o plan --chunks 8,,9
refuses 2 "--kv q9: known are f16, f32, q8_0 and q4_0, for both or as k=TYPE,v=TYPE" "$model" -o plan --kv q9
refuses 2 "--kv k=q8_0: known are f16" "$model" -o plan --kv k=q8_0
refuses 1 "a q8_0 cache has blocks of 32 values, and what layer 0 keeps as k has heads of 16 values" "$model" -o plan --kv q8_0
refuses 1 "target tier2 has no subgroups of 8 and more; possible: f16, f32" "$model" -o plan --kv q4_0 --target tier2
refuses 2 "--act zz: known are f16 and f32" "$model" -o plan --act zz
refuses 2 "--force zz: expected OP=VARIANT" "$model" -o plan --force zz
refuses 2 "--force matmul=zz: no kernel zz; known:" "$model" -o plan --force matmul=zz
refuses 2 "--force zz=gemv: no region here is zz" "$model" -o plan --force zz=gemv
refuses 2 "unknown pass nope; known: canon" "$model" -o plan --skip nope
refuses 2 "unknown pass nope; known: canon" "$model" -o plan --stop-after nope
refuses 2 "--emit zzz: known are ir, regions, nest, glsl, spirv and plan" "$model" -o plan --emit zzz
refuses 2 "-j must lie between 1 and" "$model" -o plan -j 0
refuses 2 "--weights zz: known are embed, external and model" "$model" -o plan --weights zz
refuses 2 "--explain zz: no region has that op" "$model" -o plan --explain zz
refuses 2 "unknown option -m: the model comes without an option: dopplerc MODEL -o PLAN" -m "$model" -o plan
refuses 2 "unknown option -c: use --ctx N" "$model" -o plan -c 512
refuses 2 "unknown option -t: use -j N" "$model" -o plan -t 4
refuses 2 "unknown option --n-predict: doppler-exec PLAN -n N generates" "$model" -o plan --n-predict 3
refuses 2 "unknown option -ngl: the whole model runs on the device of --target" "$model" -o plan -ngl 99
refuses 2 "-d: no pass has the letter Z; see --help" "$model" -o plan -d Z
refuses 2 "-d: no pass has the letter z; see --help" "$model" -o plan -dz
refuses 2 "unknown option -oplan; see --help" "$model" -oplan
refuses 2 '-o is given twice, the second time with "plan2": give it once' "$model" -o plan -o plan2
refuses 2 '--chunks is given twice, the second time with "8": give it once' "$model" -o plan --chunks 8 --chunks=8
refuses 2 "--stop-after leaves no kernels for --emit glsl: use it with --emit ir" "$model" --emit glsl --stop-after canon
refuses 2 "--stop-after leaves no kernels for --emit spirv" "$model" --emit spirv --stop-after canon
refuses 2 "--report=r.pdf: known are FILE.txt, FILE.json and FILE.html" "$model" --report=r.pdf
refuses 2 "--report=r.pdf: known are FILE.txt, FILE.json and FILE.html" "$model" --report=r.json --report=r.pdf
refuses 2 "--report=r.json is given twice" "$model" --report=r.json --report --report=r.json
refuses 2 "--report is given twice" "$model" --report --report
refuses 2 "--weights external is about a plan: give -o FILE" "$model" --weights external --report
refuses 2 "--tune=nope: no region here is nope; known are" "$model" --tune=nope -o plan.yaml --chunks 8
printf 'rules:\n  - {op: nope, fuse: off}\n' >path.yaml
refuses 1 "path.yaml:2: no region here is nope; an op is a template" "$model" -o plan --target tier1 --kernel-path path.yaml
refuses 2 "unknown kernel path .yaml; known: " "$model" -o plan --kernel-path .yaml # an ending is no name
refuses 2 "unknown kernel path .json; known: " "$model" -o plan --kernel-path .json
check "one sequence, the least number" "$DOPPLERC" "$model" --sequences 1 --emit ir --quiet
refuses 2 "--sequences must lie between 1 and 64, not 0" "$model" -o plan --sequences 0
printf 'rules:\n  - {op: nope, fuse: on}\n' >path.yaml
refuses 1 "path.yaml:2: no region here is nope" "$model" -o plan --target tier1 --kernel-path path.yaml
printf 'rules:\n  - {op: nope, phase: prefill, weights: fused}\n' >path.yaml
refuses 1 "path.yaml:2: no region here is nope" "$model" -o plan --target tier1 --kernel-path path.yaml
rm path.yaml
refuses 2 "--emit spirv makes an archive of stdout" "$model" --emit spirv --report
refuses 2 "--emit spirv makes an archive of stdout" "$model" --emit spirv --report=r.json --report --report=r.html
for bad in zz+o o+zz; do
    refuses 2 "--no-fuse $bad: no ${bad#*+} here reads what a ${bad%+*} makes; dopplerc --explain $bad names such pairs" \
        "$model" -o plan --target tier1 --chunks 8 --no-fuse $bad
done
refuses 2 "--no-fuse o+: expected A+B" "$model" -o plan --target tier1 --no-fuse=o+
printf 'rules:\n  - {op: zz+o, fuse: off}\n' >path.yaml
refuses 1 "path.yaml:2: no o here reads what a zz makes" "$model" -o plan --target tier1 --chunks 8 --kernel-path path.yaml
rm path.yaml
printf 'base: tier1\nmax_alloc: 16384\n' >small.yaml
for why in "8 embed takes 1048832 bytes, more than one allocation of the target (16384): quantize it (--quant embed=q8_0)" \
    "1024 rope.0 takes 262400 bytes, more than one allocation of the target (16384): take a smaller --ctx"; do
    refuses 1 "weight ${why#* }" "$SRC/examples/shakespeare-gemma3" -o plan --target small.yaml --chunks 8 --ctx "${why%% *}"
done
rm small.yaml
nothing() { # no driver
    env VK_ICD_FILENAMES=/nonexistent VK_DRIVER_FILES=/nonexistent "$DOPPLERC" "$@"
}
check_fails "auto without a device" 1 "no device here to compile for: name one with --target, as lavapipe (no Vulkan driver" \
    nothing "$model" -o plan
check "a named target needs no device" nothing "$model" --target tier3 --quiet --emit ir

# ---- what it says when all is well -----------------------------------------------------------------------------------
says() { # LINE (regular expression) OPTION...
    "$DOPPLERC" "$model" --chunks 8 "${@:2}" 2>said >/dev/null && grep -qxE "dopplerc: $1" said
}
says_nothing() { "$DOPPLERC" "$model" --chunks 8 "$@" 2>said >/dev/null && [ ! -s said ]; }
check "the target and why" says "target [a-z0-9-]+: for .*, the device that doppler-exec picks here" --emit ir
check "a named target" says "target tier1, tier3: as --target says" --target tier1,tier3 --emit ir
past="than the 512 positions that the model was trained for: what it writes past them may make no sense"
check "a context past the trained one" \
    says ".*llama: note: --ctx 2000 is more $past; tables of positions take [0-9.]+ MiB" --target tier1 --ctx 2000 --emit ir
check "no tokenizer" says ".*llama: note: no tokenizer is here: the plan takes and gives token ids only" --target tier1 -o ids
[ "$(wc -l <said)" -eq 3 ] && pass "and nothing but the last line" || fail "and nothing else" "$(cat said)"
bytes='[0-9.]+ [KM]?i?B'
ends() { says "$@" && tail -n 1 said | grep -qxE "dopplerc: $1"; } # the last line
check "the last line: size, time, memory, types" \
    ends "ids: $bytes in [0-9.]+ s; $bytes on the device; weights (f16|f32|bf16) .*" --target tier1 -o ids
sum() { awk '/"memory": / { inside = 1; next } inside && /}/ { exit } inside { n += $NF } END { printf "%.1f", n / 1024 }'; } # KiB
check "its memory is that of --info" grep -qE "; $("$EXEC" ids --info --json | sum) KiB on the device;" said
check "a type that --quant makes" ends "ids: .*-> q8_0 \([0-9]+ tensors, $bytes\).*" --target tier1 --quant q8_0 -o ids
check "memory of each target" ends "ids: .*; $bytes \(tier1\), $bytes \(tier3\) on the device; .*" --target tier1,tier3 -o ids
check "--quiet: no last line" says_nothing --target tier1 --quiet -o ids
check "-v: progress as lines" says "kernels 100%" --target tier1 -v -o ids
check "and of the weights" grep -qx "dopplerc: weights 100%" said
# How a plan was made.
made() { # OPTION...: what --info says of it
    "$DOPPLERC" "$model" --chunks 8 --target tier1 --quiet -o made "$@" && "$EXEC" made --info | sed -nE 's/^(made by|options) +/\1 /p' >said
}
check "--info: options" made --quant attn=q8_0 --force L0/o=gemv --no-fuse L0/ffn_up+L0/ffn_up --skip merge-siblings
check "--info: the release and the kernels" grep -qE '^made by dopplerc [0-9.]+, kernels [0-9a-f]{16}, shaderc .+, SPIRV-Tools v.+$' said
check "--info: what they asked for" \
    grep -qx 'options quant attn=q8_0; forced L0/o=gemv; apart L0/ffn_up+L0/ffn_up; skipped merge-siblings' said
check "--info: without options" sh -c '"$1" "$2" --chunks 8 --target tier1 --quiet -o made && "$3" made --info | grep -qE "^options +quant keep$"' \
    sh "$DOPPLERC" "$model" "$EXEC"
rm -f made ids
check "--quiet" says_nothing --target tier1 --ctx 2000 --quiet --emit ir
"$TOOLS/make_gguf" tiny-mixtral q4_0 blocks.gguf empty
again() { # TEXT TYPE: what --quant says of weights that are in blocks already
    "$DOPPLERC" blocks.gguf --target tier1 --ctx 64 --chunks 8 --quant "$2" --emit ir 2>said >/dev/null && grep -qE "$1" said
}
check "weights that are rounded again" \
    again "weights that the model stores as q4_0 become q8_0 \\([0-9.]+ MiB become [0-9.]+\\): they are rounded a second time" q8_0
check "weights that are expanded again" again 'stores as q4_0 become f16 .*: what was lost when they were rounded does not come back' f16
check "weights that stay as they are" bash -c '! grep -q "model stores as" <("$0" blocks.gguf --target tier1 --ctx 64 \
    --chunks 8 --quant keep --emit ir 2>&1 >/dev/null)' "$DOPPLERC"
rm blocks.gguf
check "a layer's label in --force" says "target tier1: .*" --target tier1 --force L0/o=gemv --explain L0/o
pair() { # TEXT PAIR: --explain says it of two neighbours
    "$DOPPLERC" "$model" --chunks 8 --target "${4:-tier1}" --quiet --explain "$2" >pairs && grep -qE "$1" pairs
}
check "--explain of a refused pair" pair '^decode1 L0/o add -> L0/ffn_up [a-z_0-9]+: not joined: [a-z-]+, ' L0/o+L0/ffn_up
check "--explain of a refused pair: every layer" pair '^decode1 L\*/o add -> L\*/ffn_up .* \(2 times\)$' o+ffn_up
check "--explain of a fused pair" pair '^decode1 .* silu -> .* mul: joined by [a-z-]+ as silu\+gate' silu+mul
apart() { # TEXT PAIR OPTION...: --explain says it of two neighbours, given what was kept apart
    "$DOPPLERC" "$model" --chunks 8 --target tier1 --quiet --explain "$2" "${@:3}" >pairs && grep -qE "$1" pairs
}
check "--no-fuse A+B: this edge is not joined" apart '^decode1 .* silu -> .* mul: not joined: disabled' silu+mul --no-fuse silu+mul
check "--no-fuse A+B: in every layer" apart '\(2 times\)' silu+mul --no-fuse 'L*/ffn_up+L*/ffn_up'
check "--no-fuse A+B: in one layer" apart '^decode1 L0/.* silu -> .*: joined by' L0/ffn_up+L0/ffn_up --no-fuse=L1/ffn_up+mul
check "--no-fuse A+B: other edges are joined" apart '^decode1 .*: joined by' o+o --no-fuse silu+mul
refuses 2 "--no-fuse o+ffn_up changes nothing: o and ffn_up are not joined without it either: reduction-barrier, the consumer" \
    "$model" -o plan --target tier1 --chunks 8 --no-fuse o+ffn_up
refuses 2 "--no-fuse silu+mul changes nothing: silu and mul are not joined without it either: no pass that could join them runs" \
    "$model" -o plan --target tier1 --chunks 8 --no-fuse --no-fuse silu+mul
refuses 2 "--no-fuse L9/ffn_up+mul: L9/ffn_up, but the model has layers 0-1" "$model" -o plan --target tier1 --no-fuse L9/ffn_up+mul
refuses 2 "--force L0-9/qkv=gemv: L0-9/qkv, but the model has layers 0-1" "$model" -o plan --target tier1 --force L0-9/qkv=gemv
refuses 2 "--force qkv=gemv has no effect: --force qkv=gemv_subgroup, which comes later, decides wherever it would" \
    "$model" -o plan --target tier1 --chunks 8 --force qkv=gemv --force qkv=gemv_subgroup
printf 'base: tier1\nsubgroup: 8\nsubgroup: 16\n' >twice.yaml
refuses 1 "twice.yaml:3: error: subgroup is given twice, first on line 2" "$model" -o plan --target twice.yaml
rm twice.yaml
# One line for equal layers, with what they cost by the target.
grouped() {
    "$DOPPLERC" "$SRC/tests/golden/gemma3" --chunks 8 --target tier1 --quiet --explain ffn_up >grouped &&
        grep -E '^decode1 @[0-9]+ L0-6/ffn_up: gemv_subgroup \(.*; reads [0-9.]+ KiB, writes [0-9.]+ .?i?B: ' grouped |
        grep -qE ': [0-9.]+ us by bandwidth, 6 us for the dispatch and its barrier \(7 times\)$'
}
check "--explain: equal layers are one line, with numbers" grouped
changes() { pair "$@" --target lavapipe; }
again="computing it in each takes [0-9.e-]+ us, storing and loading it [0-9.e-]+ us"
check "--explain A+B: what would have to change" changes \
    "^prefill8 embed gather -> L\\*/qkv .*; [0-9] dispatches read it: $again: .*; joined, [0-9.]+ KiB less would be moved" embed+qkv
check "--explain A+B: a reduction is called one" \
    pair '^decode1 head argmax_part -> head argmax_merge: not joined: reduction-barrier' argmax_part+argmax_merge
check "--explain A+B: what is saved" pair \
    '^decode1 .* silu -> .* mul: joined by [a-z-]+ as silu\+gate: [0-9.]+ .?i?B less are moved \([0-9.e-]+ us\)' silu+mul
refuses 2 "--explain o+zz: no region of zz reads what one of o makes" "$model" --target tier1 --chunks 8 --explain o+zz
kernels() { # a report beside --emit ir has sizes of kernels
    "$DOPPLERC" "$model" --chunks 8 --target tier1 --quiet --emit ir --report | grep -q '^memory: .* kernels [1-9]'
}
check "--emit ir --report: kernels have a size" kernels

check "-h is --help" cmp <("$DOPPLERC" -h) <("$DOPPLERC" --help)
check "--help says nothing of options that are not here" bash -c '! "$0" -h | grep -q n-predict' "$DOPPLERC"

# ---- files ----------------------------------------------------------------------------------------------------------
refuses 1 "nowhere.yaml: error: cannot open: No such file or directory" "$model" -o plan --target nowhere.yaml
refuses 1 "/nonexistent/plan: error: cannot write: No such file or directory" "$model" -o /nonexistent/plan
refuses 1 "$WORK: error: cannot write: Is a directory" "$model" -o "$WORK"
refuses 1 "No space left on device" "$model" -o /dev/full
refuses 1 "/dev/null: error: --weights external needs a regular file" "$model" -o /dev/null --weights external
[ -c /dev/full ] && pass "/dev/full is still a device" || fail "/dev/full is still a device"
refuses 1 "/nonexistent/r: error: cannot write: No such file or directory" "$model" -o plan --report=/nonexistent/r
# Before the work: nothing is said of the target and of what is timed.
refuses 1 "/nonexistent/p: error: cannot write: No such file or directory" "$model" -o /nonexistent/p
refuses 1 "/nonexistent/t: error: cannot write: No such file or directory" "$model" --tune -o /nonexistent/t
refuses 1 "/nonexistent/t: error: cannot write: No such file or directory" "$model" --tune --target-out /nonexistent/t
if [ "$(id -u)" -ne 0 ]; then
    mkdir closed
    chmod 500 closed
    refuses 1 "closed/plan: error: cannot write: Permission denied" "$model" -o closed/plan
    cp -r "$model" unreadable
    chmod 0 unreadable/config.json
    refuses 1 "unreadable/config.json: error: cannot open: Permission denied" unreadable -o plan
fi
# The disk fills up: what was there before stays, nothing half-written is left.
mkdir disk
echo old >disk/plan
check_fails "a plan that outgrows the disk" 1 "File too large" \
    bash -c 'trap "" XFSZ && ulimit -f 64 && exec "$0" "$1" -o disk/plan --quiet' "$DOPPLERC" "$model"
echo old >disk/plan.weights
check_fails "weights that outgrow the disk" 1 "File too large" \
    bash -c 'trap "" XFSZ && ulimit -f 64 && exec "$0" "$1" -o disk/plan --quiet --weights external' "$DOPPLERC" "$model"
[ "$(cat disk/plan.weights)" = old ] && pass "the old weights stay" || fail "the old weights stay"
rm disk/plan.weights
[ "$(cat disk/plan)" = old ] && pass "the old plan stays" || fail "the old plan stays"
[ "$(ls disk)" = plan ] && pass "nothing half-written is left" || fail "nothing half-written is left" "$(ls disk)"

# It is ended while it works: there is a whole plan or none, and nothing beside it.
ended() { # SECONDS
    "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o disk/other --quiet --target tier3 --chunks 8 --quant f32 &
    sleep "$1"
    kill -TERM $! 2>/dev/null
    wait $!
    if [ -e disk/other ]; then "$EXEC" disk/other --info >/dev/null || return; fi
    rm -f disk/other
    [ "$(ls disk)" = plan ]
}
for after in 0.05 0.2 0.4; do
    check "ended after $after s" ended $after
done
rm -r disk

# ---- where a plan may go ----------------------------------------------------------------------------------------------
compile() { # OPTION...
    "$DOPPLERC" "$model" --target tier1 --chunks 8 --ctx 64 --quiet "$@"
}
compile -o reference
mkdir links elsewhere
echo old >elsewhere/old
ln -s ../elsewhere/old links/existing
ln -s ../elsewhere/new links/dangling
ln -s existing links/chain
ln -s loop links/loop
for link in existing dangling chain; do
    made=$([ $link = dangling ] && echo new || echo old)
    through() {
        compile -o links/$link && [ -L links/$link ] && [ -f elsewhere/$made ] && cmp elsewhere/$made reference
    }
    check "-o on a link ($link): what it names is the plan, the link stays" through
    echo old >elsewhere/old
done
check "nothing else is left there" [ "$(ls elsewhere links | tr '\n' ' ')" = "elsewhere: new old  links: chain dangling existing loop " ]
refuses 1 "links/loop: error: cannot write: Too many levels of symbolic links" "$model" -o links/loop
# As /dev/stdout is one; not that itself, which a program that replaces links would destroy when root runs this test.
ln -s /proc/self/fd/1 links/stdout
to_pipe() { compile -o links/stdout | cat >got && cmp got reference && [ -L links/stdout ]; }
check "-o on a link to a pipe" to_pipe
to_file() { compile -o links/stdout >got && cmp got reference && [ -L links/stdout ]; }
check "-o on a link to a file that is open" to_file
mkfifo fifo
to_fifo() {
    cat fifo >got &
    compile -o fifo && wait $! && cmp got reference && [ -p fifo ]
}
check "-o on a named pipe" to_fifo
external() {
    ln -s ../elsewhere/w links/w.weights
    compile -o links/w --weights external && [ -L links/w.weights ] && [ -s elsewhere/w ] && [ -f links/w ]
}
check "external weights go through a link too" external
refuses 1 "fifo: error: --weights external needs a regular file" "$model" -o fifo --weights external
link_report() {
    ln -s ../elsewhere/report.json links/report.json
    compile --report=links/report.json && [ -L links/report.json ] && grep -q doppler-report elsewhere/report.json
}
check "--report goes through a link" link_report
if command -v script >/dev/null; then
    terminal() {
        script -qec "'$DOPPLERC' '$model' --target tier1 --chunks 8 --quiet -o links/stdout" /dev/null </dev/null >typed
        [ $? -eq 2 ] && grep -q "a plan is not text: name a file" typed && [ "$(wc -c <typed)" -lt 200 ]
    }
    check "not to a terminal" terminal
fi

# ---- no output takes the place of an input ---------------------------------------------------------------------------
cp -r "$model" input
printf 'base: tier1\n' >target.yaml
printf '"*": keep\n' >quant.yaml
printf 'fuse: on\n' >path.yaml
printf 'rules:\n' >tuning.yaml
ln -s input/config.json linked
ln input/config.json hard
cp target.yaml external.weights
before=$(cat input/* target.yaml quant.yaml path.yaml tuning.yaml external.weights | md5sum)
kept() { # NAME TEXT ARGUMENT...
    check_fails "$1" 2 "$2: error: this file is an input: name another one to write to" "$DOPPLERC" "${@:3}"
}
kept "-o: a file of the model" input/model.safetensors input -o input/model.safetensors
kept "-o: a link to one" linked input -o linked
kept "-o: another name of one" hard input -o hard
kept "-o: a tokenizer" input/expected.json input -o input/expected.json
kept "-o: the target" target.yaml input -o target.yaml --target tier2,./target.yaml
kept "-o: the kernel path" path.yaml input -o path.yaml --kernel-path path.yaml
kept "-o: the tuning" tuning.yaml input -o tuning.yaml --tuning tuning.yaml
kept "-o: the types" quant.yaml input -o quant.yaml --quant quant.yaml
kept "external weights: the target" external.weights input -o external --weights external --target ./external.weights
for file in two.part0 two.part1.weights; do # the target would be one of the files of the parts
    ln target.yaml $file
    kept "--parts: $file" $file input -o two --parts 2 --split --weights external --target target.yaml --quiet
    rm $file
done
kept "--report: a file of the model" input/config.json input -o plan --report=input/config.json
kept "--report: a file of the model, second" input/config.json input --report=r.json --report=input/config.json
mkdir dump
ln -s ../input/config.json dump/000-decode1-canon.ir
kept "--dump-dir: a link to a file of the model" dump/000-decode1-canon.ir input --dump-dir dump
check_fails "the plan and its report" 2 "the plan and the report need files of their own" "$DOPPLERC" input -o plan --report=plan
check_fails "the plan and its second report" 2 "the plan and the report need files of their own" \
    "$DOPPLERC" input -o plan --report=r.json --report=plan
after=$(cat input/* target.yaml quant.yaml path.yaml tuning.yaml external.weights | md5sum)
[ "$before" = "$after" ] && pass "every input is as it was" || fail "every input is as it was"
twice() {
    "$DOPPLERC" input -o input/m.plan --weights external --report=input/r.html --target tier1 --chunks 8 --quiet &&
        "$DOPPLERC" input -o input/m.plan --weights external --report=input/r.html --target tier1 --chunks 8 --quiet
}
check "a plan, its weights and a page beside the model can be made again" twice
for how in "" --split; do
    for again in first second; do
        check "a plan in parts beside the model, $how $again time" "$DOPPLERC" input -o input/parts.plan --parts 2 $how --weights external \
            --target tier1 --chunks 8 --quiet
    done
done
check_fails "--split without a plan" 2 "--split is about the files of a plan" "$DOPPLERC" input --parts 2 --simulate x.yaml --split
check_fails "--tune of parts" 2 "--tune writes a tuning file and nothing else" "$DOPPLERC" input --parts 2 --tune -o t.yaml
printf 'GGUF' >in.gguf
kept "-o: the .gguf" in.gguf in.gguf -o in.gguf

# ---- YAML -------------------------------------------------------------------------------------------------------------
: >empty.yaml
printf '# only this\n' >comment.yaml
for file in empty comment; do
    refuses 1 "$file.yaml: error: nothing is in this file: a target file is a mapping" "$model" -o plan --target $file.yaml
    refuses 1 "$file.yaml: error: nothing is in this file: a kernel path is a mapping" "$model" -o plan --kernel-path $file.yaml
    refuses 1 "$file.yaml: error: nothing is in this file: a tuning file is a mapping" "$model" -o plan --tuning $file.yaml
    refuses 1 "$file.yaml: error: nothing is in this file: expected a mapping" "$model" -o plan --quant $file.yaml
done
printf 'base: self.yaml\n' >self.yaml
printf 'base: ./b.yaml\n' >a.yaml
printf 'base: c.yaml\n' >b.yaml
printf 'base: a.yaml\n' >c.yaml
refuses 1 "self.yaml: error: each target is the base of the next: self.yaml -> self.yaml" "$model" -o plan --target self.yaml
refuses 1 "a.yaml: error: each target is the base of the next: a.yaml -> ./b.yaml -> c.yaml -> a.yaml" "$model" -o plan --target a.yaml
refuses 1 "each target is the base of the next: ./b.yaml -> c.yaml -> a.yaml -> ./b.yaml" "$model" -o plan --target ./b.yaml
for i in $(seq 20); do printf 'base: long%d.yaml\n' $((i + 1)) >long$i.yaml; done
printf 'base: tier1\n' >long21.yaml
refuses 1 "more than 16 bases of bases" "$model" -o plan --target long1.yaml
number() { # FIELD VALUE RANGE
    printf 'base: tier1\n%s: %s\n' "$1" "$2" >number.yaml
    refuses 1 "number.yaml:2: error: $1: $2 is not a $3" "$model" -o plan --target number.yaml
}
for value in 0 1e40 inf nan -1 1.5 4294967296; do
    number cores $value "whole number from 1 to 4294967295"
done
for value in 16383 1e40 inf -inf nan 0x1p80; do
    number max_alloc $value "whole number from 16384 to 9007199254740992"
done
for value in 0 1e40 inf nan -1 5GB; do
    number bandwidth $value "number from 1 to 1e+18"
done
for value in 63 0; do
    number max_workgroup $value "whole number from 64 to 4294967295"
    number shared_bytes $value "whole number from 16384 to 4294967295"
done
printf 'base: tier1\nmerges: yes\n' >number.yaml
refuses 1 "number.yaml:2: error: merges: yes is neither true nor false" "$model" -o plan --target number.yaml
for value in 1e40 0 4097 -1 x; do
    printf 'rules:\n  - {op: qkv, lanes: %s}\n' "$value" >tuning.yaml
    refuses 1 "tuning.yaml:2: error: lanes: $value is no number from 1 to 4096" "$model" -o plan --tuning tuning.yaml
done
printf -- '- {op: qkv, lanes: 4}\n' >tuning.yaml
refuses 1 "tuning.yaml: error: a tuning file is a mapping of fields, as a kernel path is" "$model" -o plan --tuning tuning.yaml
printf 'kv: f16\n' >tuning.yaml
refuses 1 "tuning.yaml:1: error: kv is no field of a tuning file; known: name, about, measured, rules" "$model" -o plan --tuning tuning.yaml
printf 'measured: {device: x}\n' >tuning.yaml
refuses 1 "tuning.yaml:1: error: measured: expected device, driver and kernels" "$model" -o plan --tuning tuning.yaml

# ---- chat templates, closed streams, files that change --------------------------------------------------------------
cp -r "$model" small
printf '{%% if x %%}open' >small/chat_template.jinja
refuses 1 "mend it, or take it out of the model to go without a chat format" small -o plan
rm small/chat_template.jinja
quick=("$DOPPLERC" small --quiet --target tier2 --chunks 8)
check "a plan" "${quick[@]}" -o open.out
check "all streams are closed" bash -c '"$@" <&- >&- 2>&-' bash "${quick[@]}" -o streams.out
check "the same plan" cmp open.out streams.out
check_fails "stdout is closed" 1 "error: cannot write to stdout" bash -c '"$@" >&-' bash "${quick[@]}" --emit ir
# The report is written before weights are read, and the plan waits for who reads the pipe.
mkfifo page.txt pipe.out
"${quick[@]}" --report=page.txt -o pipe.out 2>said &
pid=$!
timeout 60 cat page.txt >page
: >small/model.safetensors
timeout 60 cat pipe.out >piped
status=0
wait $pid || status=$?
if [ $status -eq 1 ] && [ "$(wc -l <said)" -eq 1 ] &&
    grep -q "^dopplerc: .*/small/model.safetensors: error: the file was cut short" said; then
    pass "a model that is cut short while it is read"
else
    fail "a model that is cut short while it is read" "status $status: $(cat said)"
fi
finish
