#include "frontend/hf/image.h"
#include "frontend/vision/tower.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 24 }; /* largest accepted number; dop_image_processor_check() checks actual bounds */

/* Reads a number, or the member `edge` of an object; default: `otherwise`. */
static dop_status
read_number_or_edge(const dop_json *j, const char *key, const char *edge, uint32_t otherwise, uint32_t *out)
{
    dop_json sub;
    if (!json_is_object(dop_json_get(j, key)))
        return dop_json_u32_or(j, key, 1, MOST, otherwise, out);
    dop_status st = dop_json_sub(j, key, &sub);
    return st != DOP_OK ? st : dop_json_u32_or(&sub, edge, 1, MOST, otherwise, out);
}

/* Reads three numbers, or one number for all colors. */
static dop_status
read_hf_colors(const dop_json *j, const char *key, const float *otherwise, float out[3])
{
    const json_t *v = dop_json_get(j, key);
    for (size_t c = 0; c < 3; c++) {
        double d = otherwise[c];
        const json_t *const item = json_is_array(v) ? json_array_get(v, c) : v;
        if (v && (!dop_json_number(item, &d) || (json_is_array(v) && json_array_size(v) != 3)))
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is not a list of three numbers", j->where, key);
        out[c] = (float)d;
    }
    return DOP_OK;
}

/* Reads `size`: pixels of each edge, or of the shorter or longer edge; for DOP_IMAGE_PIXELS the total number of
 * pixels. */
static dop_status
read_image_size(const dop_json *j, dop_image_processor *p)
{
    dop_json size = {.path = j->path, .diag = j->diag};
    dop_status st = DOP_OK;
    uint32_t n = 0;
    if (json_is_object(dop_json_get(j, "size")))
        st = dop_json_sub(j, "size", &size);
    else if ((st = dop_json_u32_or(j, "size", 1, MOST, 0, &n)) == DOP_OK && n > 0)
        p->width = p->height = p->shortest = p->longest = n;
    if (p->form == DOP_IMAGE_PIXELS) {
        const dop_json *const low = dop_json_has(j, "min_pixels") ? j : &size, *const high =
                                                                                   dop_json_has(j, "max_pixels")
                                                                                       ? j
                                                                                       : &size;
        const char *const least = dop_json_has(low, "min_pixels") ? "min_pixels" : "shortest_edge";
        const char *const most = dop_json_has(high, "max_pixels") ? "max_pixels" : "longest_edge";
        if (st == DOP_OK && dop_json_has(low, least))
            st = dop_json_u64(low, least, 0, UINT32_MAX, &p->min_pixels);
        if (st == DOP_OK && dop_json_has(high, most))
            st = dop_json_u64(high, most, 1, UINT32_MAX, &p->max_pixels);
        /* Published models allow more pixels than any device can process at once; larger pictures are scaled down. */
        if (p->max_pixels > DOP_PICTURE_MAX_PIXELS / p->frames)
            p->max_pixels = DOP_PICTURE_MAX_PIXELS / p->frames;
        return st;
    }
    if (st == DOP_OK)
        st = dop_json_u32_or(&size, "shortest_edge", 1, MOST, p->shortest, &p->shortest);
    if (st == DOP_OK)
        st = dop_json_u32_or(&size, "longest_edge", 1, MOST, p->longest, &p->longest);
    if (st == DOP_OK)
        st = dop_json_u32_or(&size, "height", 1, MOST, p->height, &p->height);
    if (st == DOP_OK)
        st = dop_json_u32_or(&size, "width", 1, MOST, p->width, &p->width);
    if (p->form == DOP_IMAGE_EDGE && dop_json_has(&size, "height"))
        p->form = DOP_IMAGE_EXACT;
    else if (p->form == DOP_IMAGE_EXACT && dop_json_has(&size, "shortest_edge"))
        p->form = DOP_IMAGE_EDGE;
    else if (p->form == DOP_IMAGE_LONGEST && dop_json_has(&size, "height"))
        p->longest = p->width > p->height ? p->width : p->height;
    return st;
}

