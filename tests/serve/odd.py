"""Members that few clients send, and clients that write requests in odd ways.

python3 odd.py URL WHAT   WHAT: members (each is honoured, has no effect that anybody asked for, is named in X-Doppler-Ignored, or is
refused in one line that names it), native (llama.cpp's own requests), wire (how a request is written), or shapes (conversations that
look odd).  The server has a template for conversations, and the tokenizer of the demo.
"""
import gzip
import json
import re
import socket
import sys

sys.dont_write_bytecode = True  # of asking.py
from asking import ask, check, end, url, what

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/completion"
ASKED = {CHAT: {"messages": [{"role": "user", "content": "Who comes?"}], "max_tokens": 6, "temperature": 0},
         TEXT: {"prompt": "ROMEO: What", "max_tokens": 6, "temperature": 0},
         NATIVE: {"prompt": "ROMEO: What", "n_predict": 6, "temperature": 0}}


def answer(path, **members):
    status, head, text = ask(path, {**ASKED[path], **members})
    return status, head, json.loads(text) if text.startswith("{") else text


def text_of(a):
    return a["content"] if "content" in a else [c.get("text", (c.get("message") or {}).get("content")) for c in a["choices"]]


# ---- members ------------------------------------------------------------------------------------------------------------------

HONOURED, NOTHING, IGNORED, REFUSED = "honoured", "nothing", "ignored", "refused"


def same_id(a):
    """Only token 267 was allowed."""
    ids = json.loads(ask("/tokenize", {"content": "".join(text_of(a))})[2])["tokens"]
    return len(set(ids)) <= 1


def is_json(a):
    return a["choices"][0]["finish_reason"] == "length" or isinstance(json.loads(text_of(a)[0]), dict)


def has_one(a):
    return json.loads(text_of(a)[0]) == {"a": 1}


