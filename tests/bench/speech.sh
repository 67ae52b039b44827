#!/bin/bash
# How long an hour of sound takes to be written down with a model of large-v3-turbo's sizes (random weights), beside whisper.cpp's build
# of npm for the same files.
#
#   speech.sh FOLDER [options]
#
#   --bin DIR        where dopplerc and doppler-exec are (default: build/ of this tree)
#   --tools DIR      where speech_model and sound are (default: tests/tools of --bin)
#   --type TYPE      storage of the model's matrices: f16 (default), q8_0, q5_0
#   --peer MODULES   a folder of node_modules with @fugood/whisper.node and @fugood/node-whisper-linux-x64-vulkan (npm i of both); its
#                    driver is built with cc, unless FOLDER has speech_peer
#   --compile "..."  more options for dopplerc, as "--target nvidia-hopper"
#   --seconds N      of sound (default 3600)
#   --how LIST       alone, chained or both (default "alone chained")
#   --limit S        seconds that each run of the peer may take (default 600)
#   --cpu            the peer computes on the CPU, as whisper.cpp is very slow on devices in software
#   --tiny           small sizes, to try the script
#
# FOLDER gets the files, which stay there.  Both write the likeliest token, without times and hotter attempts, so that nearly all windows
# have as many tokens as they may have (224, 220 of whisper.cpp): lengths mean nothing for random weights, and times per window and per
# token are printed beside.  "alone": no window depends on the text before, and we write 16 at once; "chained": each does.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
die() { echo "speech.sh: $*" >&2 && exit 2; }
folder='' bin=$root/build tools='' type=f16 peer='' compile='' seconds=3600 limit=600 hows='alone chained' where=gpu sizes=turbo keys=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --tiny) sizes=tiny keys='rows=1500 ctx=448 tokens=50257'; shift ;;
    --cpu) where=cpu; shift ;;
    --bin | --tools | --type | --peer | --compile | --seconds | --how | --limit)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --bin) bin=$2 ;; --tools) tools=$2 ;; --type) type=$2 ;; --peer) peer=$2 ;; --compile) compile=$2 ;; --seconds) seconds=$2 ;;
        --how) hows=$2 ;; --limit) limit=$2 ;;
        esac
        shift 2 ;;
    -*) die "unknown option $1; see --help" ;;
    *) folder=$1; shift ;;
    esac
done
[ -n "$folder" ] || die "usage: speech.sh FOLDER [options]; see --help"
tools=${tools:-$bin/tests/tools}
mkdir -p "$folder"
model=$folder/$type.bin sound=$folder/sound-$seconds.wav plan=$folder/$type.plan
# shellcheck disable=SC2086 # several words in one value
{
    [ -e "$model" ] || { "$tools/speech_model" "$model.part" $sizes "$type" $keys && mv "$model.part" "$model"; }
    [ -e "$sound" ] || { "$tools/sound" "$seconds" 1 >"$sound.part" && mv "$sound.part" "$sound"; }
    "$bin/dopplerc" "$model" -o "$plan" --sequences 16 --rows 16 --quiet $compile
}
for how in $hows; do
    batch=''
    [ "$how" = chained ] || batch='--audio-batch 16'
    # The first run finds what the driver compiles at first use.
    for _ in 1 2; do
        # shellcheck disable=SC2086
        "$bin/doppler-exec" "$plan" --audio "$sound" $batch --language en --temp 0 --no-timestamps >"$folder/text" 2>"$folder/log" ||
            { cat "$folder/log" >&2 && exit 1; }
        echo "doppler, $how: $(tail -n 1 "$folder/log")"
    done
done
[ -n "$peer" ] || exit 0
library=$peer/@fugood/node-whisper-linux-x64-vulkan
from=$peer/@fugood/whisper.node/whisper.cpp
[ -x "$folder/speech_peer" ] || cc -O2 -o "$folder/speech_peer" "$here/speech_peer.c" -I"$from/include" -I"$from/ggml/include" \
    "$library/index.node" -Wl,--unresolved-symbols=ignore-in-shared-libs # node's functions are never called
for how in $hows; do
    LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout "$limit" "$folder/speech_peer" "$model" "$sound" "$where" "$how" \
        2>"$folder/peer.log" || { tail -n 5 "$folder/peer.log" >&2 && echo "whisper.cpp, $how: none within $limit s"; continue; }
    sed -nE 's/^whisper_print_timings: *((mel|encode|decode|sample|batchd|prompt) time)/    \1/p' "$folder/peer.log"
done
