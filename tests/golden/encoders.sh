# Encoders and cross-encoders give the hidden states, vectors and scores of an independent implementation, for each text of a step
# whatever stands beside it.  `whole`: all models, unfused and for GPUs too, and --check.
. "$(dirname "$0")/../lib.sh"
whole=${1:-}
exact=5e-5 # everything in f32

printf '%s\n' "base: tier1" "name: tier1-subgroup8" "subgroup: 8" >tier1.yaml

# encodes NAME MODEL OPTION...
encodes() {
    local name=$1 model=$2
    shift 2
    check "$name: compiles" "$DOPPLERC" "$model" -o "$name.plan" --quiet --chunks 128 "$@" &&
        check "$name: as expected" "$TOOLS/encoded" "$name.plan" "${folder:-$model}" $exact
}

# agree PLAN: --check finds every kernel right.
agree() {
    "$EXEC" "$1" --check >checked && ! grep -q '^MISS' checked &&
        tail -n 1 checked | grep -q '^\([0-9]*\) of \1 kernels agree'
}

models=$SRC/tests/encoders

# from_gguf NAME MODEL: the model as llama.cpp's converter writes it gives the same.  T5's files do not state the greatest distance of
# positions, which is always 128: what such a model gives is compared with its folder.
from_gguf() {
    local folder=$2
    check "$1: GGUF" "$TOOLS/hf_to_gguf" "$2" "$1.gguf" && encodes "$1-gguf" "$1.gguf" --target lavapipe
}
t5_rows() {
    cp -r "$models/t5_encoder" t5 && sed -i 's/"relative_attention_max_distance": 32/"relative_attention_max_distance": 128/' t5/config.json &&
        "$TOOLS/hf_to_gguf" t5 t5.gguf || return 1
    for model in t5 t5.gguf; do
        "$DOPPLERC" "$model" -o t5.plan --quiet --chunks 128 --target lavapipe &&
            "$EXEC" t5.plan --embed=all --logits "rows.$model" --tokens "$(seq -s ' ' 5 60)" --quiet || return 1
    done
    [ -s rows.t5 ] && cmp rows.t5 rows.t5.gguf
}
if [ "$whole" = whole ]; then
    check "t5_encoder-gguf: rows" t5_rows
    for model in "$models"/* "$SHARED"/golden/encoders/*; do
        name=${model##*/}
        [ -d "$model" ] || continue
        case $name in # llama.cpp reads neither; it drops a part of BERT's classifier, ModernBERT's biases, Gemma's cap; T5: above
        clip* | mpnet | gte | bert_cross | modernbert_biases | embeddinggemma_48 | t5_encoder) ;;
        *) from_gguf "$name" "$model" ;;
        esac
        encodes "$name" "$model" --target lavapipe
        encodes "$name-unfused" "$model" --target lavapipe --no-fuse
        encodes "$name-gpu" "$model" --target tier1.yaml
        encodes "$name-plain" "$model" --target tier3 --kv f32
        check "$name: kernels agree" agree "$name.plan"
        check "$name-gpu: kernels agree" agree "$name-gpu.plan"
    done
    finish
    exit
fi

encodes bert "$models/bert" --target lavapipe
encodes modernbert "$models/modernbert" --target lavapipe
# Its width is no square, and it states a cap of scores, which Gemma 3 does not have.
encodes embeddinggemma_48 "$models/embeddinggemma_48" --target lavapipe
encodes xlm_roberta_cross "$models/xlm_roberta_cross" --target lavapipe
check "embeddinggemma: RDRR" "$TOOLS/hf_to_rdrr" "$models/embeddinggemma" rdrr &&
    folder=$models/embeddinggemma encodes embeddinggemma-rdrr rdrr --target lavapipe

cp -r "$models/bert" odd && chmod -R u+w odd && sed -i '1s/{/{"position_embedding_type": "rotary", /' odd/config.json
check_fails "other positions" 1 'position_embedding_type is "rotary", expected "absolute"' "$DOPPLERC" odd -o odd.plan
encodes clip_projection "$models/clip_projection" --target lavapipe

