/* How published vocabularies split text, as regular expressions; the kinds of files that only name them share these. */
#ifndef DOPPLER_RUNTIME_TEXT_TOKENIZER_PATTERNS_H
#define DOPPLER_RUNTIME_TEXT_TOKENIZER_PATTERNS_H

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3 CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define QWEN2 CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define QWEN35 CONTRACTIONS "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL
#define O200K                                                                        \
    LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS \
               "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define TEKKEN LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define DEEPSEEK_WORDS                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL
#define SEED CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" TAIL
#define BAILING \
    "'(?i:[sdmt]|ll|ve|re)|" LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
/* As O200K without contractions of their own branch, and Chinese characters by themselves. */
#define KIMI_UPPER "(?:(?!\\p{Han})" UPPER ")"
#define KIMI_LOWER "(?:(?!\\p{Han})" LOWER ")"
#define KIMI                                                                                           \
    "[\\p{Han}]+|" LEAD KIMI_UPPER "*" KIMI_LOWER "+" CONTRACTIONS "?|" LEAD KIMI_UPPER "+" KIMI_LOWER \
    "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL

#endif