/* Reads the bounds of LFM2-VL's tile grid. */
static dop_status
read_grid(const dop_json *j, dop_image_processor *p)
{
    bool whole = true;
    DOP_RETURN_IF_ERROR(dop_json_bool_or(j, "do_image_splitting", p->split, &p->split));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "tile_size", 1, MOST, p->tile, &p->tile));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "min_tiles", 1, MOST, p->min_tiles, &p->min_tiles));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "max_tiles", 1, MOST, p->max_tiles, &p->max_tiles));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(j, "max_pixels_tolerance", 0, 1e6, p->pan_ratio, &p->pan_ratio));
    DOP_RETURN_IF_ERROR(dop_json_bool_or(j, "use_thumbnail", true, &whole));
    if (p->split && !whole)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%suse_thumbnail is false, which is not supported", j->where);
    p->split = p->split && p->max_tiles > 1;
    return DOP_OK;
}

/* Reads whether and how a picture is cut into tiles; each processor class has its own field names. */
static dop_status
read_image_tiles(const dop_json *j, dop_image_processor *p)
{
    dop_status st = DOP_OK;
    switch (p->form) {
    case DOP_IMAGE_TILES:
        st = dop_json_bool_or(j, "do_image_splitting", p->split, &p->split);
        return st != DOP_OK ? st : read_number_or_edge(j, "max_image_size", "longest_edge", p->tile, &p->tile);
    case DOP_IMAGE_CANVAS:
        st = dop_json_bool_or(j, "crop_to_patches", p->split, &p->split);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "min_patches", 1, MOST, p->min_tiles, &p->min_tiles);
        return st != DOP_OK ? st : dop_json_u32_or(j, "max_patches", 1, MOST, p->max_tiles, &p->max_tiles);
    case DOP_IMAGE_PAN:
        st = dop_json_bool_or(j, "do_pan_and_scan", p->split, &p->split);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "pan_and_scan_min_crop_size", 1, MOST, 256, &p->pan_edge);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "pan_and_scan_max_num_crops", 1, MOST, 4, &p->max_tiles);
        return st != DOP_OK ? st : dop_json_f64_or(j, "pan_and_scan_min_ratio_to_activate", 0, 1e6, 1.2, &p->pan_ratio);
    case DOP_IMAGE_PIXELS:
        return p->tile ? read_grid(j, p) : DOP_OK;
    default:
        return DOP_OK;
    }
}

static dop_status
read_switches(const dop_json *j, dop_image_processor *p)
{
    uint32_t filter = 0;
    DOP_RETURN_IF_ERROR(dop_json_bool_or(j, "do_resize", true, &p->resize));
    DOP_RETURN_IF_ERROR(dop_json_bool_or(j, "do_center_crop", p->crop, &p->crop));
    DOP_RETURN_IF_ERROR(dop_json_bool_or(j, "do_rescale", true, &p->rescale));
    DOP_RETURN_IF_ERROR(dop_json_bool_or(j, "do_normalize", true, &p->normalize));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(j, "rescale_factor", 1e-9, 1e6, 1.0 / 255, &p->factor));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "resample", 0, 5, p->filter, &filter));
    if (filter < DOP_FILTER_LANCZOS || filter > DOP_FILTER_BICUBIC)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "resample is %u; 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are supported", filter);
    p->filter = (dop_filter)filter;
    if (p->crop)
        DOP_RETURN_IF_ERROR(read_number_or_edge(j, "crop_size", "height", p->crop_height, &p->crop_height));
    if (p->crop)
        DOP_RETURN_IF_ERROR(read_number_or_edge(j, "crop_size", "width", p->crop_width, &p->crop_width));
    return DOP_OK;
}

/* Reads a patch size: a number, or a list of equal numbers in some files. */
static dop_status
read_patch(const dop_json *j, uint32_t otherwise, uint32_t *out)
{
    const json_t *v = dop_json_get(j, "patch_size");
    *out = otherwise;
    if (!json_is_array(v))
        return read_number_or_edge(j, "patch_size", "height", otherwise, out);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_int_t n = json_integer_value(json_array_get(v, i));
        if (n < 1 || n > MOST || (i > 0 && n != (json_int_t)*out))
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%spatch_size has no square patches", j->where);
        *out = (uint32_t)n;
    }
    return DOP_OK;
}

