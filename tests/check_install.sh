# What is built and installed: names, dependencies, and that an installed compiler needs nothing of its source tree.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$DOPPLERC")
model=$SRC/tests/golden/llama

nothing() { # NAME TEXT: passes when TEXT is empty
    if [ -z "$2" ]; then pass "$1"; else fail "$1" "$(echo "$2" | head -n 10 | tr '\n' ' ')"; fi
}

# ---- libraries ------------------------------------------------------------------------------------------------------
for library in "$build"/libdop_*.a; do
    name=$(basename "$library" .a)
    nothing "$name exports dop_ names only" \
        "$(nm -g --defined-only "$library" | awk 'NF == 3 && $3 !~ /^(dop_|__)/ { print $3 }' | sort -u)"
done
nothing "the runtime library calls no compiler" \
    "$(nm -g --undefined-only "$build/libdop_runtime.a" "$build/libdop_base.a" |
        awk '$1 == "U" && $2 ~ /^(shaderc|spvc|yaml|dop_(ir|graph|pass|kernel))/ { print $2 }' | sort -u)"
nothing "doppler-exec loads no compiler" "$(ldd "$EXEC" | grep -E 'shaderc|spirv|yaml')"

# ---- installation ---------------------------------------------------------------------------------------------------
check "installs" cmake --install "$build" --prefix "$WORK/prefix"
mv "$WORK/prefix" "$WORK/moved"
installed=$WORK/moved/bin/dopplerc
check "both programs" "$installed" --version
check "both programs" "$WORK/moved/bin/doppler-exec" --version
check "every template" diff -r "$SRC/kernels/glsl" "$WORK/moved/share/doppler/glsl"
check "compiles from the build tree" "$DOPPLERC" "$model" -o build.plan --quiet
check "compiles when installed" "$installed" "$model" -o installed.plan --quiet
check "and makes the same plan" cmp build.plan installed.plan
find moved/share/doppler/glsl -type f | while read -r template; do
    echo '#error "a template of the installation"' >"$template"
done
if "$installed" "$model" -o broken.plan --quiet >broken.log 2>&1; then
    fail "uses the installed templates" "broken ones made no difference"
else
    pass "uses the installed templates"
fi
[ ! -e broken.plan ] && pass "a failure leaves no plan" || fail "a failure leaves no plan"
finish