SCHEMA = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False}
SHAPE = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
# (path, members, what becomes of them, how that is seen in the answer)
MEMBERS = [
    (CHAT, {"n": 2}, HONOURED, lambda a: [c["index"] for c in a["choices"]] == [0, 1]),
    (TEXT, {"n": 3}, HONOURED, lambda a: len(a["choices"]) == 3),
    (CHAT, {"n": 0}, REFUSED, "n"),
    (CHAT, {"n": 1000}, REFUSED, "n"),
    (TEXT, {"prompt": [5, -1]}, REFUSED, "prompt"),
    (TEXT, {"prompt": [5, 2.5]}, REFUSED, "prompt"),
    (TEXT, {"prompt": [5, "a"]}, REFUSED, "prompt"),
    (TEXT, {"best_of": 1}, NOTHING, None),
    (TEXT, {"n": 2, "best_of": 2}, HONOURED, lambda a: len(a["choices"]) == 2),
    (TEXT, {"best_of": 2}, REFUSED, "best_of"),
    (TEXT, {"logit_bias": {"267": 100}}, HONOURED, same_id),
    (TEXT, {"logit_bias": [[267, 100]]}, HONOURED, same_id),
    (CHAT, {"logit_bias": {}}, NOTHING, None),
    (CHAT, {"logit_bias": {"999999": 1}}, REFUSED, "logit_bias"),
    (CHAT, {"logit_bias": {"5": 101}}, REFUSED, "logit_bias"),
    (CHAT, {"logit_bias": [["word", 1]]}, REFUSED, "logit_bias"),
    (CHAT, {"stream_options": {"include_usage": True}}, REFUSED, "stream_options"),
    (CHAT, {"response_format": {"type": "text"}}, NOTHING, None),
    (CHAT, {"response_format": {"type": "json_object"}, "max_tokens": 40}, HONOURED, is_json),
    (CHAT, {"response_format": SHAPE, "compact_json": True, "max_tokens": 40}, HONOURED, lambda a: json.loads(text_of(a)[0]) == {"a": 1}),
    (CHAT, {"response_format": {"type": "json_schema", "schema": SCHEMA}, "compact_json": True, "max_tokens": 40}, HONOURED, has_one),
    (TEXT, {"response_format": {"type": "json_schema", "schema": SCHEMA, "strict": True}, "compact_json": True, "max_tokens": 40}, HONOURED, has_one),
    (CHAT, {"response_format": {"type": "regex", "pattern": "[ab]{3}"}}, REFUSED, "response_format"),
    (CHAT, {"json_schema": SCHEMA, "compact_json": True, "max_tokens": 40}, HONOURED, has_one),
    (TEXT, {"json_schema": json.dumps(SCHEMA), "compact_json": True, "max_tokens": 40}, HONOURED, has_one),
    (CHAT, {"json_schema": "{"}, REFUSED, "json_schema"),
    (CHAT, {"json_schema": SCHEMA, "response_format": SHAPE}, REFUSED, "json_schema"),
    (CHAT, {"json_schema": SCHEMA, "response_format": {"type": "text"}, "compact_json": True, "max_tokens": 40}, HONOURED, has_one),
    (CHAT, {"json_schema": None, "grammar": ""}, NOTHING, None),
    (TEXT, {"guided_json": SCHEMA, "compact_json": True, "max_tokens": 40}, HONOURED, has_one),
    (CHAT, {"guided_json": SCHEMA, "guided_choice": ["a"]}, REFUSED, "guided_choice"),
    (CHAT, {"guided_choice": ["positive", "negative"], "max_tokens": 20}, HONOURED, lambda a: text_of(a)[0] in ("positive", "negative")),
    (TEXT, {"guided_choice": []}, REFUSED, "guided_choice"),
    (CHAT, {"guided_regex": "a|b"}, REFUSED, "guided_regex"),
    (TEXT, {"structured_outputs": {"regex": "a|b", "json": None}}, REFUSED, "structured_outputs"),
    (TEXT, {"guided_grammar": 'root ::= "yes" | "no"'}, HONOURED, lambda a: text_of(a)[0] in ("yes", "no")),
    (CHAT, {"structured_outputs": {"json": SCHEMA}, "compact_json": True, "max_tokens": 40}, HONOURED, has_one),
    (NATIVE, {"structured_outputs": {"choice": ["left", "right"]}}, HONOURED, lambda a: text_of(a) in ("left", "right")),
    (CHAT, {"structured_outputs": {"json_object": True}, "max_tokens": 40}, HONOURED, is_json),
    (CHAT, {"structured_outputs": {"json_object": False}}, NOTHING, None),
    (CHAT, {"structured_outputs": {"structural_tag": "{}"}}, REFUSED, "structured_outputs"),
    (CHAT, {"structured_outputs": {"shape": "round"}}, IGNORED, "structured_outputs"),
    (CHAT, {"response_format": {"type": "json_schema"}}, REFUSED, "response_format"),
    (CHAT, {"response_format": {"type": "xml"}}, REFUSED, "response_format"),
    (CHAT, {"response_format": "json"}, REFUSED, "response_format"),
    (CHAT, {"parallel_tool_calls": False}, NOTHING, None),
    (CHAT, {"parallel_tool_calls": True}, NOTHING, None),
    (CHAT, {"parallel_tool_calls": "no"}, REFUSED, "parallel_tool_calls"),
    (CHAT, {"seed": 7, "temperature": 1}, HONOURED, lambda a: a["choices"][0]["message"]["content"] == text_of(answer(CHAT, seed=7, temperature=1)[2])[0]),
    (CHAT, {"seed": -1}, NOTHING, None),
    (CHAT, {"seed": "x"}, REFUSED, "seed"),
    (CHAT, {"service_tier": "flex"}, NOTHING, None),
    (CHAT, {"reasoning_effort": "low"}, NOTHING, None),
    (CHAT, {"reasoning_effort": "none"}, NOTHING, None),
    (CHAT, {"reasoning_effort": 5}, REFUSED, "reasoning_effort"),
    # The template knows no reasoning: none is none, and more cannot be had.
    (CHAT, {"enable_thinking": False, "think": False, "reasoning": {"enabled": False}, "thinking": {"type": "disabled"}}, NOTHING, None),
    (CHAT, {"enable_thinking": True}, IGNORED, "enable_thinking"),
    (CHAT, {"think": "high"}, NOTHING, None),
    (CHAT, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, IGNORED, "thinking"),
    (CHAT, {"reasoning": {"effort": "high"}}, NOTHING, None),
    (CHAT, {"reasoning": {"exclude": True}}, IGNORED, "reasoning"),
    (CHAT, {"reasoning": {"effort": 7}}, REFUSED, "reasoning_effort"),
    (CHAT, {"thinking_budget": 100}, IGNORED, "thinking_budget"),
    (CHAT, {"include_reasoning": False}, IGNORED, "include_reasoning"),
    (CHAT, {"include_reasoning": True, "early_stopping": False}, NOTHING, None),
    (TEXT, {"enable_thinking": False}, IGNORED, "enable_thinking"),
    (CHAT, {"skip_special_tokens": False}, IGNORED, "skip_special_tokens"),
    (CHAT, {"max_tokens": 65535, "stop": ["e", "a", "\n"]}, HONOURED, lambda a: a["choices"][0]["finish_reason"] in ("stop", "length")),
    (TEXT, {"max_tokens": 2**53, "stop": ["e", "a", "\n"]}, HONOURED, lambda a: a["choices"][0]["finish_reason"] in ("stop", "length")),
    (NATIVE, {"n_predict": -2, "stop": ["e", "a", "\n"]}, HONOURED, lambda a: a["stop_type"] in ("word", "eos", "limit")),
    (NATIVE, {"n_predict": 32000, "stop": ["e", "a", "\n"]}, HONOURED, lambda a: a["stop_type"] in ("word", "eos", "limit")),
    (CHAT, {"max_tokens": -2}, REFUSED, "max_tokens"),
    (CHAT, {"max_tokens": None, "max_completion_tokens": 3}, HONOURED, lambda a: a["usage"]["completion_tokens"] <= 3),
    (CHAT, {"top_logprobs": 2}, REFUSED, "top_logprobs"),
    (CHAT, {"logprobs": True, "top_logprobs": 2}, HONOURED, lambda a: len(a["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 2),
    (TEXT, {"logprobs": 2}, HONOURED, lambda a: len(a["choices"][0]["logprobs"]["tokens"]) == a["usage"]["completion_tokens"]),
    (TEXT, {"echo": True}, HONOURED, lambda a: text_of(a)[0].startswith("ROMEO: What")),
    (CHAT, {"echo": True}, REFUSED, "echo"),
    (TEXT, {"suffix": ""}, NOTHING, None),
    (TEXT, {"suffix": "x"}, REFUSED, "suffix"),
    (CHAT, {"stop": ["e"]}, HONOURED, lambda a: "e" not in text_of(a)[0]),
    (CHAT, {"stop": [f"\n{i}:" for i in range(99)] + ["e"]}, HONOURED, lambda a: "e" not in text_of(a)[0]),
    (CHAT, {"stop": ["x"] * 1000}, REFUSED, "stop"),
    (CHAT, {"tools": []}, NOTHING, None),
    (CHAT, {"tools": None, "tool_choice": None}, NOTHING, None),
    (CHAT, {"tool_choice": "auto"}, NOTHING, None),
    (CHAT, {"tool_choice": "required"}, REFUSED, "tool_choice"),
    (CHAT, {"functions": [{"name": "f"}], "function_call": "auto"}, IGNORED, "functions"),
    (CHAT, {"modalities": ["text", "audio"], "audio": {"voice": "a"}}, IGNORED, "audio"),
    (CHAT, {"prediction": {"type": "content", "content": "x"}}, IGNORED, "prediction"),
    (CHAT, {"web_search_options": {}}, IGNORED, "web_search_options"),
    (CHAT, {"verbosity": "low"}, IGNORED, "verbosity"),
    (CHAT, {"user": "u", "metadata": {"a": "b"}, "store": True, "safety_identifier": "s", "prompt_cache_key": "k"}, NOTHING, None),
    (CHAT, {"typical_p": 1, "mirostat": 0, "dry_multiplier": 0.0, "xtc_probability": 0}, NOTHING, None),
    (CHAT, {"mirostat": 2}, IGNORED, "mirostat"),
    (CHAT, {"dry_multiplier": 0.8}, IGNORED, "dry_multiplier"),
    (TEXT, {"use_beam_search": True}, IGNORED, "use_beam_search"),
    (NATIVE, {"cache_prompt": True, "return_tokens": False}, NOTHING, None),
    (NATIVE, {"samplers": ["top_k"]}, IGNORED, "samplers"),
    (NATIVE, {"id_slot": 1}, IGNORED, "id_slot"),
    (NATIVE, {"n": 2}, REFUSED, "n"),
]


# (path, members with a number of things, the largest number, the member that is named where there is one more)
BORDERS = [
    (CHAT, lambda n: {"n": n, "max_tokens": 1}, 64, "n"),
    (TEXT, lambda n: {"stop": [f"\u2603{i}" for i in range(n)]}, 256, "stop"),
    (CHAT, lambda n: {"logit_bias": {str(i): 0 for i in range(n)}}, 1024, "logit_bias"),
    (TEXT, lambda n: {"logit_bias": [[i, 0] for i in range(n)]}, 1024, "logit_bias"),
    (CHAT, lambda n: {"logit_bias": {"5": n}}, 100, "logit_bias"),
    (CHAT, lambda n: {"logit_bias": {"5": -n}}, 100, "logit_bias"),
    (CHAT, lambda n: {"logprobs": True, "top_logprobs": n}, 20, "top_logprobs"),
    (TEXT, lambda n: {"logprobs": n}, 20, "logprobs"),
    (NATIVE, lambda n: {"n_probs": n}, 20, "n_probs"),
    (NATIVE, lambda n: {"n": n}, 1, "n"),
]


def borders():
    """The largest number is honoured, and one more refused by the name of its member and by that number, if any."""
    refused = json.loads(ask(TEXT, {**ASKED[TEXT], "logit_bias": {"999999": 1}})[2])["error"]["message"]
    vocabulary = int(re.search(r"below (\d+)", refused).group(1))
    of_ids = [(TEXT, lambda n: {"logit_bias": {str(n): 0}}, vocabulary - 1, "logit_bias"), (TEXT, lambda n: {"prompt": [5, n]}, vocabulary - 1, "prompt")]
    for path, of, most, param in BORDERS + of_ids:
        status, _, a = answer(path, **of(most))
        check(status == 200, "the largest number", path, most, param, status, a)
        status, _, a = answer(path, **of(most + 1))
        check(status == 400 and a["error"].get("param", param) == param, "one more", path, most + 1, param, status, a)


def members():
    borders()
    plain = {path: text_of(answer(path)[2]) for path in ASKED}
    for path, more, fate, how in MEMBERS:
        status, head, a = answer(path, **more)
        about = (path, more, fate, status, a, head.get("x-doppler-ignored"))
        if fate == REFUSED:
            e = a["error"] if isinstance(a, dict) else {}
            check(status == 400 and e.get("param") == how and e["message"] and "\n" not in e["message"], *about)
            continue
        check(status == 200, *about)
        if status != 200:
            continue
        ignored = head.get("x-doppler-ignored", "")
        check((how in ignored) if fate == IGNORED else not ignored, *about)
        if fate == HONOURED:
            check(how(a), *about)
        else:
            check(text_of(a) == plain[path], *about)
        if fate == IGNORED:
            status, _, a = answer(path, strict=True, **more)
            check(status == 400 and "strict" in a["error"]["message"], "strict", *about)
    status, _, text = ask(CHAT, {**ASKED[CHAT], "stream": True, "stream_options": {"include_usage": True}})
    last = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")][-1]
    check(status == 200 and last["choices"] == [] and last["usage"]["completion_tokens"] > 0, "usage of a stream", text[-400:])


# ---- llama.cpp's own requests --------------------------------------------------------------------------------------------------


def native():
    _, _, whole = answer(NATIVE)
    same = text_of(answer(TEXT)[2])[0]
    check(whole["content"] == same and whole["stop"] and whole["stop_type"] in ("limit", "eos") and not whole["truncated"], "a text goes on", whole, same)
    check(whole["timings"]["predicted_n"] == whole["tokens_predicted"] and whole["timings"]["prompt_ms"] > 0, "timings", whole)
    _, _, text = ask(NATIVE, {**ASKED[NATIVE], "stream": True})
    parts = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
    check("".join(p["content"] for p in parts) == same and parts[-1]["stop"] and "[DONE]" not in text, "a stream", text[-300:])
    pieces = json.loads(ask("/tokenize", {"content": "ROMEO: What", "with_pieces": True, "add_special": True})[2])["tokens"]
    ids = [t["id"] for t in pieces]
    check(all(isinstance(t["piece"], str) for t in pieces) and "".join(t["piece"] for t in pieces[1:]).strip() == "ROMEO: What", "pieces", pieces)
    check(json.loads(ask("/detokenize", {"tokens": ids[1:]})[2])["content"].strip() == "ROMEO: What", "and back", ids)
    check(answer(NATIVE, prompt=ids)[2]["content"] == same, "ids")
    check(answer(NATIVE, prompt=["ROMEO: What"])[2]["content"] == same, "a list of one text")
    check(answer(NATIVE, prompt=[ids[0], *ids[1:-1], json.loads(ask("/detokenize", {"tokens": ids[-1:]})[2])["content"]])[0] == 200, "ids and texts")
    check(answer(NATIVE, prompt=[["a"], ["b"]])[0] == 400, "several prompts")
    check(answer(NATIVE, prompt=["a", None])[0] == 400, "a prompt that is none")
    _, _, shaped = answer(NATIVE, json_schema=SHAPE["json_schema"]["schema"], compact_json=True, n_predict=40)
    check(json.loads(shaped["content"]) == {"a": 1}, "a schema", shaped)
    _, _, shaped = answer(NATIVE, grammar='root ::= "yes"', n_predict=40)
    check(shaped["content"] == "yes", "a grammar", shaped)
    _, _, stopped = answer(NATIVE, stop=[same[2]], n_predict=40)
    check(stopped["stop_type"] == "word" and stopped["stopping_word"] == same[2], "a stop text", stopped)


# ---- how a request is written -----------------------------------------------------------------------------------------------------


def raw(*parts):
    """What comes back when these bytes are sent: statuses in order, and all text."""
    with socket.create_connection((url.hostname, url.port), timeout=120) as s:
        for part in parts:
            s.sendall(part)
        got = b""
        while True:
            more = s.recv(65536)
            if not more:
                break
            got += more
    text = got.decode("utf-8", "replace")
    return [int(status) for status in re.findall(r"HTTP/1\.1 (\d+) ", text)], text


def post(path, body, *lines, version="1.1", last=True, length=True):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/{version}", "Host: localhost", "Content-Type: application/json", *lines]
    if length:
        head.append(f"Content-Length: {len(body)}")
    if last:
        head.append("Connection: close")
    return "\r\n".join([*head, "", ""]).encode() + body


def get(path, *lines, version="1.1", method="GET", last=True):
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: localhost", *lines, *(["Connection: close"] if last else []), "", ""]).encode()


def chunks(body, size, ending=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + size]), body[i:i + size]) for i in range(0, len(body), size)) + ending