/* Reads the number of patches along an edge of a feature, which config.json states in one of six ways. */
static dop_status
read_image_merge(const dop_json *config, const dop_json *vision, dop_image_processor *p)
{
    double ratio = 0;
    uint32_t tokens = 0, window = 0;
    const char *type = "";
    dop_status st = dop_json_str_or(config, "model_type", "", &type);
    const dop_projector_kind *kind = st == DOP_OK ? dop_projector_kind_of(type) : NULL;
    if (kind && kind->merge)
        p->merge = kind->merge;
    if (st == DOP_OK)
        st = dop_json_u32_or(config, "scale_factor", 1, MOST, p->merge, &p->merge);
    if (st == DOP_OK)
        st = dop_json_u32_or(config, "downsample_factor", 1, MOST, p->merge, &p->merge);
    if (st == DOP_OK)
        st = dop_json_u32_or(config, "spatial_merge_size", 1, MOST, p->merge, &p->merge);
    if (st == DOP_OK)
        st = dop_json_u32_or(vision, "spatial_merge_size", 1, MOST, p->merge, &p->merge);
    if (st == DOP_OK)
        st = dop_json_u32_or(vision, "pooling_kernel_size", 1, 64, p->merge, &p->merge);
    if (st == DOP_OK)
        st = dop_json_f64_or(config, "downsample_ratio", 1e-3, 1, 0, &ratio);
    if (st == DOP_OK)
        st = dop_json_u32_or(config, "mm_tokens_per_image", 1, MOST, p->form == DOP_IMAGE_PAN ? 256 : 0, &tokens);
    if (st == DOP_OK)
        st = dop_json_u32_or(vision, "window_size", 1, MOST, 0, &window);
    if (ratio > 0)
        p->merge = (uint32_t)lround(1 / ratio);
    if (tokens > 0) { /* features of a square picture */
        const uint32_t edge = (uint32_t)lround(sqrt(tokens)), grid = p->patch ? p->width / p->patch : 0;
        if (edge * edge != tokens || grid % edge != 0)
            return DOP_FAIL_IN(config->diag, DOP_E_INPUT, config->path,
                               "mm_tokens_per_image %u does not divide a picture of %u x %u patches", tokens, grid,
                               grid);
        p->merge = grid / edge;
    }
    if (st == DOP_OK && p->patch * p->merge > 0)
        p->window = window / (p->patch * p->merge);
    return st;
}

/* LFM2-VL: reads the bounds of a picture's size in features. */
static dop_status
read_feature_bounds(const dop_json *j, dop_image_processor *p)
{
    const uint64_t each = (uint64_t)p->patch * p->merge * p->patch * p->merge;
    uint32_t least = 0, most = 0;
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "min_image_tokens", 1, 1 << 16, 0, &least));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "max_image_tokens", 1, 1 << 16, 0, &most));
    p->min_pixels = least ? least * each : p->min_pixels;
    p->max_pixels = most ? most * each : p->max_pixels;
    return DOP_OK;
}

/* Gemma 4: converts the number of features per picture to a number of patches. The processor merges squares of patches
 * into features. */
static dop_status
read_budget(const dop_json *j, dop_image_processor *p)
{
    uint32_t features = 0;
    DOP_RETURN_IF_ERROR(read_patch(j, p->patch, &p->patch));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "pooling_kernel_size", 1, 64, p->merge, &p->merge));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "max_soft_tokens", 1, 1 << 16, p->max_patches / 9, &features));
    p->max_patches = features * p->merge * p->merge;
    return DOP_OK;
}

