# What drivers make of kernels, without a device: the tables that `doppler-exec --report` prints (registers, spilled ones, scratch memory,
# waves) against bounds.  Sourced by spills.sh and anv.sh, which define
#   on DEVICE COMMAND...   runs a command on a device that is not there
#   bounds                 "NAME MOST NAME MOST ...": most registers that kernels may spill, by the beginning of their names; 0 for others
#   least_waves            waves on a SIMD that kernels of one token have at least; empty where the driver does not say
#   wanted                 a subgroup size that some kernel must have; empty: any

# Golden models and shapes of real ones, with every kind of layer.
broad=(golden/{mixtral,qwen3_5,deepseek_v3,deepseek_v32,mistral4,falcon_rw,falcon_h1,zamba2,mamba2,jamba}
    golden/{gemma3_hd256,gemma3n,gpt_oss,bitnet,kimi_linear,llama4_text}
    encoders/{bert,t5_encoder,modernbert} vision/qwen3_vl speech/whisper diffusion/sd15)
real=(llama3.2-1b:2,q4_k llama3.1-8b:2,f16 llama3.1-8b:2,q6_k qwen3-30b-a3b:2,q4_0 mamba2-2.7b:2,q8_0)

# Columns: kernel, local, subgroup, registers, spilled, scratch, shared, waves, code.
made() { on "$1" "$EXEC" "$2" --report >report 2>/dev/null && tail -n 1 report | grep -q ': \([0-9]*\) of \1 kernels made'; }

few_spills() {
    ! awk -v bounds="$bounds" 'BEGIN { n = split(bounds, b, " "); for (i = 1; i < n; i += 2) most[b[i]] = b[i + 1] }
        NF == 9 && NR > 1 { name = $1; sub("/.*", "", name); if ($5 > most[name] + 0 || ($6 > 0 && !(name in most))) print }' report | grep .
}

is_decode='$1 ~ /^(gemv|few|expert_(subgroup|each)|attention_decode)/'
waves() { ! awk -v least="$least_waves" "NF == 9 && $is_decode && \$8 < least" report | grep .; }
subgroups() { awk -v want="$wanted" 'NF == 9 && /_subgroup/ && $3 == want { n++ } END { exit n == 0 }' report; }

figures() { # NAME: one line
    awk -v name="$1" "NF == 9 && NR > 1 { n++; spilled += \$5; bad += \$5 + \$6 > 0; if (\$4 > most) most = \$4 }
        NF == 9 && NR > 1 && $is_decode && (!waves || \$8 < waves) { waves = \$8 }
        END { printf \"# %s: %d kernels, at most %d registers, %d spill (%d registers), waves of decode kernels at least %s\n\",
            name, n, most, bad, spilled, waves ? waves : \"-\" }" report
}

kernels() { # DEVICE TARGET MODEL [OPTION...]
    local device=$1 target=$2 model=$3 name plan
    name="$device $target $(basename "$3" .gguf)"
    shift 3
    plan=$target-$(basename "$model" .gguf).plan # the same for every device
    [ -e "$plan" ] || check "$name: compiles" "$DOPPLERC" "$model" -o "$plan" --quiet --target "$target" "$@" || return
    check "$name: the driver takes all kernels" made "$device" "$plan" || return
    figures "$name"
    check "$name: spilled registers" few_spills
    [ -z "$least_waves" ] || check "$name: waves of decode kernels" waves
    [ -z "$wanted" ] || check "$name: subgroups of $wanted" subgroups
}

# Every model of the list on pairs DEVICE:TARGET, which share a plan of each target.
broadly() { # DEVICE:TARGET...
    local model pair type
    for model in "${broad[@]}"; do
        for pair in "$@"; do kernels "${pair%:*}" "${pair#*:}" "$SRC/tests/$model" --chunks 16,64; done
        rm -f -- *.plan
    done
    for model in "${real[@]}"; do
        type=${model#*,}
        "$TOOLS/make_gguf" "${model%,*}" "$type" "${model%%:*}-$type.gguf" empty >/dev/null
        for pair in "$@"; do
            kernels "${pair%:*}" "${pair#*:}" "${model%%:*}-$type.gguf" --chunks 16,64,512 --rows 2,4 --sequences 4
        done
        rm -f -- *.plan *.gguf
    done
}