def pieces(sent):
    """Head of an answer in lower case, its chunks as they come, and what follows the last one."""
    head, rest = raw(sent)[1].encode().split(b"\r\n\r\n", 1)
    parts = []
    while (size := int(rest[:rest.index(b"\r\n")], 16)) > 0:
        begin = rest.index(b"\r\n") + 2
        check(rest[begin + size:begin + size + 2] == b"\r\n", "the end of a chunk", size)
        parts.append(rest[begin:begin + size])
        rest = rest[begin + size + 2:]
    return head.decode().lower(), parts, rest


def in_pieces():
    """A stream has whole events in every chunk; a large answer is passed on before all of it is written."""
    head, parts, after = pieces(post(CHAT, {**ASKED[CHAT], "max_tokens": 12, "stream": True}))
    events = [json.loads(e[6:]) for part in parts for e in part.decode().split("\n\n") if e not in ("", "data: [DONE]")]
    check("content-type: text/event-stream" in head and "transfer-encoding: chunked" in head and "x-accel-buffering: no" in head and
          "content-length" not in head, "the head of a stream", head)
    check(len(parts) > 2 and all(p.startswith(b"data: ") and p.endswith(b"\n\n") for p in parts) and
          parts[-1].endswith(b"data: [DONE]\n\n") and after == b"0\r\n\r\n", "the events of a stream", parts, after)
    text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events)
    check(text == text_of(answer(CHAT, max_tokens=12)[2])[0], "the text of a stream", text)
    asked = {**ASKED[CHAT], "max_tokens": 60, "n": 3, "logprobs": True, "top_logprobs": 20, "logit_bias": {"1": -100}}
    head, parts, after = pieces(post(CHAT, asked))
    check("content-type: application/json" in head and "transfer-encoding: chunked" in head and "x-accel-buffering: no" in head and
          "content-length" not in head, "the head of a large answer", head)
    check(len(parts) > 1 and len(parts[0]) > 1 << 17 and after == b"0\r\n\r\n", "the pieces of a large answer", [len(p) for p in parts], after)
    check(len(json.loads(b"".join(parts))["choices"]) == 3, "a large answer")


