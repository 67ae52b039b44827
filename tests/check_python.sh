# The Python package: what it says of the headers, its types, and what it does with the demo.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$EXEC")
package=$SRC/bindings/python
include=$SRC/include/doppler

if ! command -v python3 >/dev/null || ! python3 -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    skip "the Python package" "no python3 with ctypes"
    finish
fi
export PYTHONDONTWRITEBYTECODE=1

# ---- declarations -----------------------------------------------------------------------------------------------------
headers=("$include/status.h" "$include/doppler.h" "$include/text.h" "$include/constraint.h" "$include/generation.h"
    "$include/images.h" "$include/speech.h" "$include/draw.h" "$include/compile.h")
check "every header is read" [ "$(ls "$include"/*.h | wc -l)" -eq ${#headers[@]} ]
python3 "$package/make_abi.py" "${headers[@]}" >abi.py
check "doppler/_abi.py is what make_abi.py makes of the headers" diff "$package/doppler/_abi.py" abi.py

# Calls that messages of the library name, which this package translates.
named=$(grep -rhoE '`dop_[a-z_.]+`' "$SRC"/{base,ir,passes,kernels,compiler,runtime} --include=*.c | tr -d '`' | sort -u)
check "the package knows every call that a message names" \
    sh -c 'for name in $2; do grep -qF "\"$name\"" "$1" || exit; done' sh "$package/doppler/_library.py" "$named"

# Sizes and offsets as the compiler has them.
cat >layout.py <<'end'
import ctypes
import sys

import abi

structs = [s for s in vars(abi).values() if isinstance(s, type) and issubclass(s, ctypes.Structure) and s is not ctypes.Structure]
constants = [n for n in vars(abi) if n.startswith("DOP_")]
if sys.argv[1] == "c":
    print("#include <stddef.h>\n#include <stdio.h>")
    for header in "compile", "images", "draw", "speech", "generation":
        print(f"#include <doppler/{header}.h>")
    print("int main(void)\n{")
    for s in structs:
        print(f'    printf("{s.__name__} %zu\\n", sizeof({s.__name__}));')
        for name, *_ in s._fields_:
            print(f'    printf("{s.__name__}.{name} %zu %zu\\n", offsetof({s.__name__}, {name}), sizeof((({s.__name__} *)0)->{name}));')
    for name in constants:
        print(f'    printf("{name} %d\\n", (int){name});')
    print("}")
else:
    for s in structs:
        print(s.__name__, ctypes.sizeof(s))
        for name, *_ in s._fields_:
            print(f"{s.__name__}.{name} {getattr(s, name).offset} {getattr(s, name).size}")
    for name in constants:
        print(name, getattr(abi, name))
end
python3 layout.py c >layout.c
python3 layout.py python >seen
check "they compile" cc -std=c11 -I"$SRC/include" layout.c -o layout
check "structures are laid out so" sh -c './layout | diff - seen && [ $(wc -l <seen) -gt 200 ]'

# ---- installed --------------------------------------------------------------------------------------------------------
for part in python library compiler_library; do
    check "installs $part" cmake --install "$build" --prefix "$WORK/prefix" --component $part
done
mv "$WORK/prefix" "$WORK/moved"
export PYTHONPATH=$WORK/moved/lib/python3/dist-packages
if command -v mypy >/dev/null; then
    cat >use.py <<'end'
import doppler

with doppler.Model("m.plan") as model, model.sequence() as sequence:
    for piece in sequence.write("ROMEO:"):
        reveal_type(piece)
    reveal_type(model.embed(["a"])[0])
    sequence.feed("no ids")  # a text is no list of ids
end
    mypy --strict --no-incremental --cache-dir=/dev/null "$PYTHONPATH/doppler" use.py >types 2>&1
    check "types" sh -c 'grep -q "^use.py:.* error: " types && ! grep -v "^use.py:" types | grep "error: "'
    check "those of the package are seen" sh -c 'grep -q "\"builtins.str\"" types &&
        grep -q "array.array\[builtins.float" types && grep -q "incompatible type \"str\"" types'
else
    skip "types" "no mypy"
fi
if nm "$build/libdoppler.so" | grep -q __asan_; then
    skip "what it does" "a library with sanitizers"
    finish
fi
check "a plan" "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" -o demo.plan --ctx 64 --chunks 8 --sequences 3 --rows 2,4 --embed \
    --target lavapipe --quiet
"$EXEC" demo.plan -p "ROMEO:" -n 20 --temp 0 --quiet >want
golden=$SRC/tests/adapters/lora
check "a plan with room" "$DOPPLERC" "$golden" -o room.plan --quiet --target lavapipe --chunks 7 --kv f32 --adapters 1 --rank 5
mkdir eyes && cp "$SRC"/tests/vision/{qwen3_vl,tokenizer}/* eyes/ && chmod -R u+w eyes
check "a plan with eyes" "$DOPPLERC" eyes -o eyes.plan --quiet --target lavapipe --ctx 256 --chunks 32
check "what it does" python3 "$SRC/tests/python/test_doppler.py" demo.plan "$SRC/examples/shakespeare-gemma3" want \
    room.plan "$golden" eyes.plan eyes/image.png
sed 's/^VERSION = .*/VERSION = "0.0.9"/' -i "$PYTHONPATH/doppler/_where.py"
check "a library of another release is refused" sh -c \
    '! python3 -c "import doppler" 2>said && grep -q "ImportError: libdoppler is release .*, and this package is of 0.0.9" said'
finish