# A text's vector is the row of its end, which is that of eos_token_id; 2 stands for the largest id.  What follows it changes nothing.
ids=$(grep -o '"ids": \[[^]]*' "$models/clip_projection/expected.json" | grep -o '[0-9][0-9, ]*' | tr -d ,)
cp -r "$models/clip_projection" clip && cp "$SRC/tests/tokenizers/clip/tokenizer.json" clip
sed -i 's/"eos_token_id": 2/"eos_token_id": 188/' clip/config.json
check "an end by its id: compiles" "$DOPPLERC" clip -o clip.plan --quiet --chunks 128 --target lavapipe
near() { # two vectors
    awk -F '[][]' '{ n = split($2, v, ","); for (i = 1; i <= n; i++) { if (NR == 1) a[i] = v[i]; d += (a[i] - v[i]) ^ 2 } }
        END { exit !(NR == 2 && n == 32 && d < 1e-10) }' "$1"
}
ends() {
    echo "[${ids// /,}]" >whole.jsonl && echo "[$(echo "$ids" | sed 's/ 188 .*/ 188/; s/ /,/g')]" >>whole.jsonl
    "$EXEC" clip.plan --embed -f whole.jsonl --quiet >vectors && near vectors &&
        "$EXEC" clip_projection.plan --embed -f whole.jsonl --quiet >vectors && ! near vectors
}
check "an end by its id" ends
check "CLIP's words" sh -c 'echo "{\"text\": \"A photo  of the CAT\", \"add_special\": true}" >one.jsonl &&
    [ "$("$1" clip.plan --tokenize one.jsonl | tr -d " ")" = "[318,106,155,143,138,145,319]" ]' sh "$EXEC"
check "--info of CLIP" sh -c '"$1" clip.plan --info | grep -q "rows of 32 values; of a text that of its end"' sh "$EXEC"