def wire():
    in_pieces()
    body = json.dumps({"content": "What say you?"}).encode()
    chunked = lambda data, *more: post("/tokenize", b"", "Transfer-Encoding: chunked", *more, length=False) + data
    bom = b"\xef\xbb\xbf" + body
    ROWS = [
        ("chunks", chunked(chunks(body, 3)), [200]),
        ("chunks with extensions and trailers", chunked(chunks(body, 5, b"0;a=b\r\nX-T: 1\r\n\r\n")), [200]),
        ("a chunk without its end", chunked(b"3\r\nabcd\r\n0\r\n\r\n"), [400]),
        ("a chunk of no size", chunked(b"zz\r\n"), [400]),
        ("a length beside chunks", post("/tokenize", body, "Transfer-Encoding: chunked"), [400]),
        ("two lengths", post("/tokenize", body, "Content-Length: 3"), [400]),
        ("another coding", chunked(chunks(body, 9)).replace(b"chunked", b"gzip, chunked"), [501]),
        ("a request from HTTP/1.0", post("/tokenize", body, version="1.0", last=False), [200]),
        ("HTTP/2.0", get("/health", version="2.0"), [505]),
        ("pipelining", get("/health", last=False) + post("/tokenize", body, last=False) + get("/nowhere"), [200, 200, 404]),
        ("a blank line before a request", b"\r\n" + get("/health"), [200]),
        ("two of them", b"\r\n\r\n" + get("/health"), [400]),
        ("a long header", get("/health", "X-Long: " + "a" * 70000), [431]),
        ("many headers", get("/health", *(f"X-{i}: a" for i in range(2000))), [431]),
        ("a long path", get("/health?" + "a" * 100000), [414, 431]),
        ("a packed body", post("/tokenize", gzip.compress(body), "Content-Encoding: gzip"), [415]),
        ("a body as it is", post("/tokenize", body, "Content-Encoding: identity"), [200]),
        ("HEAD", get("/health", method="HEAD"), [200]),
        ("OPTIONS", get("/v1/models", method="OPTIONS"), [200, 204, 405]),
        ("OPTIONS of all", get("*", method="OPTIONS"), [200, 204, 400, 404, 405]),
        ("PUT", get("/v1/models", method="PUT"), [405]),
        ("a method that is none", get("/v1/models", method="BREW"), [405, 501]),
        ("a slash at the end", get("/v1/models/"), [200, 404]),
        ("two slashes", get("//v1//models"), [200]),
        ("an address with a question", get("/v1/models?a=b&c"), [200]),
        ("an address in letters with percent", get("/v1/%6dodels"), [200, 404]),
        ("a whole address", get("http://localhost/health"), [200]),
        ("an address with dots", get("/v1/../health"), [400, 404]),
        ("a blank in an address", get("/hea lth"), [400]),
        ("a byte order mark", post("/tokenize", bom), [200, 400]),
        ("no body", post("/tokenize", b""), [400]),
        ("two texts", post("/tokenize", body + body), [400]),
        ("half a surrogate", post("/tokenize", b'{"content": "\\ud800"}'), [200, 400]),
        ("a byte that is no UTF-8", post("/tokenize", b'{"content": "\xff"}'), [400]),
        ("a NUL", post("/tokenize", b'{"content": "a\\u0000b"}'), [200, 400]),
        ("a member twice", post("/tokenize", b'{"content": "a", "content": "b"}'), [200, 400]),
        ("deep", post("/tokenize", b'{"content": ' + b"[" * 100000 + b"]" * 100000 + b"}"), [400]),
        ("a number without end", post("/tokenize", b'{"content": "a", "x": 1e999999}'), [200, 400]),
        ("NaN", post("/tokenize", b'{"content": NaN}'), [400]),
        ("a comment", post("/tokenize", b'{"content": "a"} // b'), [400]),
        ("another type", post("/tokenize", body).replace(b"application/json", b"text/plain"), [415]),
        ("a type with a charset", post("/tokenize", body).replace(b"application/json", b"Application/JSON; charset=UTF-8"), [200]),
        ("no host", get("/health").replace(b"Host: localhost\r\n", b""), [400]),
        ("two hosts", get("/health", "Host: other"), [400]),
        ("a host from elsewhere", get("/health").replace(b"Host: localhost", b"Host: evil.example"), [403]),
        ("a page from elsewhere", get("/health", "Origin: http://evil.example"), [403]),
        ("lines without CR", get("/health").replace(b"\r\n", b"\n"), [400]),
        ("a folded line", get("/health", "X-A: 1\r\n  2"), [400]),
        ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", [400]),
    ]
    for name, sent, want in ROWS:
        statuses, text = raw(sent)
        check(statuses == want if name == "pipelining" else len(statuses) == 1 and statuses[0] in want, name, statuses, want, text)
        check(name != "HEAD" or text.endswith("\r\n\r\n"), name, text)
        for block in text.split("\r\n\r\n"):
            if block.startswith('{"error"'):
                check("\n" not in json.loads(block)["error"]["message"], name, block)
    waits = post("/tokenize", body, "Expect: 100-continue")
    head, rest = waits[:-len(body)], waits[-len(body):]
    with socket.create_connection((url.hostname, url.port), timeout=120) as s:
        s.sendall(head)
        first = s.recv(4096)
        check(first.startswith(b"HTTP/1.1 100"), "Expect: 100-continue", first)
        s.sendall(rest)
        check(b"HTTP/1.1 200" in s.recv(65536), "and the body")
    for where in (1, 40, len(waits) - 3):
        statuses, _ = raw(waits[:where], waits[where:])
        check(statuses[-1:] == [200], "a request in two pieces", where, statuses)
    check(ask("/health")[0] == 200, "it works on")