static dop_status
read_model_patches(const dop_json *config, const dop_json *j, dop_image_processor *p)
{
    dop_json vision = {0};
    const char *type = NULL, *select = NULL;
    dop_status st = dop_json_sub(config, "vision_config", &vision);
    if (st == DOP_OK)
        st = read_patch(&vision, p->patch ? p->patch : 14, &p->patch);
    if (st == DOP_OK)
        st = read_image_merge(config, &vision, p);
    if (st == DOP_OK && p->form == DOP_IMAGE_BUDGET)
        st = read_budget(j, p);
    /* For Qwen, LFM2-VL and SigLIP 2 the processor makes the rows of patches, so its own numbers apply. */
    if (st == DOP_OK && (p->form == DOP_IMAGE_PIXELS || p->form == DOP_IMAGE_PATCHES)) {
        st = read_patch(j, p->patch, &p->patch);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "encoder_patch_size", 1, MOST, p->patch, &p->patch);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "downsample_factor", 1, MOST, p->merge, &p->merge);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "merge_size", 1, MOST, p->merge, &p->merge);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "temporal_patch_size", 1, MOST, p->frames, &p->frames);
        if (st == DOP_OK)
            st = dop_json_u32_or(j, "max_num_patches", 1, MOST, p->max_patches, &p->max_patches);
    }
    if (st == DOP_OK && p->form == DOP_IMAGE_PIXELS)
        st = read_feature_bounds(j, p);
    if (st == DOP_OK)
        st = dop_json_str_or(config, "vision_feature_select_strategy", "", &select);
    if (st == DOP_OK)
        st = dop_json_str_or(config, "model_type", "", &type);
    if (st != DOP_OK)
        return st;
    st = dop_json_u32_or(config, "image_token_index", 0, INT32_MAX, 0, &p->image_id);
    if (st == DOP_OK)
        st = dop_json_u32_or(config, "image_token_id", 0, INT32_MAX, p->image_id, &p->image_id);
    if (st != DOP_OK)
        return st;
    p->more_features = strcmp(select, "full") == 0;
    if (p->form == DOP_IMAGE_LONGEST && strcmp(type, "llava") == 0) /* first model with Pixtral's tower */
        type = "pixtral";
    dop_image_marks_of(type, p);
    return DOP_OK;
}

static dop_status
read_image_processor(const dop_json *j, const dop_json *config, dop_image_processor *p)
{
    const char *name = NULL;
    DOP_RETURN_IF_ERROR(dop_json_str_or(j, "image_processor_type", NULL, &name));
    if (!name)
        /* older name of the field */
        DOP_RETURN_IF_ERROR(dop_json_str_or(j, "feature_extractor_type", NULL, &name));
    if (!name)
        return dop_json_missing(j, "image_processor_type");
    if (strcmp(name, "CLIPFeatureExtractor") == 0)
        name = "CLIPImageProcessor";
    if (!dop_image_processor_of(name, p))
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%simage_processor_type \"%.80s\" is not supported", j->where,
                           name);
    const dop_image_processor row = *p;
    DOP_RETURN_IF_ERROR(read_switches(j, p));
    DOP_RETURN_IF_ERROR(read_hf_colors(j, "image_mean", row.mean, p->mean));
    DOP_RETURN_IF_ERROR(read_hf_colors(j, "image_std", row.std, p->std));
    DOP_RETURN_IF_ERROR(read_image_size(j, p));
    DOP_RETURN_IF_ERROR(read_image_tiles(j, p));
    DOP_RETURN_IF_ERROR(read_model_patches(config, j, p));
    dop_diag why = {0};
    if (dop_image_processor_check(p, &why) != DOP_OK)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%.200s", why.message);
    return DOP_OK;
}

dop_status
dop_hf_image_processor(const char *dir, const dop_json *config, dop_diag *diag, bool *out_present,
                       dop_image_processor *out_processor)
{
    static const char *const files[] = {"preprocessor_config.json", "processor_config.json"};
    *out_present = false;
    *out_processor = (dop_image_processor){0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[4096];
        json_t *root = NULL;
        dop_json j = {0}, own = {0};
        if (snprintf(path, sizeof path, "%s/%s", dir, files[i]) >= (int)sizeof path)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, dir, "the path is too long");
        if (access(path, F_OK) != 0)
            continue;
        dop_status st = dop_json_decode_file(&(dop_json_how){.path = path}, diag, &root);
        if (st == DOP_OK)
            st = dop_json_root(root, path, diag, &j);
        if (st == DOP_OK)
            st = dop_json_sub(&j, "image_processor", &own);
        const bool is_it = own.object || (i == 0 && st == DOP_OK);
        if (st == DOP_OK && is_it)
            st = read_image_processor(own.object ? &own : &j, config, out_processor);
        json_decref(root);
        *out_present = st == DOP_OK && is_it;
        if (st != DOP_OK || is_it)
            return st;
    }
    return DOP_OK;
}
