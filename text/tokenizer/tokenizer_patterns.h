/* Pre-tokenizer patterns of published vocabularies, for files that contain only the pattern's name (GGUF and
 * others). */
#ifndef DOPPLER_TEXT_TOKENIZER_TOKENIZER_PATTERNS_H
#define DOPPLER_TEXT_TOKENIZER_TOKENIZER_PATTERNS_H

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3 CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define QWEN2_WORDS LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define QWEN2 CONTRACTIONS "|" QWEN2_WORDS
#define QWEN35 CONTRACTIONS "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL
#define O200K_DIGITS(digits)                                                                     \
    LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS "?|" digits \
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define O200K O200K_DIGITS("\\p{N}{1,3}")
#define TEKKEN LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define DEEPSEEK_WORDS                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL
#define SEED CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" TAIL
#define BAILING \
    "'(?i:[sdmt]|ll|ve|re)|" LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
/* Kimi's pattern. Differs from O200K in two ways: runs of Chinese characters are separate words, and punctuation
 * words do not extend over "/". */
#define KIMI_UPPER "(?:(?!\\p{Han})" UPPER ")"
#define KIMI_LOWER "(?:(?!\\p{Han})" LOWER ")"
#define KIMI                                                                                           \
    "[\\p{Han}]+|" LEAD KIMI_UPPER "*" KIMI_LOWER "+" CONTRACTIONS "?|" LEAD KIMI_UPPER "+" KIMI_LOWER \
    "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL

/* Building blocks: groups of three digits counted from the right, runs of Chinese or Japanese characters, whole
 * lines. */
#define DIGITS3 "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define LINES "[^\\n]+|\\n+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define JAIS2                                                                                                   \
    CONTRACTIONS                                                                                                \
    "|" LEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)"                 \
    "|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)" \
    "|\\s{1,2}(?!\\S)|\\s"
#define EXAONE_MOE                                                                                                    \
    CONTRACTIONS "|" LEAD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]" \
                 "|\\s+(?!\\S)|\\s+"
#define MINICPM5 CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define SPARK                                                                                           \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" \
    "| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+"
#define YOUTU_BLOCKS                                                                                             \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}" \
    "\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" CJK
#define AFMOE_LETTERS                                                                                                \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}\\x{ff65}-\\x{" \
    "ff9f}"                                                                                                          \
    "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}" \
    "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
/* Content of a character class: letters with upper and lower case, in the scripts of DeepSeek's first tokenizers. */
#define CASED_LETTERS                                                                                      \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"        \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}"        \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"      \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"      \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"                 \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"                \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"      \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}"        \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"                 \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"                 \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"       \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"      \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"                     \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"                 \
    "\\x{1e900}-\\x{1e943}"

#endif