# ---- conversations that look odd ------------------------------------------------------------------------------------------------


def shapes():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}
    part = lambda text: [{"type": "text", "text": text}]
    user, reply = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    ROWS = [
        ("parts of every role", [{"role": "system", "content": part("s")}, {"role": "user", "content": part("a")}, {"role": "assistant", "content": part("b")}, {"role": "user", "content": part("c") + part("d")}], {}, 200),
        ("no parts", [{"role": "user", "content": []}], {}, (200, 400)),
        ("a part of no type", [{"role": "user", "content": [{"text": "a"}]}], {}, (200, 400)),
        ("a part of another type", [{"role": "user", "content": [{"type": "smell"}]}], {}, 400),
        ("parts that are texts", [{"role": "user", "content": ["a"]}], {}, (200, 400)),
        ("null beside calls", [user, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "r"}], {"tools": [tool]}, 200),
        ("no content beside calls", [user, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": part("r")}], {"tools": [tool]}, 200),
        ("null without calls", [user, {"role": "assistant", "content": None}, user], {}, (200, 400)),
        ("null of a user", [{"role": "user", "content": None}], {}, (200, 400)),
        ("calls and no tools", [user, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "r"}], {}, 200),
        ("an empty list of calls", [user, {**reply, "tool_calls": []}, user], {}, 200),
        ("an empty list of tools", [user], {"tools": []}, 200),
        ("an answer of a tool before its call", [user, {"role": "tool", "tool_call_id": "c1", "content": "r"}], {"tools": [tool]}, (200, 400)),
        ("an answer of a tool that nobody called", [user, reply, {"role": "tool", "tool_call_id": "zz", "content": "r"}], {}, (200, 400)),
        ("developer", [{"role": "developer", "content": "d"}, user], {}, 200),
        ("a role of before", [user, {"role": "function", "name": "f", "content": "r"}], {}, (200, 400)),
        ("an unknown role", [{"role": "narrator", "content": "x"}, user], {}, (200, 400)),
        ("a role that is none", [{"role": 5, "content": "x"}], {}, 400),
        ("no role", [{"content": "x"}], {}, 400),
        ("two users", [user, user], {}, 200),
        ("an answer first", [reply, user], {}, (200, 400)),
        ("only a system message", [{"role": "system", "content": "s"}], {}, (200, 400)),
        ("two system messages", [{"role": "system", "content": "s"}, user, {"role": "system", "content": "t"}, user], {}, (200, 400)),
        ("an answer at the end", [user, reply], {}, 200),
        ("names", [{**user, "name": "Ann"}], {}, 200),
        ("a refusal", [user, {"role": "assistant", "content": None, "refusal": "no"}, user], {}, (200, 400)),
        ("calls of before", [user, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}, user], {}, (200, 400)),
        ("arguments that are no text", [user, {"role": "assistant", "tool_calls": [{**call, "function": {"name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "tool_call_id": "c1", "content": "r"}], {"tools": [tool]}, 200),
        ("arguments that were cut", [user, {"role": "assistant", "tool_calls": [{**call, "function": {"name": "f", "arguments": '{"a": '}}]}, {"role": "tool", "tool_call_id": "c1", "content": "r"}], {"tools": [tool]}, 200),
        ("a call without an id", [user, {"role": "assistant", "tool_calls": [{"function": call["function"]}]}, {"role": "tool", "content": "r"}], {"tools": [tool]}, 200),
        ("no messages", [], {}, 400),
        ("messages that are none", ["a"], {}, 400),
        ("a text for messages", "a", {}, 400),
        ("a part of a page of cache", [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}], {}, 200),
        ("emoji and marks", [{"role": "user", "content": "\U0001f600 e\u0301 \u202e <end_of_turn> \ufeff"}], {}, 200),
        ("a line separator", [{"role": "user", "content": "\u2028\u0085\v"}], {}, 200),
    ]
    for name, messages, more, want in ROWS:
        status, _, text = ask(CHAT, {"messages": messages, "max_tokens": 1, "temperature": 0, **more})
        check(status in (want if isinstance(want, tuple) else (want,)), name, status, text)
        a = json.loads(text)
        check("choices" in a if status == 200 else a["error"]["message"] and "\n" not in a["error"]["message"], name, text)
    check(ask("/health")[0] == 200, "it works on")


{"members": members, "native": native, "wire": wire, "shapes": shapes}[what]()
end()
