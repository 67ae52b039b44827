/* Multimodal models (text, pictures, sound), whose text part is described by text_config. */
#include "frontend/hf/parts.h"
#include "frontend/hf/hf.h"

#include <string.h>

bool
dop_hf_any_text_part(const char *arch)
{
    static const char *const archs[] = {
        "AyaVisionForConditionalGeneration",  "Cohere2VisionForConditionalGeneration",
        "Exaone4_5_ForConditionalGeneration", "GraniteSpeechForConditionalGeneration",
        "Idefics3ForConditionalGeneration",   "InternVLForConditionalGeneration",
        "Lfm2VlForConditionalGeneration",     "LlavaForConditionalGeneration",
        "LlavaNextForConditionalGeneration",  "LlavaOnevisionForConditionalGeneration",
        "Mistral3ForConditionalGeneration",   "SmolVLMForConditionalGeneration",
        "VoxtralForConditionalGeneration",
    };
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strcmp(archs[i], arch) == 0)
            return true;
    return false;
}

dop_hf_sizes
dop_hf_part_sizes(const dop_hf *hf)
{
    static const struct {
        const char *family;
        dop_hf_sizes sizes;
    } rows[] = {
        {"llama", {4096, 32, 32, 11008, 32000}},   {"mistral", {4096, 32, 32, 14336, 32000}},
        {"qwen2", {4096, 32, 32, 22016, 151936}},  {"qwen3", {4096, 32, 32, 22016, 151936}},
        {"granite", {4096, 32, 32, 11008, 32000}}, {"cohere2", {8192, 40, 64, 22528, 256000}},
    };
    for (size_t i = 0; hf->cfg.object != hf->top.object && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].family, hf->family->name) == 0)
            return rows[i].sizes;
    return (dop_hf_sizes){0};
}
