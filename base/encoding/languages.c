/* Languages of Whisper, in the order of its tokens: https://arxiv.org/abs/2212.04356. */
#include "base/encoding/languages.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const dop_language languages[DOP_N_LANGUAGES] = {
    {"en", "english"},        {"zh", "chinese"},       {"de", "german"},    {"es", "spanish"},    {"ru", "russian"},
    {"ko", "korean"},         {"fr", "french"},        {"ja", "japanese"},  {"pt", "portuguese"}, {"tr", "turkish"},
    {"pl", "polish"},         {"ca", "catalan"},       {"nl", "dutch"},     {"ar", "arabic"},     {"sv", "swedish"},
    {"it", "italian"},        {"id", "indonesian"},    {"hi", "hindi"},     {"fi", "finnish"},    {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},     {"el", "greek"},     {"ms", "malay"},      {"cs", "czech"},
    {"ro", "romanian"},       {"da", "danish"},        {"hu", "hungarian"}, {"ta", "tamil"},      {"no", "norwegian"},
    {"th", "thai"},           {"ur", "urdu"},          {"hr", "croatian"},  {"bg", "bulgarian"},  {"lt", "lithuanian"},
    {"la", "latin"},          {"mi", "maori"},         {"ml", "malayalam"}, {"cy", "welsh"},      {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},       {"lv", "latvian"},   {"bn", "bengali"},    {"sr", "serbian"},
    {"az", "azerbaijani"},    {"sl", "slovenian"},     {"kn", "kannada"},   {"et", "estonian"},   {"mk", "macedonian"},
    {"br", "breton"},         {"eu", "basque"},        {"is", "icelandic"}, {"hy", "armenian"},   {"ne", "nepali"},
    {"mn", "mongolian"},      {"bs", "bosnian"},       {"kk", "kazakh"},    {"sq", "albanian"},   {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},       {"pa", "punjabi"},   {"si", "sinhala"},    {"km", "khmer"},
    {"sn", "shona"},          {"yo", "yoruba"},        {"so", "somali"},    {"af", "afrikaans"},  {"oc", "occitan"},
    {"ka", "georgian"},       {"be", "belarusian"},    {"tg", "tajik"},     {"sd", "sindhi"},     {"gu", "gujarati"},
    {"am", "amharic"},        {"yi", "yiddish"},       {"lo", "lao"},       {"uz", "uzbek"},      {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},        {"tk", "turkmen"},   {"nn", "nynorsk"},    {"mt", "maltese"},
    {"sa", "sanskrit"},       {"lb", "luxembourgish"}, {"my", "myanmar"},   {"bo", "tibetan"},    {"tl", "tagalog"},
    {"mg", "malagasy"},       {"as", "assamese"},      {"tt", "tatar"},     {"haw", "hawaiian"},  {"ln", "lingala"},
    {"ha", "hausa"},          {"ba", "bashkir"},       {"jw", "javanese"},  {"su", "sundanese"},  {"yue", "cantonese"}};

/* Aliases, and current ISO 639 codes of languages that the models list under other codes. */
static const dop_language others[] = {
    {"my", "burmese"},   {"ca", "valencian"}, {"nl", "flemish"},   {"ht", "haitian"},  {"lb", "letzeburgesch"},
    {"ps", "pushto"},    {"pa", "panjabi"},   {"ro", "moldavian"}, {"ro", "moldovan"}, {"si", "sinhalese"},
    {"es", "castilian"}, {"zh", "mandarin"},  {"jw", "jv"},        {"no", "nb"},       {"tl", "fil"},
    {"he", "iw"}};

const dop_language *
dop_language_at(uint32_t number)
{
    return &languages[number];
}

uint32_t
dop_language_find(const char *name)
{
    const size_t n = strcspn(name, "-_"); /* without the region */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].name) == n && strncasecmp(name, others[i].name, n) == 0)
            return dop_language_find(others[i].code);
    for (uint32_t i = 0; i < DOP_N_LANGUAGES; i++)
        if (strcasecmp(name, languages[i].name) == 0 ||
            (strlen(languages[i].code) == n && strncasecmp(name, languages[i].code, n) == 0))
            return i;
    return DOP_N_LANGUAGES;
}
