#!/bin/bash
# Time to the first token of a picture of 1024 x 1024 pixels with a vision model of Qwen3-VL-4B's sizes (vision_model.py), and that of
# llama.cpp's Vulkan backend for the same files.
#
#   picture.sh FOLDER [options]
#
#   --bin DIR        where dopplerc and doppler-exec are (default: build/ of this tree)
#   --type TYPE      storage of the text model's matrices: f16 (default), q8_0, q4_0
#   --peer MODULES   a folder of node_modules with @fugood/llama.node and @fugood/node-llama-linux-x64-vulkan, whose build of llama.cpp
#                    has its vision parts (npm i @fugood/llama.node @fugood/node-llama-linux-x64-vulkan)
#   --compile "..."  more options for dopplerc, as "--target nvidia-hopper"
#   --tiny           small sizes, to try the script
#
# FOLDER gets the files, which stay there (11 GB for f16).  Each of eight pictures is asked about once, by an HTTP request and by the peer's
# function; what counts is the median of the last six, decoding of the file included.  Where DIR has tests/tools/picture_times, a line
# tells what parts of the last one took without HTTP.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
die() { echo "picture.sh: $*" >&2 && exit 2; }
folder='' bin=$root/build type=f16 peer='' compile='' tiny=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --tiny) tiny=tiny; shift ;;
    --bin | --type | --peer | --compile)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in --bin) bin=$2 ;; --type) type=$2 ;; --peer) peer=$2 ;; --compile) compile=$2 ;; esac
        shift 2 ;;
    -*) die "unknown option $1; see --help" ;;
    *) folder=$1; shift ;;
    esac
done
[ -n "$folder" ] || die "usage: picture.sh FOLDER [options]; see --help"
[ -e "$folder/$type.made" ] || { python3 "$here/vision_model.py" "$folder" "$type" $tiny && touch "$folder/$type.made"; }
median() { sort -n | sed -n '4p'; } # the upper one of six
# shellcheck disable=SC2086
"$bin/dopplerc" "$folder/text.gguf" --mmproj "$folder/mmproj.gguf" -o "$folder/$type.plan" --ctx 4096 --chunks 64,512,2048 --quiet $compile
"$bin/doppler-exec" "$folder/$type.plan" --serve 0 >"$folder/log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
url=''
while [ -z "$url" ]; do
    url=$(sed -nE 's/^serving .* on (http:[^ ]+) .*/\1/p' "$folder/log")
    kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2 && exit 1; }
    sleep 0.2
done
python3 - "$url" "$folder" <<'EOF'
import base64, json, sys, time, urllib.request
url, folder = sys.argv[1:]
with open(folder + "/doppler.times", "w") as times:
    for i in range(1, 9):
        begin = time.perf_counter()
        with open(f"{folder}/{i}.png", "rb") as file:
            picture = "data:image/png;base64," + base64.b64encode(file.read()).decode()
        content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": "ab"}]
        body = json.dumps({"messages": [{"role": "user", "content": content}], "max_tokens": 1, "temperature": 0}).encode()
        asked = urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(asked, timeout=600))
        times.write(f"{time.perf_counter() - begin:.4f}\n")
print("prompt:", answer["usage"]["prompt_tokens"], "tokens")
EOF
kill "$server" && wait "$server" || true
trap - EXIT
echo "doppler: $(tail -n 6 "$folder/doppler.times" | median) s ($(tr '\n' ' ' <"$folder/doppler.times"))"
[ ! -x "$bin/tests/tools/picture_times" ] || "$bin/tests/tools/picture_times" "$folder/$type.plan" "$folder"/[1-8].png | tail -n 1
[ -n "$peer" ] || exit 0
cat >"$folder/peer.mjs" <<'EOF'
import fs from 'node:fs';
import { createRequire } from 'node:module';
const [modules, folder] = process.argv.slice(2);
const { loadModel } = createRequire(modules + '/')('@fugood/llama.node');
const model = await loadModel({ model: folder + '/text.gguf', n_ctx: 4096, n_gpu_layers: 99, n_batch: 2048, n_ubatch: 2048, lib_variant: 'vulkan' });
if (!(await model.initMultimodal({ path: folder + '/mmproj.gguf', use_gpu: true }))) throw new Error('no vision part');
for (let i = 1; i <= 8; i++) {
  const begin = performance.now();
  const content = [{ type: 'image_url', image_url: { url: `${folder}/${i}.png` } }, { type: 'text', text: 'ab' }];
  const r = await model.completion({ messages: [{ role: 'user', content }], n_predict: 1, temperature: 0 });
  fs.appendFileSync(folder + '/peer.times', ((performance.now() - begin) / 1e3).toFixed(4) + '\n');
  if (i === 8) fs.writeFileSync(folder + '/peer.json', JSON.stringify(r.timings));
}
process.exit(0);
EOF
rm -f "$folder/peer.times"
node "$folder/peer.mjs" "$peer" "$(cd "$folder" && pwd)" >"$folder/peer.log" 2>&1 || { tail -n 5 "$folder/peer.log" >&2 && exit 1; }
echo "llama.cpp: $(tail -n 6 "$folder/peer.times" | median) s ($(tr '\n' ' ' <"$folder/peer.times"))"
cat "$folder/peer.json" && echo
