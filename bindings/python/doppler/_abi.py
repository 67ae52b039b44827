"""The interface of libdoppler and libdopplerc: made from their headers by make_abi.py, not to be edited."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_long,
                    c_size_t, c_uint, c_uint32, c_uint64, c_uint8, c_void_p)
from typing import Any, Dict, List, Tuple

DOP_OK = 0
DOP_E_INPUT = 1
DOP_E_DEVICE = 2
DOP_E_IO = 3
DOP_E_NOMEM = 4
DOP_E_USAGE = 5
DOP_E_INTERNAL = 6
DOP_E_FULL = 7
DOP_E_LIMIT = 8
DOP_E_CANCELLED = 9
DOP_ORDERING_AUTO = 0
DOP_ORDERING_BARRIERS = 1
DOP_ORDERING_PERSISTENT = 2
DOP_ADAPTERS_AT_ONCE = 16
DOP_POOLING_MODEL = 0
DOP_POOLING_LAST = 1
DOP_POOLING_MEAN = 2
DOP_POOLING_CLS = 3
DOP_POOLING_END = 4
DOP_WANTS_LOGITS = 1
DOP_WANTS_PICK = 2
DOP_WANTS_DRAW = 8
DOP_WANTS_UNCHECKED = 4
DOP_TEXT_ADD_SPECIAL = 1
DOP_TEXT_PARSE_SPECIAL = 2
DOP_TEXT_ONCE = 4
DOP_TEXT_PROMPT = 7
DOP_TEXT_GOES_ON = 1
DOP_TEXT_KEEP_SPECIAL = 2
DOP_CHAT_LAST = 1
DOP_END_NOT_YET = 0
DOP_END_ID = 1
DOP_END_STOP_TEXT = 2
DOP_END_CONSTRAINT = 3
DOP_END_LENGTH = 4
DOP_TRANSCRIPT_TEXT = 0
DOP_TRANSCRIPT_JSON = 1
DOP_TRANSCRIPT_VERBOSE = 2
DOP_TRANSCRIPT_SRT = 3
DOP_TRANSCRIPT_VTT = 4
DOP_COMPILE_MOST_CTX = 16777216
DOP_COMPILE_MOST_CTX_TOTAL = 1073741824
DOP_COMPILE_MOST_SEQUENCES = 64
DOP_COMPILE_MOST_ADAPTERS = 64
DOP_COMPILE_MOST_RANK = 512

class dop_diag(Structure):
    _fields_ = [
        ("code", c_int),
        ("path", c_char * 512),
        ("line", c_long),
        ("column", c_long),
        ("message", c_char * 1024),
        ("src_file", c_char_p),
        ("src_line", c_int),
    ]


class dop_log(Structure):
    _fields_ = [
        ("line", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("user", c_void_p),
    ]


dop_progress_fn = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_uint64, c_uint64)


class dop_progress(Structure):
    _fields_ = [
        ("fn", dop_progress_fn),
        ("user", c_void_p),
    ]


class dop_device_facts(Structure):
    _fields_ = [
        ("number", c_uint32),
        ("name", c_char_p),
        ("driver", c_char_p),
        ("missing", c_char_p),
        ("memory", c_uint64),
        ("software", c_bool),
        ("line", c_char_p),
    ]


dop_device_fn = CFUNCTYPE(c_int, c_void_p, POINTER(dop_device_facts), POINTER(dop_diag))


class dop_open_options(Structure):
    _fields_ = [
        ("device", c_char_p),
        ("nth_device", c_uint32),
        ("cache_dir", c_char_p),
        ("threads", c_uint32),
        ("max_chunk", c_uint32),
        ("steps_ahead", c_uint32),
        ("steps_per_submit", c_uint32),
        ("checkpoints", c_uint32),
        ("checkpoint_bytes", c_uint64),
        ("cache_memory", c_uint64),
        ("prompt_cache", c_char_p),
        ("prompt_cache_bytes", c_uint64),
        ("separate_memory", c_bool),
        ("first_tokens", c_uint32),
        ("no_scoring", c_bool),
        ("ordering", c_int),
        ("parts", c_uint32),
        ("part", c_uint32),
        ("timeout_s", c_double),
        ("wire", c_void_p),
        ("chosen", dop_device_fn),
        ("chosen_user", c_void_p),
        ("progress", dop_progress),
        ("log", dop_log),
        ("refused", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("refused_user", c_void_p),
        ("submit_ms", c_double),
        ("on_demand", c_bool),
        ("no_steps", c_bool),
    ]


class dop_bias(Structure):
    _fields_ = [
        ("id", c_uint32),
        ("by", c_float),
    ]


class dop_sampling(Structure):
    _fields_ = [
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("repeat_penalty", c_float),
        ("repeat_last_n", c_uint32),
        ("presence_penalty", c_float),
        ("frequency_penalty", c_float),
        ("penalty_from", c_uint32),
        ("biases", POINTER(dop_bias)),
        ("n_biases", c_size_t),
        ("logprobs", c_bool),
        ("seed", c_uint64),
    ]


class dop_facts(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("family", c_char_p),
        ("quant", c_char_p),
        ("device", c_char_p),
        ("driver", c_char_p),
        ("target", c_char_p),
        ("software", c_bool),
        ("digest", c_uint64),
        ("vocab", c_uint32),
        ("ctx", c_uint32),
        ("ctx_trained", c_uint32),
        ("n_layers", c_uint32),
        ("n_sequences", c_uint32),
        ("page", c_uint32),
        ("n_pages", c_uint32),
        ("n_chunks", c_uint32),
        ("chunks", c_uint32 * 8),
        ("has_text", c_bool),
        ("bos_id", c_int32),
        ("n_end_ids", c_uint32),
        ("end_ids", POINTER(c_uint32)),
        ("sampling", dop_sampling),
        ("device_bytes", c_uint64),
        ("load_ms", c_double),
        ("drafts", c_bool),
    ]


class dop_counters(Structure):
    _fields_ = [
        ("allocations", c_uint64),
        ("recordings", c_uint64),
        ("submissions", c_uint64),
        ("tokens_reused", c_uint64),
        ("tokens_saved", c_uint64),
        ("tokens_loaded", c_uint64),
        ("checkpoints_made", c_uint64),
        ("checkpoints_used", c_uint64),
        ("cache_hits", c_uint64),
        ("file_hits", c_uint64),
        ("files_written", c_uint64),
        ("files_removed", c_uint64),
        ("pages_copied", c_uint64),
        ("waited_ms", c_double),
        ("steps_ahead", c_uint64),
        ("rows_dropped", c_uint64),
        ("checkpoints", c_uint32),
        ("checkpoint_bytes", c_uint64),
        ("cache_bytes", c_uint64),
        ("file_bytes", c_uint64),
        ("pages_free", c_uint32),
    ]


class dop_plan_target(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("device_bytes", c_uint64),
    ]


class dop_plan_facts(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("family", c_char_p),
        ("quant", c_char_p),
        ("made", c_char_p),
        ("digest", c_uint64),
        ("bytes", c_uint64),
        ("vocab", c_uint32),
        ("ctx", c_uint32),
        ("ctx_trained", c_uint32),
        ("n_layers", c_uint32),
        ("n_sequences", c_uint32),
        ("page", c_uint32),
        ("n_pages", c_uint32),
        ("part", c_uint32),
        ("n_parts", c_uint32),
        ("has_text", c_bool),
        ("n_targets", c_uint32),
        ("targets", POINTER(dop_plan_target)),
    ]


dop_sampler_fn = CFUNCTYPE(c_int, c_void_p, POINTER(c_float), c_uint32, POINTER(c_uint32), c_size_t, POINTER(dop_diag), POINTER(c_uint32))


class dop_adapter_use(Structure):
    _fields_ = [
        ("adapter", c_uint32),
        ("scale", c_float),
    ]


class dop_logprob(Structure):
    _fields_ = [
        ("id", c_uint32),
        ("logprob", c_float),
    ]


dop_draft_fn = CFUNCTYPE(c_int, c_void_p, POINTER(c_uint32), c_size_t, c_uint32, POINTER(dop_diag), POINTER(c_uint32), POINTER(c_uint32))


class dop_speculation(Structure):
    _fields_ = [
        ("fn", dop_draft_fn),
        ("user", c_void_p),
        ("ngram", c_uint32),
        ("draft", c_void_p),
        ("most", c_uint32),
        ("own", c_bool),
    ]


class dop_speculation_counts(Structure):
    _fields_ = [
        ("steps", c_uint64),
        ("drafted", c_uint64),
        ("accepted", c_uint64),
        ("again", c_uint64),
    ]


dop_logits_fn = CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t, POINTER(c_float), POINTER(dop_diag))


class dop_program_facts(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("width", c_uint32),
        ("max_rows", c_uint32),
        ("n_types", c_uint32),
        ("classes", c_uint32),
        ("pooling", c_int),
        ("normalized", c_bool),
        ("merge", c_uint32),
        ("class_row", c_bool),
    ]


class dop_value(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("data", c_void_p),
        ("n", c_size_t),
    ]


class dop_audio_facts(Structure):
    _fields_ = [
        ("bins", c_uint32),
        ("frames", c_uint32),
        ("rows", c_uint32),
        ("width", c_uint32),
    ]


class dop_token_text(Structure):
    _fields_ = [
        ("ids", POINTER(c_uint32)),
        ("n", c_uint32),
        ("second", c_uint32),
    ]


class dop_step_row(Structure):
    _fields_ = [
        ("sequence", c_void_p),
        ("token", c_uint32),
        ("wants", c_uint32),
    ]


class dop_message(Structure):
    _fields_ = [
        ("role", c_char_p),
        ("content", c_char_p),
    ]


class dop_generation_options(Structure):
    _fields_ = [
        ("text", c_void_p),
        ("sampling", POINTER(dop_sampling)),
        ("matcher", c_void_p),
        ("stops", POINTER(c_char_p)),
        ("n_stops", c_size_t),
        ("max_tokens", c_uint32),
        ("n_top", c_uint32),
        ("ignore_end", c_bool),
        ("keep_special", c_bool),
    ]


class dop_generation_token(Structure):
    _fields_ = [
        ("id", c_uint32),
        ("end", c_int),
        ("text", POINTER(c_char)),
        ("len", c_size_t),
        ("logprobs", POINTER(dop_logprob)),
    ]


class dop_images_options(Structure):
    _fields_ = [
        ("max_pixels", c_uint64),
        ("keep_bytes", c_uint64),
    ]


class dop_audio_options(Structure):
    _fields_ = [
        ("max_seconds", c_double),
        ("budget", c_void_p),
    ]


class dop_speech_segment(Structure):
    _fields_ = [
        ("start", c_double),
        ("end", c_double),
        ("text", c_char_p),
        ("tokens", POINTER(c_uint32)),
        ("n_tokens", c_size_t),
        ("seek", c_uint32),
        ("temperature", c_double),
        ("avg_logprob", c_double),
        ("compression_ratio", c_double),
        ("no_speech_prob", c_double),
    ]


class dop_speech_how(Structure):
    _fields_ = [
        ("language", c_char_p),
        ("translate", c_bool),
        ("no_timestamps", c_bool),
        ("prompt", c_char_p),
        ("forget", c_bool),
        ("together", c_uint32),
        ("temperature", c_double),
        ("one_attempt", c_bool),
        ("worst_logprob", c_double),
        ("worst_ratio", c_double),
        ("silence", c_double),
        ("seed", c_uint64),
        ("segment", CFUNCTYPE(c_int, c_void_p, POINTER(dop_speech_segment), POINTER(dop_diag))),
        ("continues", CFUNCTYPE(c_bool, c_void_p, c_double)),
        ("user", c_void_p),
    ]


class dop_transcript(Structure):
    _fields_ = [
        ("language", c_char_p),
        ("task", c_char_p),
        ("duration", c_double),
        ("text", c_char_p),
        ("n_segments", c_size_t),
        ("segments", POINTER(dop_speech_segment)),
        ("n_tokens", c_uint32),
        ("n_chunks", c_uint32),
        ("features_s", c_double),
        ("encoder_s", c_double),
        ("decoder_s", c_double),
    ]


class dop_draw_facts(Structure):
    _fields_ = [
        ("width", c_uint32),
        ("height", c_uint32),
        ("latents_width", c_uint32),
        ("latents_height", c_uint32),
        ("latents", c_uint32),
        ("times", c_uint32),
        ("context", c_uint32),
        ("context_rows", c_uint32),
        ("colours", c_uint32),
        ("rows_2", c_uint32),
        ("pooled", c_uint32),
        ("added", c_uint32),
        ("steps", c_uint32),
        ("guidance", c_double),
        ("sampler", c_char_p),
        ("takes_pictures", c_bool),
    ]


dop_draw_progress = CFUNCTYPE(c_bool, c_void_p, c_uint32, c_uint32)


class dop_draw_options(Structure):
    _fields_ = [
        ("text", c_char_p),
        ("negative", c_char_p),
        ("steps", c_uint32),
        ("guidance", c_double),
        ("seed", c_uint64),
        ("sampler", c_char_p),
        ("init", c_void_p),
        ("n_init", c_size_t),
        ("mask", c_void_p),
        ("n_mask", c_size_t),
        ("strength", c_double),
        ("progress", dop_draw_progress),
        ("user", c_void_p),
    ]


class dop_drawing(Structure):
    _fields_ = [
        ("width", c_uint32),
        ("height", c_uint32),
        ("rgb", POINTER(c_uint8)),
        ("steps", c_uint32),
        ("cut", c_uint32),
        ("guidance", c_double),
        ("sampler", c_char_p),
    ]


class dop_compile_options(Structure):
    _fields_ = [
        ("target", c_char_p),
        ("device", c_char_p),
        ("quant", c_char_p),
        ("imatrix", c_char_p),
        ("kv", c_char_p),
        ("act", c_char_p),
        ("size", c_char_p),
        ("chunks", c_char_p),
        ("rows", c_char_p),
        ("kernel_path", c_char_p),
        ("tuning", c_char_p),
        ("parts", c_char_p),
        ("part_memory", c_char_p),
        ("forces", POINTER(c_char_p)),
        ("apart", POINTER(c_char_p)),
        ("skips", POINTER(c_char_p)),
        ("loras", POINTER(c_char_p)),
        ("controls", POINTER(c_char_p)),
        ("mmproj", c_char_p),
        ("draft_head", c_char_p),
        ("control_layers", c_char_p),
        ("n_forces", c_size_t),
        ("n_apart", c_size_t),
        ("n_skips", c_size_t),
        ("n_loras", c_size_t),
        ("n_controls", c_size_t),
        ("ctx", c_uint32),
        ("sequences", c_uint32),
        ("ctx_total", c_uint32),
        ("threads", c_uint32),
        ("embed", c_bool),
        ("adapters", c_uint32),
        ("rank", c_uint32),
        ("invariant", c_bool),
        ("external_weights", c_bool),
        ("model_weights", c_bool),
        ("split", c_bool),
        ("progress", dop_progress),
        ("notes", dop_log),
        ("avoids", POINTER(c_char_p)),
        ("n_avoids", c_size_t),
        ("draft_vocabulary", c_uint32),
    ]


class dop_compile_facts(Structure):
    _fields_ = [
        ("target", c_char * 64),
        ("bytes", c_uint64),
        ("device_bytes", c_uint64),
        ("n_parts", c_uint32),
        ("nearest", c_bool),
    ]


# The result and parameters of each function
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "dop_free": (None, [c_void_p]),
    "dop_version": (c_char_p, []),
    "dop_devices": (c_int, [dop_device_fn, c_void_p, POINTER(dop_diag)]),
    "dop_model_open": (c_int, [c_char_p, POINTER(dop_open_options), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_model_open_memory": (c_int, [c_void_p, c_size_t, POINTER(dop_open_options), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_model_open_fd": (c_int, [c_int, POINTER(dop_open_options), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_model_close": (None, [c_void_p]),
    "dop_model_facts": (None, [c_void_p, POINTER(dop_facts)]),
    "dop_model_counters": (dop_counters, [c_void_p]),
    "dop_model_ordering": (c_char_p, [c_void_p]),
    "dop_plan_read": (c_int, [c_char_p, c_uint32, POINTER(dop_diag), POINTER(POINTER(dop_plan_facts))]),
    "dop_sequence_create": (c_int, [c_void_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_sequence_destroy": (None, [c_void_p]),
    "dop_sequence_reuse": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(dop_diag), POINTER(c_size_t)]),
    "dop_sequence_fork": (c_int, [c_void_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_sequence_copy": (c_int, [c_void_p, c_void_p, POINTER(dop_diag)]),
    "dop_sequence_rewind": (c_int, [c_void_p, c_uint32, POINTER(dop_diag)]),
    "dop_sequence_cut": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(dop_diag)]),
    "dop_sequence_tokens": (POINTER(c_uint32), [c_void_p, POINTER(c_size_t)]),
    "dop_sequence_end_turn": (c_int, [c_void_p, POINTER(dop_diag)]),
    "dop_sequence_checkpoint": (c_int, [c_void_p, POINTER(dop_diag), POINTER(c_uint64)]),
    "dop_sequence_restore": (c_int, [c_void_p, c_uint64, POINTER(dop_diag)]),
    "dop_model_drop_checkpoint": (None, [c_void_p, c_uint64]),
    "dop_sequence_save": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, POINTER(dop_diag)]),
    "dop_sequence_load": (c_int, [c_void_p, c_char_p, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_sequence_set_sampling": (None, [c_void_p, POINTER(dop_sampling)]),
    "dop_sequence_set_sampler": (None, [c_void_p, dop_sampler_fn, c_void_p]),
    "dop_sequence_set_mask": (c_int, [c_void_p, POINTER(c_uint32), POINTER(dop_diag)]),
    "dop_model_adapter_room": (c_uint32, [c_void_p]),
    "dop_model_adapter": (c_char_p, [c_void_p, c_uint32]),
    "dop_adapter_load": (c_int, [c_void_p, c_char_p, POINTER(dop_diag), POINTER(c_uint32)]),
    "dop_control_vector_load": (c_int, [c_void_p, c_char_p, c_uint32, c_uint32, POINTER(dop_diag), POINTER(c_uint32)]),
    "dop_adapter_unload": (c_int, [c_void_p, c_uint32, POINTER(dop_diag)]),
    "dop_sequence_set_adapters": (c_int, [c_void_p, POINTER(dop_adapter_use), c_size_t, POINTER(dop_diag)]),
    "dop_sequence_expect": (None, [c_void_p, c_uint32]),
    "dop_sequence_set_progress": (None, [c_void_p, POINTER(dop_progress)]),
    "dop_sequence_feed": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(dop_diag)]),
    "dop_sequence_next": (c_int, [c_void_p, POINTER(dop_diag), POINTER(c_uint32)]),
    "dop_logits_logprobs": (None, [POINTER(c_float), c_uint32, c_uint32, c_uint32, POINTER(dop_logprob), POINTER(dop_logprob)]),
    "dop_sequence_logprobs": (c_int, [c_void_p, c_uint32, POINTER(dop_diag), POINTER(dop_logprob), POINTER(dop_logprob)]),
    "dop_sequence_set_speculation": (c_int, [c_void_p, POINTER(dop_speculation), POINTER(dop_diag)]),
    "dop_sequence_speculation_counts": (dop_speculation_counts, [c_void_p]),
    "dop_sequence_score": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, dop_logits_fn, c_void_p, POINTER(dop_diag)]),
    "dop_sequence_embed": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, c_int, POINTER(dop_diag), POINTER(c_float)]),
    "dop_model_embedding_size": (c_uint32, [c_void_p]),
    "dop_model_program": (c_bool, [c_void_p, c_uint32, POINTER(dop_program_facts)]),
    "dop_program_run": (c_int, [c_void_p, c_char_p, POINTER(dop_value), c_size_t, POINTER(dop_value), c_size_t, POINTER(dop_diag)]),
    "dop_model_features_depth": (c_uint32, [c_void_p]),
    "dop_features_add": (c_int, [c_void_p, POINTER(c_float), c_uint32, c_uint32, c_uint32, POINTER(dop_diag), POINTER(c_uint32)]),
    "dop_features_drop": (None, [c_void_p, c_uint32]),
    "dop_model_audio": (c_bool, [c_void_p, POINTER(dop_audio_facts)]),
    "dop_sequence_hear": (c_int, [c_void_p, POINTER(c_float), c_size_t, POINTER(dop_diag), POINTER(c_float)]),
    "dop_model_embed": (c_int, [c_void_p, POINTER(dop_token_text), c_size_t, c_int, POINTER(dop_diag), POINTER(c_float)]),
    "dop_relevance": (c_float, [POINTER(c_float), c_uint32]),
    "dop_step_run": (c_int, [c_void_p, POINTER(dop_step_row), c_uint32, POINTER(dop_diag)]),
    "dop_step_logits": (POINTER(c_float), [c_void_p, c_uint32]),
    "dop_step_pick": (c_uint32, [c_void_p, c_uint32]),
    "dop_step_sample": (c_int, [c_void_p, c_uint32, POINTER(dop_diag), POINTER(c_uint32)]),
    "dop_step_commit": (None, [c_void_p]),
    "dop_step_rollback": (None, [c_void_p]),
    "dop_model_draws": (c_bool, [c_void_p]),
    "dop_model_wants": (c_uint32, [c_void_p, POINTER(dop_sampling)]),
    "dop_model_max_rows": (c_uint32, [c_void_p, c_bool]),
    "dop_model_max_rows_of_several": (c_uint32, [c_void_p]),
    "dop_text_of_model": (c_int, [c_void_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_text_open": (c_int, [c_char_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_text_destroy": (None, [c_void_p]),
    "dop_text_vocab": (c_uint32, [c_void_p]),
    "dop_text_adds_bos": (c_bool, [c_void_p]),
    "dop_text_encode": (c_int, [c_void_p, c_char_p, c_size_t, c_uint, POINTER(dop_diag), POINTER(POINTER(c_uint32)), POINTER(c_size_t)]),
    "dop_text_encode_pair": (c_int, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(dop_diag), POINTER(POINTER(c_uint32)), POINTER(c_size_t), POINTER(c_size_t)]),
    "dop_text_prompt": (c_int, [c_void_p, c_char_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_text_search_prompt": (c_char_p, [c_void_p, c_bool]),
    "dop_text_decode": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_text_is_end": (c_bool, [c_void_p, c_uint32]),
    "dop_decoder_create": (c_int, [c_void_p, c_uint, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_decoder_destroy": (None, [c_void_p]),
    "dop_decoder_push": (c_int, [c_void_p, c_uint32, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_decoder_end": (c_int, [c_void_p, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_text_chat": (c_int, [c_void_p, POINTER(dop_message), c_size_t, POINTER(dop_diag), POINTER(POINTER(c_uint32)), POINTER(c_size_t)]),
    "dop_text_has_chat": (c_bool, [c_void_p]),
    "dop_chat_of_text": (c_int, [c_void_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_chat_of_template": (c_int, [c_char_p, c_size_t, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_chat_of_name": (c_int, [c_char_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_chat_destroy": (None, [c_void_p]),
    "dop_chat_stops": (POINTER(c_char_p), [c_void_p]),
    "dop_chat_text": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t, c_uint, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_chat_ids": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t, c_uint, POINTER(dop_diag), POINTER(POINTER(c_uint32)), POINTER(c_size_t)]),
    "dop_constraint_from_grammar": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_constraint_from_schema": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_constraint_unenforced": (c_char_p, [c_void_p]),
    "dop_constraint_destroy": (None, [c_void_p]),
    "dop_constraint_matcher_create": (c_int, [c_void_p, POINTER(dop_sampling), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_constraint_matcher_destroy": (None, [c_void_p]),
    "dop_constraint_matcher_pick": (c_int, [c_void_p, POINTER(c_float), c_uint32, POINTER(c_uint32), c_size_t, POINTER(dop_diag), POINTER(c_uint32)]),
    "dop_constraint_matcher_mask": (POINTER(c_uint32), [c_void_p, POINTER(dop_diag)]),
    "dop_constraint_matcher_accept": (c_int, [c_void_p, c_uint32, POINTER(dop_diag)]),
    "dop_constraint_matcher_may_end": (c_bool, [c_void_p]),
    "dop_constraint_matcher_must_end": (c_bool, [c_void_p]),
    "dop_generation_create": (c_int, [c_void_p, POINTER(dop_generation_options), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_generation_destroy": (None, [c_void_p]),
    "dop_generation_read": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(dop_diag)]),
    "dop_generation_begin": (c_int, [c_void_p, c_size_t, POINTER(dop_diag)]),
    "dop_generation_next": (c_int, [c_void_p, POINTER(dop_diag), POINTER(dop_generation_token)]),
    "dop_generation_stop": (c_int, [c_void_p, POINTER(dop_diag), POINTER(dop_generation_token)]),
    "dop_generation_text": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "dop_images_open": (c_int, [c_void_p, POINTER(dop_images_options), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_images_close": (None, [c_void_p]),
    "dop_image_read": (c_int, [c_void_p, c_void_p, c_size_t, c_bool, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_image_see": (c_int, [c_void_p, POINTER(dop_diag)]),
    "dop_image_share": (c_void_p, [c_void_p]),
    "dop_image_close": (None, [c_void_p]),
    "dop_image_features": (c_uint32, [c_void_p]),
    "dop_image_rows_of": (POINTER(c_float), [c_void_p, POINTER(c_uint32)]),
    "dop_images_mark": (c_int, [c_void_p, c_char_p, c_size_t, c_size_t, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_images_expand": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_void_p), c_size_t, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_images_place": (c_int, [c_void_p, POINTER(c_uint32), c_size_t, POINTER(c_void_p), c_size_t, POINTER(dop_diag)]),
    "dop_audio_read": (c_int, [c_void_p, c_size_t, POINTER(dop_audio_options), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_audio_close": (None, [c_void_p]),
    "dop_audio_seconds": (c_double, [c_void_p]),
    "dop_audio_chunk": (c_int, [c_void_p, POINTER(dop_audio_facts), c_double, POINTER(dop_diag), POINTER(c_float)]),
    "dop_speech_open": (c_int, [c_void_p, c_void_p, POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_speech_close": (None, [c_void_p]),
    "dop_speech_languages": (c_bool, [c_void_p]),
    "dop_speech_how_init": (None, [POINTER(dop_speech_how)]),
    "dop_speech_transcribe": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(dop_speech_how), POINTER(dop_diag), POINTER(dop_transcript)]),
    "dop_transcript_finish": (None, [POINTER(dop_transcript)]),
    "dop_transcript_write": (c_int, [POINTER(dop_transcript), c_int, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_model_draw_facts": (c_bool, [c_void_p, POINTER(dop_draw_facts)]),
    "dop_draw_picture": (c_int, [c_void_p, POINTER(dop_draw_options), POINTER(dop_diag), POINTER(dop_drawing)]),
    "dop_drawing_parameters": (c_int, [POINTER(dop_drawing), POINTER(dop_draw_options), POINTER(dop_diag), POINTER(c_void_p)]),
    "dop_drawing_png": (c_int, [POINTER(dop_drawing), c_char_p, POINTER(dop_diag), POINTER(c_void_p), POINTER(c_size_t)]),
    "dop_compile": (c_int, [c_char_p, c_char_p, POINTER(dop_compile_options), POINTER(dop_diag), POINTER(dop_compile_facts)]),
}