ids=$(grep -o '"ids": \[[^]]*' "$models/bert/expected.json" | grep -o '[0-9][0-9, ]*' | tr -d ,)
cat >texts.jsonl <<END
[${ids// /,}]
{"tokens": [5, 6, 7]}
END
vectors() { # a vector a line, of which the first is that of --tokens
    "$EXEC" bert.plan --embed -f texts.jsonl --quiet >vectors && [ "$(wc -l <vectors)" -eq 2 ] &&
        "$EXEC" bert.plan --embed --tokens "$ids" --quiet >one &&
        [ "$(head -n 1 vectors)" = "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' one)" ] && grep -q '"pooling":"mean"' one
}
check "--embed of a file" vectors
check "--embed=all" "$EXEC" bert.plan --embed=all --logits rows --tokens "$ids" --quiet
check "--embed=all writes rows" sh -c '[ "$(wc -c <rows)" -eq 6144 ]'
check "--score" sh -c '"$1" xlm_roberta_cross.plan --score --tokens "$2" --quiet | grep -q "\"scores\":\[1.02579"' sh "$EXEC" \
    "$(grep -o '"ids": \[[^]]*' "$models/xlm_roberta_cross/expected.json" | grep -o '[0-9][0-9, ]*' | tr -d ,)"
check "--info" sh -c '"$1" bert.plan --info | grep -q "^program .*encode"' sh "$EXEC"
check_fails "tokens from an encoder" 1 "the model encodes texts and gives no tokens" "$EXEC" bert.plan --tokens "1 2"
check_fails "vectors from a cross-encoder" 1 "gives scores of texts and no vectors" "$EXEC" xlm_roberta_cross.plan --embed --tokens 5
check_fails "scores from vectors" 1 "gives no scores of texts" "$EXEC" bert.plan --score --tokens 5
check_fails "a text that is too long" 1 "text 0 has 65 tokens, and this plan encodes at most 64" "$EXEC" bert.plan --embed \
    --tokens "$(seq -s ' ' 65)"
echo "{\"x\": 1}" >bad.jsonl
check_fails "a line that is none" 1 'expected a text, an object with "text"' "$EXEC" bert.plan --embed -f bad.jsonl

# With a tokenizer, texts and pairs of them: [CLS] a [SEP] and [CLS] a [SEP] b [SEP].
for name in bert xlm_roberta_cross; do
    cp -r "$models/$name" "$name" && cp "$models/tokenizer.json" "$name"
    check "$name with a tokenizer: compiles" "$DOPPLERC" "$name" -o "$name-text.plan" --quiet --chunks 128 --target lavapipe
done
printf '%s\n' '"the dog sat"' '{"text": "the cat is red"}' >documents.jsonl

# Prompts of config_sentence_transformers.json: the default one, one by name, none for ids.
echo '{"prompts": {"query": "find the ", "document": "", "cat": "red "}, "default_prompt_name": "cat"}' \
    >bert/config_sentence_transformers.json
check "prompts: compiles" "$DOPPLERC" bert -o prompts.plan --quiet --chunks 128 --target lavapipe
of() { # PLAN OPTION...
    "$EXEC" "$@" --embed --quiet | sed 's/,"promptTokens.*//'
}
prompted() {
    [ "$(of prompts.plan -p "cat sat")" = "$(of bert-text.plan -p "red cat sat")" ] &&
        [ "$(of prompts.plan -p "cat sat" --prompt-name query)" = "$(of bert-text.plan -p "find the cat sat")" ] &&
        [ "$(of prompts.plan -p "cat sat" --prompt-name document)" = "$(of bert-text.plan -p "cat sat")" ] &&
        [ "$(of prompts.plan --tokens "5 6 7")" = "$(of bert-text.plan --tokens "5 6 7")" ] &&
        [ "$(of prompts.plan -p "cat sat")" != "$(of prompts.plan -p "cat sat" --prompt-name query)" ]
}
check "prompts of --embed" prompted
prompted_lines() {
    "$EXEC" prompts.plan --embed -f documents.jsonl --quiet >lines && echo '"red the dog sat"' >red.jsonl &&
        "$EXEC" bert-text.plan --embed -f red.jsonl --quiet >line && near_lines line lines
}
near_lines() { # the first lines
    paste "$1" "$2" | awk -F '[][]' 'NR == 1 { n = split($2, a, ","); split($4, b, ",")
        for (i = 1; i <= n; i++) d += (a[i] - b[i]) ^ 2 } END { exit !(n == 64 && d < 1e-10) }'
}
check "prompts of lines" prompted_lines
check_fails "a prompt that there is not" 1 'no prompt "title"; it has cat, document, query' "$EXEC" prompts.plan --embed -p cat \
    --prompt-name title
"$EXEC" bert-text.plan --rerank "find the red cat" -f documents.jsonl --quiet >asked
check "prompts of --rerank" sh -c '"$1" prompts.plan --rerank "red cat" -f documents.jsonl --quiet | cmp - asked' sh "$EXEC"
sed 's/"cat"}/"dog"}/' bert/config_sentence_transformers.json >other && mv other bert/config_sentence_transformers.json
check_fails "a default that is none" 1 '"default_prompt_name" is none of its prompts' "$DOPPLERC" bert -o bad.plan --quiet --target lavapipe
echo '{"prompts": {"query": 7}}' >bert/config_sentence_transformers.json
check_fails "a prompt that is no text" 1 '"prompts": "query" is not a text' "$DOPPLERC" bert -o bad.plan --quiet --target lavapipe

ranks() { # PLAN: the second document goes better with the query
    "$EXEC" "$1" --rerank "red cat" -f documents.jsonl --quiet >ranks && [ "$(grep -c '^{"index":[01],"score":' ranks)" -eq 2 ]
}
check "--rerank by vectors" ranks bert-text.plan
check "--rerank: likeness" awk -F '[:}]' 'NR == 1 { first = $3 } END { exit !($3 > first && $3 <= 1.000001) }' ranks
check "--rerank by a cross-encoder" ranks xlm_roberta_cross-text.plan
# Files of llama.cpp have the words and what stands between the texts of a pair too.
for name in bert xlm_roberta_cross; do
    "$EXEC" "$name-text.plan" --rerank "red cat" -f documents.jsonl --quiet >ranks
    rm -f "$name/config_sentence_transformers.json"
    check "$name: GGUF with words" "$TOOLS/hf_to_gguf" "$name" "$name.gguf" &&
        check "$name: GGUF compiles" "$DOPPLERC" "$name.gguf" -o "$name-gguf.plan" --quiet --chunks 128 --target lavapipe &&
        check "$name: GGUF ranks alike" sh -c '"$1" "$2" --rerank "red cat" -f documents.jsonl --quiet | cmp - ranks' sh \
            "$EXEC" "$name-gguf.plan"
done
from_gguf embeddinggemma "$models/embeddinggemma"

# Qwen3-Reranker is a text model, told by its name.  Its score is the probability of "yes" among "yes" and "no", which the logits of the
# same model under another name give too, behind the prompt that its README.md shows.
mkdir Qwen3-Reranker-tiny
cp "$SRC"/tests/golden/qwen3/{config.json,model.safetensors} Qwen3-Reranker-tiny
cp "$models/yes_no_tokenizer.json" Qwen3-Reranker-tiny/tokenizer.json
cp -r Qwen3-Reranker-tiny chat
for name in Qwen3-Reranker-tiny chat; do
    check "$name: compiles" "$DOPPLERC" $name -o $name.plan --chunks 512 --kv f32 --target lavapipe
done
sed -n 's/^static const char prompt\[\] =$/&/;/^static const char prompt/,/;$/s/^ *"\(.*\)";\{0,1\}$/\1/p' \
    "$SRC/frontend/hf/reranker.c" | tr -d '\n' | sed 's/\\"/"/g' >prompt
probability() { # QUERY DOCUMENT: by logits
    sed "s/{query}/$1/; s/{document}/$2/" prompt | xargs -0 printf '%b' >filled && "$EXEC" chat.plan --quiet -f filled -n 0 --logits rows &&
        tail -c 1280 rows | od -An -v -tf4 -w4 | awk 'NR == 258 { yes = $1 } NR == 259 { no = $1 } END { printf "%.4f\n", 1 / (1 + exp(no - yes)) }'
}
answers() {
    "$EXEC" Qwen3-Reranker-tiny.plan --rerank "red cat" -f documents.jsonl --quiet |
        sed 's/.*"score":\([^}]*\)}/\1/' | xargs printf '%.4f\n' >scores
    { probability "red cat" "the dog sat" && probability "red cat" "the cat is red"; } >wanted && cmp scores wanted
}
check "Qwen3-Reranker: probabilities of yes" answers
check_fails "tokens from a reranker" 1 "gives no tokens" "$EXEC" Qwen3-Reranker-tiny.plan -p cat
"$EXEC" xlm_roberta_cross-text.plan --rerank "red cat" -f documents.jsonl --quiet >ranks
score=$(sed -n '1s/.*"score":\([^}]*\)}/\1/p' ranks)
pair=$(echo '{"text": "red cat", "add_special": true}' >one.jsonl && "$EXEC" xlm_roberta_cross-text.plan --tokenize one.jsonl | tr -d '[]')
rest=$(echo '{"text": "the dog sat", "add_special": true}' >one.jsonl && "$EXEC" xlm_roberta_cross-text.plan --tokenize one.jsonl | tr -d '[]')
check "a pair is both texts" sh -c '"$1" xlm_roberta_cross.plan --score --tokens "$2" --quiet | grep -qF "\"scores\":[$3]"' sh "$EXEC" \
    "$(echo "$pair,${rest#*,}" | tr , ' ')" "$score"

"$EXEC" prompts.plan --serve 0 --quiet >log 2>&1 &
server=$!
for _ in $(seq 300); do
    url=$(sed -nE 's/^serving .* on (http:[^ ]+) .*/\1/p' log)
    [ -n "$url" ] && break
    sleep 0.1
done
# ask STATUS TEXT PATH BODY
ask() {
    local got
    got=$(curl -sS --max-time 600 -o answer -w '%{http_code}' -H 'Content-Type: application/json' -d "$4" "$url$3" 2>&1)
    [ "$got" = "$1" ] && grep -qE -e "$2" answer && pass "$3 $(echo "$4" | cut -c1-60)" || fail "$3 $4" "$got: $(head -c 300 answer)"
}
many=$(seq -s , 0 2047 | sed 's/[0-9]*/"the cat"/g')
ask 200 '"index":1,"embedding":\[.*"prompt_tokens":11' /v1/embeddings '{"model": "any", "strict": true, "input": ["the cat", "the dog sat"]}'
ask 200 '"prompt_tokens":9' /v1/embeddings '{"input": ["the cat", "the dog sat"], "prompt_name": "document"}'
ask 200 '"prompt_tokens":9' /v1/embeddings '{"input": [[2, 5, 6, 3], [2, 5, 7, 8, 3]]}'
ask 400 'no prompt .*title' /v1/embeddings '{"input": "the cat", "prompt_name": "title"}'
ask 200 '"embedding":"[A-Za-z0-9+/=]{16}"' /v1/embeddings '{"input": "the cat", "encoding_format": "base64", "dimensions": 3}'
ask 400 'dimensions is at most 64' /v1/embeddings '{"input": "the cat", "dimensions": 65}'
ask 400 'an input has 91 tokens, and .* is 64' /v1/embeddings "{\"input\": \"$(seq -s ' ' 0 87 | sed 's/[0-9]*/cat/g')\"}"
ask 200 '"index":2047' /v1/embeddings "{\"input\": [$many], \"dimensions\": 1}"
ask 400 'at most 2048 inputs' /v1/embeddings "{\"input\": [$many, \"a\"]}"
ask 200 '"results":\[\{"index":1,"relevance_score":0.9[^,]*,"document":\{"text": ?"the cat is red"' /v1/rerank \
    '{"query": "red cat", "documents": ["the dog sat", {"text": "the cat is red"}], "return_documents": true, "top_n": 1}'
ask 400 'query is the text' /v2/rerank '{"documents": ["a"]}'
ask 400 'documents is a list' /rerank '{"query": "a", "documents": []}'
ask 400 'a document is a text' /v1/rerank '{"query": "a", "documents": [7]}'
ask 400 'the model encodes texts and writes none' /v1/completions '{"prompt": "the cat"}'
ask 400 'the model encodes texts and writes none' /v1/messages '{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}'
ask 400 'chat template|encodes texts' /v1/chat/completions '{"messages": [{"role": "user", "content": "a"}]}'
check "the server ends" kill "$server"
wait "$server"
finish
