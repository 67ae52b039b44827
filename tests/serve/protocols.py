"""Anthropic's Messages and OpenAI's Responses on a server, beside chat completions, which they must agree with.

python3 protocols.py URL WHAT [KEY]   prints a line for each thing that is wrong, and how many were right; WHAT: same, thinking,
switches:HOW, store, recorded, infill, scored:LOGITS:IDS:TEXT:NLL, harness:FOLDER (a golden model), or hostile:SEED (values of wrong types, sizes and depths, which are refused in the form of their API).
"""
import array
import http.client
import json
import math
import os
import random
import re
import sys
import threading
import time

sys.dont_write_bytecode = True  # of asking.py
from asking import ask, check, end, key, url, what


def post(path, body):
    status, _, text = ask(path, body)
    check(status == 200, path, status, text)
    return json.loads(text)


def events(text):
    """The events of a stream: (name, data); comments and pings between them are left out."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in lines and lines["data"] != "[DONE]":
            found.append((lines.get("event"), json.loads(lines["data"])))
    return found


# ---- reading streams, strictly --------------------------------------------------------------------------------------------


def read_messages(text):
    """The message that the events of a stream make."""
    message, block, parts = None, None, ""
    for name, e in events(text):
        check(name == e["type"], "the event's name is its type", name, e)
        if name == "ping":
            continue
        if name == "message_start":
            check(message is None and e["message"]["content"] == [], "one beginning", e)
            message = e["message"]
        elif name == "content_block_start":
            check(block is None and e["index"] == len(message["content"]), "a block begins when the last one has ended", e)
            block, parts = e["content_block"], ""
        elif name == "content_block_delta":
            d = e["delta"]
            of = {"text": ["text_delta"], "thinking": ["thinking_delta", "signature_delta"], "tool_use": ["input_json_delta"]}
            check(block and e["index"] == len(message["content"]) and d["type"] in of[block["type"]], "a delta of its block", e)
            if d["type"] == "text_delta":
                block["text"] += d["text"]
            elif d["type"] == "thinking_delta":
                block["thinking"] += d["thinking"]
            elif d["type"] == "input_json_delta":
                parts += d["partial_json"]
        elif name == "content_block_stop":
            if block["type"] == "tool_use":
                block["input"] = json.loads(parts)
            message["content"].append(block)
            block = None
        elif name == "message_delta":
            check(block is None, "all blocks have ended")
            message.update(e["delta"])
            message["usage"].update(e["usage"])
        else:
            check(name == "message_stop" and message["stop_reason"], "a known event", name, e)
    check(message and text.rstrip().endswith('{"type":"message_stop"}'), "the stream has an end", text[-200:])
    return message


def read_response(text):
    """The response that the events of a stream make."""
    items, response, open_item, number = [], None, None, 0
    for name, e in events(text):
        check(name == e["type"] and e["sequence_number"] == number, "names and numbers of events", name, e)
        number += 1
        kind = name.removeprefix("response.")
        if kind in ("created", "in_progress"):
            check(e["response"]["status"] == "in_progress" and number <= 2, "it begins", e)
        elif kind == "output_item.added":
            check(open_item is None and e["output_index"] == len(items), "one item at a time", e)
            open_item = e["item"]
        elif kind == "content_part.added":
            open_item["content"].append(e["part"])
        elif kind in ("output_text.delta", "reasoning_text.delta"):
            check(e["item_id"] == open_item["id"], "ids", e)
            open_item["content"][e["content_index"]]["text"] += e["delta"]
        elif kind in ("output_text.done", "reasoning_text.done"):
            check(open_item["content"][0]["text"] == e["text"], "the whole text", e)
        elif kind == "function_call_arguments.delta":
            open_item["arguments"] += e["delta"]
        elif kind == "custom_tool_call_input.delta":
            open_item["input"] += e["delta"]
        elif kind == "function_call_arguments.done":
            check(open_item["arguments"] == e["arguments"] and json.loads(e["arguments"]) is not None, "arguments", e)
        elif kind == "custom_tool_call_input.done":
            check(open_item["input"] == e["input"], "input", e)
        elif kind == "content_part.done":
            check(open_item["content"][0]["text"] == e["part"]["text"], "the whole part", e)
        elif kind == "output_item.done":
            open_item["status"] = e["item"]["status"]
            if "content" in open_item and e["item"]["content"]:
                open_item["content"][0].update({k: v for k, v in e["item"]["content"][0].items() if k == "logprobs"})
            check(open_item == e["item"], "the item that grew", open_item, e["item"])
            items.append(e["item"])
            open_item = None
        else:
            check(kind in ("completed", "incomplete", "failed") and open_item is None, "it ends", e)
            response = e["response"]
            check(response["output"] == items and response["status"] == kind, "the whole response", response)
    check(response is not None, "the stream has an end", text[-200:])
    return response


def text_of(answer):
    if "choices" in answer:
        return answer["choices"][0]["message"]["content"]
    if "content" in answer:
        return "".join(b["text"] for b in answer["content"] if b["type"] == "text")
    return "".join(p["text"] for i in answer["output"] if i["type"] == "message" for p in i["content"])


# ---- the same answers ---------------------------------------------------------------------------------------------------------


def same():
    plain = {"model": "small", "temperature": 0}
    for n, system, turns in (
        (12, None, ["Speak."]),
        (20, "Be brief.", ["Who is there?", "Nay, answer me.", "Long live the king!"]),
        (7, "Zwei W\u00f6rter \u2014 \U0001f600.", ["a\nb", "", "c"]),
    ):
        talk = [{"role": "user" if i % 2 == 0 else "assistant", "content": t} for i, t in enumerate(turns)]
        chat = post("/v1/chat/completions", {**plain, "max_tokens": n,
                                             "messages": ([{"role": "system", "content": system}] if system else []) + talk})
        ours = {**plain, "max_tokens": n, "messages": talk, **({"system": system} if system else {})}
        m = post("/v1/messages", ours)
        r = post("/v1/responses", {**plain, "max_output_tokens": n, "input": talk, **({"instructions": system} if system else {})})
        prompt = chat["usage"]["prompt_tokens"]
        check(text_of(m) == text_of(chat) == text_of(r), "one text", chat, m, r)
        check(m["usage"]["input_tokens"] + m["usage"]["cache_read_input_tokens"] == prompt == r["usage"]["input_tokens"], "tokens", m, r)
        check(m["usage"]["output_tokens"] == r["usage"]["output_tokens"] == chat["usage"]["completion_tokens"], "tokens", m, r)
        check(post("/v1/messages/count_tokens", {k: v for k, v in ours.items() if k != "max_tokens"}) == {"input_tokens": prompt}, "count_tokens")
        blocks = [{"role": t["role"], "content": [{"type": "text", "text": t["content"]}]} for t in talk]
        status, _, text = ask("/v1/messages", {**ours, "messages": blocks, "stream": True})
        s = read_messages(text)
        check(text_of(s) == text_of(m) and s["stop_reason"] == m["stop_reason"], "a stream says the same", s, m)
        parts = [{"type": "message", "role": t["role"], "content": [
            {"type": "output_text" if t["role"] == "assistant" else "input_text", "text": t["content"]}]} for t in talk]
        status, _, text = ask("/v1/responses", {**plain, "max_output_tokens": n, "input": parts, "stream": True,
                                                **({"instructions": system} if system else {})})
        check(text_of(read_response(text)) == text_of(r), "a stream says the same", text)
        full = chat["choices"][0]["finish_reason"] == "length"
        check(m["stop_reason"] == ("max_tokens" if full else "end_turn"), "stop_reason", m)
        check(r["status"] == ("incomplete" if full else "completed"), "status", r)
    whole = text_of(post("/v1/messages", {**plain, "max_tokens": 30, "messages": [{"role": "user", "content": "Speak."}]}))
    stop = whole[len(whole) // 2:len(whole) // 2 + 3]
    m = post("/v1/messages", {**plain, "max_tokens": 30, "stop_sequences": ["\x01never", stop], "messages": [{"role": "user", "content": "Speak."}]})
    check(m["stop_reason"] == "stop_sequence" and m["stop_sequence"] == stop and text_of(m) == whole[:whole.index(stop)], "stop", m)
    logs = post("/v1/responses", {**plain, "max_output_tokens": 4, "input": "Speak.", "text": {"verbosity": "low"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2})
    check(logs["text"] == {"format": {"type": "text"}, "verbosity": "low"}, "the form of the text", logs["text"])
    found = logs["output"][0]["content"][0]["logprobs"]
    check(len(found) == 4 and len(found[0]["top_logprobs"]) == 2 and found[0]["logprob"] <= 0, "log-probabilities", logs)
    # An answer never fills more than the context.
    words = "word " * 800
    n = post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": words}]})["input_tokens"]
    words = words[: len(words) * 1010 // n // 5 * 5] # the context has 1024
    m = post("/v1/messages", {"max_tokens": 100000, "messages": [{"role": "user", "content": words}], "temperature": 1})
    check(m["stop_reason"] in ("model_context_window_exceeded", "end_turn", "max_tokens"), "clamped", m)
    tools = [{"name": "weather", "input_schema": {"type": "object", "properties": {
        "town": {"enum": ["Verona", "Elsinore"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["town", "days"], "additionalProperties": False}}]
    talk = [{"role": "user", "content": "What weather?"}]
    for i in range(3):
        stream = i % 2 == 0
        body = {"model": "small", "max_tokens": 200, "messages": talk, "tools": tools, "tool_choice": {"type": "any"}, "temperature": 1, "stream": stream}
        status, _, text = ask("/v1/messages", body)
        m = read_messages(text) if stream else json.loads(text)
        call = m["content"][-1]
        good = call["type"] == "tool_use" and m["stop_reason"] == "tool_use" and call["id"].startswith("toolu_")
        check(good and call["input"]["town"] in ("Verona", "Elsinore") and 1 <= call["input"]["days"] <= 9, "a call", m)
        if not good:
            return
        talk += [{"role": "assistant", "content": m["content"]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "Rain."}]}]
    # What is constrained has no blanks that nobody asked for.
    flat = [{"type": "function", "name": t["name"], "parameters": t["input_schema"]} for t in tools]
    r = post("/v1/responses", {"input": "What weather?", "max_output_tokens": 150, "tools": flat, "tool_choice": "required", "temperature": 1})
    item = r["output"][-1]
    check(item["type"] == "function_call" and " " not in item["arguments"] and r["status"] == "completed", "compact", r)
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "array", "items": {"enum": [3]}, "minItems": 2, "maxItems": 2}}, "required": ["a", "b"]}
    for _ in range(3):
        r = post("/v1/responses", {"input": "x", "compact_json": True, "temperature": 1.5,
                                   "text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}})
        check(text_of(r) in ('{"a":1,"b":[3,3]}', '{"a":2,"b":[3,3]}'), "compact", r)
    # What clients of Anthropic's send: a top_p that nobody stated, and threads, of which only the last messages come.
    hello = {"max_tokens": 2, "messages": [{"role": "user", "content": "a"}], "temperature": 0}
    check(text_of(post("/v1/messages", {**hello, "top_p": -1, "top_k": -1})) == text_of(post("/v1/messages", hello)), "-1 is not stated")
    status, _, text = ask("/v1/messages", {**hello, "thread": {"type": "continue", "previous_message_id": "msg_1"}})
    check(status == 400 and json.loads(text)["error"]["details"]["error_code"] == "thread_unsupported_request", "a thread", text)
    # max_tokens is an upper limit everywhere, and a prompt that is too long is told in each API's words.
    hi, stops = [{"role": "user", "content": "hi"}], {"stop": ["e", "a", "\n"]}
    post("/v1/chat/completions", {"messages": hi, "max_completion_tokens": 65535, **stops})
    r = post("/v1/responses", {"input": words, "max_output_tokens": 32000, "temperature": 0})
    check(r["usage"]["total_tokens"] <= 1024 and r["status"] in ("incomplete", "completed"), "no more than the context", r["usage"])
    for stream in (False, True):
        status, _, text = ask("/v1/messages", {"max_tokens": 16, "messages": [{"role": "user", "content": "word " * 2000}], "stream": stream})
        found = re.match(r"prompt is too long: (\d+) tokens > 1024 maximum$", json.loads(text)["error"]["message"])
        check(status == 400 and found and int(found[1]) > 1024, "a prompt that is too long", text)
    status, _, text = ask("/v1/responses", {"input": "word " * 2000})
    check(status == 400 and json.loads(text)["error"]["code"] == "context_length_exceeded", "a prompt that is too long", text)
    for path in ("/v1/responses/compact", "/responses/input_tokens"):
        status, _, text = ask(path, {"input": "x"})
        check(status == 404 and "Unknown request URL" in text, "a path that is none", text)
    # Shapes of other APIs, in all.
    for path, body in (("/v1/messages", {"messages": hi, "max_tokens": 40}), ("/v1/responses", {"input": "hi", "max_output_tokens": 40})):
        for shape in ({"json_schema": {"enum": [7]}}, {"guided_choice": ["7"]}, {"structured_outputs": {"choice": ["7"]}},
                      {"response_format": {"type": "json_schema", "schema": {"const": 7}}}):
            check(text_of(post(path, {**body, **shape})) == "7", "a shape", path, shape)
    models = json.loads(ask("/v1/models")[2])
    check([models["data"][0][name] for name in ("max_model_len", "context_length", "context_window", "max_context_length")] == [1024] * 4, "the context's length", models)
    name = models["data"][0]["id"]
    check(ask(f"/models/{name}")[2] == ask(f"/v1/models/{name}")[2], "a model without /v1")
    check(models["data"][0]["type"] == "model" and models["first_id"] == models["data"][0]["id"], "models for both", models)


def thinking():
    """The server's template begins every answer within reasoning."""
    m = post("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Speak."}], "thinking": {"type": "enabled", "budget_tokens": 1024}})
    check([b["type"] for b in m["content"]] == ["thinking"] and m["content"][0]["signature"] == "", "reasoning", m)
    text = ask("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Speak."}], "stream": True})[2]
    check([b["type"] for b in read_messages(text)["content"]] == ["thinking"], "reasoning in a stream", text)
    m = post("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Speak."}], "thinking": {"type": "disabled"}})
    check([b["type"] for b in m["content"]] == ["text"], "no reasoning", m)
    r = post("/v1/responses", {"max_output_tokens": 9, "input": "Speak."})
    check([i["type"] for i in r["output"]] == ["reasoning"] and r["output"][0]["content"][0]["type"] == "reasoning_text", "reasoning", r)
    thought = lambda r: r["usage"]["output_tokens_details"]["reasoning_tokens"]
    check(thought(r) == r["usage"]["output_tokens"] > 0, "its tokens", r)
    r = read_response(ask("/v1/responses", {"max_output_tokens": 9, "input": "Speak.", "stream": True})[2])
    check([i["type"] for i in r["output"]] == ["reasoning"], "reasoning in a stream", r)
    check(thought(r) == r["usage"]["output_tokens"], "its tokens in a stream", r)
    u = post("/v1/chat/completions", {"max_tokens": 9, "messages": [{"role": "user", "content": "Speak."}]})["usage"]
    check(u["completion_tokens_details"]["reasoning_tokens"] == u["completion_tokens"], "its tokens in chat", u)
    back = [{"role": "user", "content": "a"}, *r["output"], {"type": "message", "role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    post("/v1/responses", {"max_output_tokens": 2, "input": back})
    none = ask("/v1/responses", {"input": [{"type": "item_reference", "id": "rs_1"}]})
    check(none[0] == 400 and "keeps no responses" in none[2], "an item of a server that keeps none", none)
    r = post("/v1/responses", {"max_output_tokens": 9, "input": "Speak.", "reasoning": {"effort": "none"}})
    check([i["type"] for i in r["output"]] == ["message"] and thought(r) == 0, "no reasoning", r)


OFF = ({"enable_thinking": False}, {"think": False}, {"thinking": {"type": "disabled"}}, {"thinking": False}, {"reasoning": {"enabled": False}},
       {"reasoning": {"effort": "none"}}, {"reasoning_effort": "none"}, {"thinking_budget": 0}, {"chat_template_kwargs": {"thinking": False}})


def switches(how):
    """how: variable (the template reasons unless its variable "thinking" is false), or none (the template has no switch, and the model
    begins reasoning by itself)."""
    chat = {"messages": [{"role": "user", "content": "Speak."}], "max_tokens": 6, "temperature": 0}
    prompts = {}
    for off in ({}, {"think": True}, *OFF):
        for stream in (False, True):
            status, head, text = ask("/v1/chat/completions", {**chat, **off, "stream": stream})
            reasons, ignored = '"reasoning_content"' in text, head.get("x-doppler-ignored", "")
            check(status == 200 and reasons == (how == "variable" and off not in OFF), "reasoning", how, off, text)
            check(ignored == (next(iter(off)) if how == "none" and off in OFF else ""), "named", how, off, ignored)
        status, _, text = ask("/v1/chat/completions", {**chat, **off, "strict": True})
        check(status == (400 if how == "none" and off in OFF else 200), "strict", how, off, text)
        status, head, text = ask("/v1/responses", {"input": "Speak.", "max_output_tokens": 6, "temperature": 0, **off})
        check(status == 200 and ('"reasoning_text"' in text) == (how == "variable" and off not in OFF), "reasoning", how, off, text)
        check(bool(head.get("x-doppler-ignored")) == (how == "none" and off in OFF), "named", how, off, head)
    for off in ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}):
        status, head, text = ask("/v1/messages", {"messages": chat["messages"], "max_tokens": 6, "temperature": 0, **off})
        check(status == 200 and head.get("x-doppler-ignored", "") == (next(iter(off)) if how == "none" else ""), "named", how, off, head)
    alone = {**chat, "grammar": 'root ::= "I weigh it.</think>\\n\\nAnswer."', "max_tokens": 60}
    m = post("/v1/chat/completions", alone)["choices"][0]["message"]
    check(m["content"] == "Answer." and m["reasoning_content"] == "I weigh it.", "an end mark alone", m)
    m = post("/v1/messages", alone)
    check([(b["type"], b.get("text", b.get("thinking"))) for b in m["content"]] == [("thinking", "I weigh it."), ("text", "Answer.")], "an end mark alone", m)
    text = ask("/v1/chat/completions", {**alone, "stream": True})[2]
    deltas = [c["delta"] for _, e in events(text) for c in e["choices"]]
    whole = "".join(d.get("reasoning_content", "") + d.get("content", "") for d in deltas)
    check("</think>" not in whole and whole.endswith("Answer."), "an end mark alone in a stream", whole)


def store():
    """The server keeps three responses."""
    first = post("/v1/responses", {"input": "Who is there?", "max_output_tokens": 8, "temperature": 0})
    check(json.loads(ask("/v1/responses/" + first["id"])[2]) == first, "it is kept")
    listed = lambda who, more="": json.loads(ask(f"/responses/{who['id']}/input_items{more}")[2])
    items = listed(first)
    check([(i["type"], i["role"], i["content"][0]["text"]) for i in items["data"]] == [("message", "user", "Who is there?")] and not items["has_more"], "its items", items)
    second = post("/v1/responses", {"input": "Nay.", "previous_response_id": first["id"], "max_output_tokens": 8, "temperature": 0})
    whole = post("/v1/responses", {"input": [{"role": "user", "content": "Who is there?"}, *first["output"], {"role": "user", "content": "Nay."}],
                                   "store": False, "max_output_tokens": 8, "temperature": 0})
    check(text_of(second) == text_of(whole) and second["usage"]["input_tokens"] == whole["usage"]["input_tokens"], "as if sent whole", second)
    refers = lambda id: {"input": [{"role": "user", "content": "Who is there?"}, {"type": "item_reference", "id": id}, {"role": "user", "content": "Nay."}],
                         "store": False, "max_output_tokens": 8, "temperature": 0}
    check(text_of(post("/v1/responses", refers(first["output"][0]["id"]))) == text_of(whole), "an item that is only named")
    for id in (first["output"][0]["id"] + "1", "msg_0", "", "x" * 300):
        none = ask("/v1/responses", refers(id))
        check(none[0] == 400 and "not found" in none[2], "no such item", none)
    check(ask("/v1/responses/" + whole["id"])[0] == 404, "store: false")
    every = listed(second)["data"]
    ids = [i["id"] for i in every]
    check([i["role"] for i in every] == ["user", "assistant", "user"] and every[-1] == items["data"][0] and len(set(ids)) == 3, "the newest first", every)
    check(listed(second, "?order=asc")["data"] == every[::-1] and listed(second, f"?after={ids[0]}")["data"] == every[1:], "in their order, behind one", every)
    pages = [listed(second, "?order=asc&limit=2"), listed(second, f"?order=asc&limit=2&after={ids[1]}")]
    check([i["id"] for p in pages for i in p["data"]] == ids[::-1] and [p["has_more"] for p in pages] == [True, False], "pages of them", pages)
    for more in ("order=up", "limit=0", "limit=101", "limit=x", "after=nobody"):
        check(ask(f"/v1/responses/{first['id']}/input_items?{more}")[0] == 400, more)
    check(ask(f"/v1/responses/{first['id']}?stream=true")[0] == 400 and ask(f"/v1/responses/{first['id']}?stream=false")[0] == 200, "no stream of what is kept")
    slow = post("/v1/responses", {"input": "Speak.", "background": True, "max_output_tokens": 30})
    check(slow["status"] == "in_progress" and slow["background"], "in the background", slow)
    for _ in range(600):
        now = json.loads(ask("/v1/responses/" + slow["id"])[2])
        if now["status"] != "in_progress":
            break
        time.sleep(0.05)
    check(now["status"] in ("completed", "incomplete") and text_of(now), "it ends", now)
    slow = post("/v1/responses", {"input": "Speak.", "background": True, "max_output_tokens": 900, "temperature": 1})
    early = ask("/v1/responses", {"input": "x", "previous_response_id": slow["id"]})
    check(early[0] == 400 and "still being made" in early[2] and len(listed(slow)["data"]) == 1, "one that is not complete", early)
    c = http.client.HTTPConnection(url.hostname, url.port)
    c.request("POST", f"/v1/responses/{slow['id']}/cancel")  # as OpenAI's clients do: without a body and its type
    gone = json.loads(c.getresponse().read())
    check(gone["status"] == "cancelled", "cancelled", gone)
    check(ask(f"/v1/responses/{slow['id']}/cancel", b"")[0] == ask(f"/v1/responses/{slow['id']}/cancel", {})[0] == 200, "with an empty body, or one")
    check(ask("/v1/responses/" + second["id"])[0] == 404 and ask("/v1/responses/" + first["id"])[0] == 200, "those that were used longest ago make room")
    check(ask("/v1/responses/" + slow["id"], method="DELETE")[0] == 200, "deleted")
    check(ask("/v1/responses/" + slow["id"], method="DELETE")[0] == 404, "deleted twice")
    check(ask("/v1/responses", {"input": "x", "previous_response_id": slow["id"]})[0] == 400, "no such response")
    check(ask("/v1/responses", {"input": "x", "background": True, "stream": True})[0] == 400, "no stream in the background")
    check(ask("/v1/responses/x", {}, method="PUT")[0] == 405, "methods")
    post("/v1/responses", {"input": "Speak.", "background": True, "max_output_tokens": 900}) # the server ends with it


def recorded():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        for q in json.load(open(os.path.join(folder, name), encoding="utf-8")):
            status, head, text = ask(q["path"], q["body"], q.get("headers"))
            about = (name, q["path"], status, text)
            check(status == q.get("status", 200), *about)
            if status != 200 or "count_tokens" in q["path"]:
                continue
            if "ignored" in q:
                check(q["ignored"] in head.get("x-doppler-ignored", ""), "ignored", head)
            if name == "messages.json":
                m = read_messages(text) if q["body"].get("stream") else json.loads(text)
                calls = [b["name"] for b in m["content"] if b["type"] == "tool_use"]
                check("request-id" in head and m["type"] == "message", *about)
            elif name == "responses.json":
                r = read_response(text) if q["body"].get("stream") else json.loads(text)
                calls = [i["name"] for i in r["output"] if i["type"].endswith("_call")]
            else:
                deltas = [c["delta"] for _, e in events(text) for c in e["choices"]]
                calls = [t["function"]["name"] for d in deltas for t in d.get("tool_calls", []) if "name" in t["function"]]
                check(events(text)[-1][1]["usage"]["total_tokens"] > 0 and "data: [DONE]" in text, *about)
            if "call" in q:
                check(calls == [q["call"]], "calls", *about)


# ---- log-probabilities of prompts ------------------------------------------------------------------------------------------------


def log_softmax(row):
    top = max(row)
    whole = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - whole for x in row]


def scored(path, ids, text, nll):
    """path: raw logits of the prompt `ids`; nll: what --ppl says of the text, per token."""
    ids = [int(i) for i in ids.split(",")]
    raw = array.array("f", open(path, "rb").read())
    vocab = len(raw) // len(ids)
    expected = [None] + [log_softmax(raw[i * vocab:(i + 1) * vocab]) for i in range(len(ids) - 1)]
    plain = {"model": "small", "temperature": 0, "echo": True}
    for n in (0, 1, 3): # lm-evaluation-harness asks for one token, and leaves it out
        r = post("/v1/completions", {**plain, "prompt": [ids, ids[:4], ids], "max_tokens": n, "logprobs": 2})
        for i, choice in enumerate(r["choices"]):
            l, m = choice["logprobs"], 4 if i == 1 else len(ids)
            lists = [l[k] for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")]
            written = len(l["tokens"]) - m
            check(0 <= written <= n and all(len(x) == m + written for x in lists), "lengths", i, n, l)
            check(l["token_logprobs"][0] is None and l["top_logprobs"][0] is None, "the first token has none", l)
            for k in range(1, m):
                check(abs(l["token_logprobs"][k] - expected[k][ids[k]]) < 1e-3, "a log-probability", k, l["token_logprobs"][k], expected[k][ids[k]])
                check(abs(max(l["top_logprobs"][k].values()) - max(expected[k])) < 1e-3, "the likeliest", k, l["top_logprobs"][k])
                greedy = l["token_logprobs"][k] == max(l["top_logprobs"][k].values())
                check(greedy == (expected[k][ids[k]] == max(expected[k])), "greedy", k)
                check(l["tokens"][k] in l["top_logprobs"][k], "the token itself", l)
            check(l["text_offset"] == sorted(l["text_offset"]) and "".join(l["tokens"][:m]) == choice["text"][:l["text_offset"][-1] + 99][:len("".join(l["tokens"][:m]))], "offsets", l, choice["text"])
    whole = json.loads(ask("/tokenize", {"content": text, "add_special": True, "parse_special": False})[2])["tokens"]
    for prompt in (text, whole):
        r = post("/v1/completions", {**plain, "prompt": prompt, "max_tokens": 0, "logprobs": 1, "parse_special": False})
        l = r["choices"][0]["logprobs"]
        check(len(l["tokens"]) == len(whole) and r["usage"]["completion_tokens"] == 0, "all tokens", l)
        mean = -sum(l["token_logprobs"][1:]) / (len(whole) - 1)
        check(abs(mean - float(nll)) < 1e-3, "as --ppl has it", mean, nll)
    check(r["choices"][0]["finish_reason"] == "length", "it ends", r)
    one = post("/v1/completions", {**plain, "prompt": text, "max_tokens": 5})["choices"][0]
    check(one["text"].startswith(text) and one["logprobs"] is None, "echo alone", one)
    wide = post("/v1/completions", {**plain, "prompt": "\u00e4 \u20ac, \U0001f600 so", "max_tokens": 0, "logprobs": 0})["choices"][0]
    last = wide["logprobs"]
    check(wide["text"][last["text_offset"][-1]:] == last["tokens"][-1], "offsets count characters", wide)
    native = post("/completion", {"prompt": text, "n_predict": 5, "temperature": 0, "n_probs": 2})
    found = native["completion_probabilities"]
    check(native["content"] == one["text"][len(text):] and len(found) == 5, "llama.cpp's form", native)
    check(all(len(t["top_logprobs"]) == 2 and t["token"] == t["top_logprobs"][0]["token"] for t in found), "its alternatives", found)
    c = post("/v1/completions", {**plain, "prompt": text, "max_tokens": 5, "logprobs": 1})["choices"][0]
    check(c["text"] == one["text"] and c["text"][c["logprobs"]["text_offset"][-5]:] == "".join(c["logprobs"]["tokens"][-5:]), "offsets", c)
    events_ = [e["choices"][0] for _, e in events(ask("/v1/completions", {**plain, "prompt": text, "max_tokens": 5, "logprobs": 1, "stream": True})[2])]
    check("".join(e["text"] for e in events_) == c["text"], "a stream", events_)
    for k in c["logprobs"]:
        check(sum((e["logprobs"][k] for e in events_ if e["logprobs"]), []) == c["logprobs"][k], "lists of a stream", k)
    long = (ids * 200)[:1024]
    r = post("/v1/completions", {**plain, "prompt": long, "max_tokens": 0, "logprobs": 1})
    check(len(r["choices"][0]["logprobs"]["tokens"]) == 1024, "the whole context")
    check(ask("/v1/completions", {**plain, "prompt": long + [5], "max_tokens": 0})[0] == 400, "more than the context")
    check(ask("/v1/chat/completions", {"echo": True, "messages": [{"role": "user", "content": "x"}]})[0] == 400, "no echo of conversations")


def harness(folder):
    """Scores as lm-evaluation-harness's local-completions asks for them and adds them up, beside those of transformers' logits."""
    about = json.load(open(os.path.join(folder, "expected.json"), encoding="utf-8"))
    raw = array.array("f", open(os.path.join(folder, "logits.f32"), "rb").read())
    n, vocab = about["logits_shape"]
    ids, after = about["prompt"], about["greedy"][0]
    logs = [log_softmax(raw[i * vocab:(i + 1) * vocab]) for i in range(n)]

    def expected(tokens, context):
        own = [logs[k - 1][tokens[k]] for k in range(context, len(tokens))]
        margins = [sorted(logs[k - 1])[-1] - logs[k - 1][tokens[k]] for k in range(context, len(tokens))]
        return sum(own), all(m == 0 for m in margins), min((m for m in margins if m), default=1)

    # Whole prompts with every context, what greedy decoding says next, what it does not, and shorter ones, in batches.
    asked = [(ids, c) for c in range(1, n, 3)] + [(ids + [after], n), (ids + [after ^ 1], n)] + [(ids[:k], 1) for k in range(2, n, 5)]
    for size in (1, 4, len(asked)):
        for at in range(0, len(asked) if size > 1 else 3, size):
            batch = asked[at:at + size]
            payload = {"model": "small", "prompt": [tokens for tokens, _ in batch], "temperature": 0, "max_tokens": 1, "logprobs": 1,
                       "seed": 1234, "echo": True}
            choices = sorted(post("/v1/completions", payload)["choices"], key=lambda c: c["index"])
            check(len(choices) == len(batch), "one choice for each", len(choices))
            for (tokens, context), choice in zip(batch, choices):
                l = choice["logprobs"]
                own, top = l["token_logprobs"][context:-1], l["top_logprobs"][context:-1]
                greedy = all(x == max(t.values()) for x, t in zip(own, top))
                want, want_greedy, margin = expected(tokens, context)
                check(len(own) == len(tokens) - context and abs(sum(own) - want) < 2e-3, "a score", context, sum(own), want)
                check(greedy == want_greedy or margin < 1e-2, "greedy", tokens, greedy, want_greedy)
    r = post("/v1/completions", {"model": "small", "prompt": [ids, ids[:5]], "max_tokens": 8, "temperature": 0, "stop": ["\n\n"], "seed": 1234})
    check([c["index"] for c in r["choices"]] == [0, 1], "texts", r)
    check(ask("/tokenizer_info")[0] == 404, "the harness then takes its own tokenizer")


def infill():
    """The server's tokenizer has tokens for filling in the middle."""
    body = {"input_prefix": "ROMEO: What ", "input_suffix": " sir?", "n_predict": 8, "temperature": 0}
    whole = post("/infill", body)
    check(whole["stop"] and whole["tokens_predicted"] == 8 and whole["stop_type"] == "limit" and whole["content"], "infill", whole)
    found = [e for _, e in events(ask("/infill", {**body, "stream": True})[2])]
    check("".join(e["content"] for e in found) == whole["content"] and [e["stop"] for e in found] == [False] * (len(found) - 1) + [True], "a stream", found)
    ids = lambda t: json.loads(ask("/tokenize", {"content": t, "parse_special": True})[2])["tokens"]
    plain = lambda t: json.loads(ask("/tokenize", {"content": t, "parse_special": False})[2])["tokens"]
    prompt = [2, *ids("<|fim_prefix|>"), *plain(body["input_prefix"]), *ids("<|fim_suffix|>"), *plain(body["input_suffix"]), *ids("<|fim_middle|>")]
    same = post("/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0})
    check(same["choices"][0]["text"] == whole["content"] and whole["tokens_evaluated"] == len(prompt), "the prompt", same, prompt)
    more = post("/infill", {**body, "prompt": "say you", "input_extra": [{"filename": "a.txt", "text": "Enter ROMEO."}], "input_suffix": "<|fim_middle|>"})
    check(more["tokens_evaluated"] > len(prompt), "more files, and marks that are letters", more)


# ---- the queue ------------------------------------------------------------------------------------------------------------------


def fair():
    """Keys a, b, and c with a priority of 5; the server has four sequences."""
    done, threads = [], []

    def one(who):
        c = http.client.HTTPConnection(url.hostname, url.port, timeout=300)
        c.request("POST", "/v1/completions", json.dumps({"prompt": "ROMEO:", "max_tokens": 24, "ignore_eos": True}),
                  {"Content-Type": "application/json", "Authorization": "Bearer " + who})
        r = c.getresponse()
        r.read()
        done.append((who, r.status))

    for who, n in (("a", 32), ("b", 2), ("c", 2)):
        for _ in range(n):
            threads.append(threading.Thread(target=one, args=(who,)))
            threads[-1].start()
        time.sleep(0.2)
    for t in threads:
        t.join()
    order = [who for who, status in done]
    check(all(status == 200 for _, status in done) and len(done) == 36, "all are answered", done)
    late = max(i for i, who in enumerate(order) if who == "b")
    check(late < 30, "one client's many requests do not hold up another's few", order)
    check(max(i for i, who in enumerate(order) if who == "c") < 30, "a priority", order)
    text = ask("/metrics", headers={"Authorization": "Bearer a"})[2]
    for name in ("doppler_jobs_running", "llamacpp:requests_processing", "llamacpp:tokens_predicted_total", 'vllm:num_requests_waiting{model_name="',
                 'vllm:time_to_first_token_seconds_bucket{model_name="', "vllm:generation_tokens_total"):
        check(name in text, "metrics", name)
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    for line in lines:
        float(line.rsplit(" ", 1)[1])
    check(len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines), "each series once")
    said = {w: re.findall(rf"^# {w} (\S+) .", text, re.M) for w in ("HELP", "TYPE")}
    check(said["HELP"] == said["TYPE"] and len(set(said["TYPE"])) == len(said["TYPE"]), "each name said once", said)


# ---- several models ----------------------------------------------------------------------------------------------------------------


def statuses():
    return {m["id"]: m["status"] for m in json.loads(ask("/v1/models")[2])["data"]}


def one_model(name, path="/v1/completions"):
    body = {"/v1/completions": {"prompt": "ROMEO:", "max_tokens": 2, "temperature": 0},
            "/v1/messages": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "temperature": 0},
            "/v1/responses": {"input": "x", "max_output_tokens": 2, "temperature": 0}, "/tokenize": {"content": "x"}}[path]
    return ask(path, {**body, **({"model": name} if name else {})})


def models():
    """Models one, two (alias zwei) and broken; nothing is loaded yet."""
    check(statuses() == {"one": "unloaded", "two": "unloaded", "broken": "unloaded"}, "a list", statuses())
    check(ask("/health")[0] == 200 and ask("/props")[0] == 503, "no model yet")
    first = one_model("one")
    check(first[0] == 200 and json.loads(first[2])["model"] == "one", "it is loaded", first)
    check(statuses() == {"one": "loaded", "two": "unloaded", "broken": "unloaded"}, "a list", statuses())
    check(one_model(None)[0] == 200 and statuses()["two"] == "unloaded", "one that is loaded answers who names none")
    check(one_model("")[0] == 200 and statuses()["two"] == "unloaded", "and an empty name is none")
    check(ask("/props?model=nobody")[0] == 404 and statuses()["two"] == "unloaded", "facts of no model")
    facts = ask("/props?x=1&model=zw%65i")
    check(facts[0] == 200 and json.loads(facts[2])["model_alias"] == "two" and ask("/slots?model=two")[0] == 200, "facts of a model", facts)
    other = one_model("zwei", "/v1/messages")
    check(other[0] == 200 and json.loads(other[2])["model"] == "two" and statuses()["two"] == "loaded", "an alias", other)
    check(json.loads(one_model("two")[2])["choices"] == json.loads(first[2])["choices"], "the same plan says the same")
    for path in ("/v1/completions", "/v1/responses", "/tokenize"):
        status, _, text = one_model("three", path)
        check(status == 404 and "model_not_found" in text, "no such model", path, status, text)
    status, _, text = one_model("three", "/v1/messages")
    check(status == 404 and json.loads(text)["error"]["type"] == "not_found_error", "no such model", text)
    status, _, text = one_model("broken")
    check(status == 503 and "truncated" in text, "one that cannot be loaded", status, text)
    check(statuses()["broken"] == "failed" and one_model("broken")[0] == 503, "and again")
    check(one_model("one")[0] == 200 and ask("/props")[0] == 200 and ask("/v1/models/zwei")[0] == 200, "the others work on")
    check(ask("/v1/completions", {"model": 5, "prompt": "x"})[0] == 400, "a name is a text")
    text = ask("/metrics")[2]
    check(re.search(r"doppler_model_loads_total [2-9]", text) and "doppler_written_tokens_total" in text, "metrics", text)
    for _ in range(300): # --models-idle 6
        if statuses()["one"] == statuses()["two"] == "unloaded":
            break
        time.sleep(0.1)
    check(statuses()["one"] == statuses()["two"] == "unloaded", "unused ones are unloaded", statuses())
    check("doppler_models_bytes 0" in ask("/metrics")[2], "with their memory")
    check(one_model("two", "/v1/responses")[0] == 200, "and loaded again")


def load(seconds, clients):
    """All models of the list by turns, with memory for one or two of them."""
    names, counts, bad = list(statuses()), {}, []
    end = time.time() + float(seconds)

    def client(number):
        r = random.Random(number)
        while time.time() < end:
            name = r.choice(names)
            stream = r.random() < 0.3
            try:
                status, _, text = ask("/v1/completions", {"model": name, "prompt": "ROMEO:", "max_tokens": 4, "ignore_eos": True, "stream": stream})
                good = status == 200 and ("[DONE]" in text if stream else json.loads(text)["usage"]["completion_tokens"] == 4)
            except OSError as e:
                good, status, text = False, e, ""
            counts[name] = counts.get(name, 0) + 1
            if not good:
                bad.append((name, status, text[:200]))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(int(clients))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not bad, "no request is lost", len(bad), bad[:3])
    check(set(counts) == set(names), "every model has its turns", counts)
    text = ask("/metrics")[2]
    loads = int(re.search(r"doppler_model_loads_total (\d+)", text)[1])
    check(loads >= len(names) + (float(seconds) > 30), "loads and unloads", loads, counts)
    print(sum(counts.values()), "requests,", loads, "loads")


# ---- hostile ---------------------------------------------------------------------------------------------------------------------

SAMPLES = {
    "/v1/messages": {"model": "x", "max_tokens": 2, "stream": False, "temperature": 1, "top_p": 1, "top_k": 1, "stop_sequences": ["x"],
                     "system": [{"type": "text", "text": "s"}], "thinking": {"type": "enabled", "budget_tokens": 2000},
                     "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
                                  {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": ""}, {"type": "tool_use", "id": "i", "name": "f", "input": {"a": 1}}]},
                                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text", "text": "r"}], "is_error": False},
                                                               {"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
                                                               {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}]}],
                     "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}],
                     "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}, "output_config": {"effort": "low"}, "metadata": {"user_id": "u"}},
    "/v1/responses": {"model": "x", "max_output_tokens": 2, "stream": False, "temperature": 1, "top_p": 1, "instructions": "i", "store": False, "truncation": "auto",
                      "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
                                {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}], "content": [{"type": "reasoning_text", "text": "t"}]},
                                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                                {"type": "function_call_output", "call_id": "c", "output": "o"},
                                {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "x"},
                                {"type": "custom_tool_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "a"}]}],
                      "tools": [{"type": "function", "name": "f", "description": "d", "strict": False, "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                                {"type": "custom", "name": "g", "description": "d"}],
                      "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}, "parallel_tool_calls": False,
                      "text": {"format": {"type": "text"}, "verbosity": "low"}, "reasoning": {"effort": "low", "summary": "auto"}, "include": ["message.output_text.logprobs"],
                      "top_logprobs": 1, "metadata": {"a": "b"}, "stream_options": {"include_obfuscation": False}},
    "/v1/completions": {"model": "x", "prompt": ["a", "b"], "max_tokens": 1, "logprobs": 2, "echo": True, "n": 1, "stream": False, "stop": ["x"], "temperature": 0.5},
}
SAMPLES["/infill"] = {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "f", "text": "t"}], "prompt": "p", "n_predict": 1, "stream": False}
SAMPLES["/v1/messages/count_tokens"] = {k: v for k, v in SAMPLES["/v1/messages"].items() if k not in ("max_tokens", "stream")}


def places(value, at=()):
    yield at
    if isinstance(value, dict):
        for k in value:
            yield from places(value[k], at + (k,))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield from places(value[i], at + (i,))


def changed(value, at, by):
    if not at:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = changed(value[at[0]], at[1:], by)
    return copy


def deep(n):
    return "[" * n + "]" * n


def hostile(seed):
    r = random.Random(seed)
    values = [None, True, False, 0, -1, 1e308, 1 << 62, -(1 << 62), 0.5, "", "x", "\x00", "\ud83d\ude00" * 50, "auto", [], {}, [[]], [{}], {"": {}}, {"type": "text"},
              [None] * 50, "y" * 100000]
    for path, sample in SAMPLES.items():
        status, _, text = ask(path, sample)
        check(status in (200, 400), path, "the sample", status, text)
        all_places = list(places(sample))
        for _ in range(15):
            at = r.choice(all_places)
            if r.random() < 0.15: # written by hand: what json.dumps would not write
                mark = json.dumps(changed(sample, at, "MARK"))
                by = r.choice([deep(100), deep(20000), "1e999", "1" * 400, '{"a":1,"a":2}', '"\\ud800"', "NaN"])
                body = mark.replace('"MARK"', by).encode()
            else:
                body = json.dumps(changed(sample, at, r.choice(values))).encode()
            status, head, text = ask(path, body)
            about = (path, at, body[:200], status, text)
            check(status in (200, 400, 408, 413), *about)
            if status == 200:
                continue
            e = json.loads(text)
            if path.startswith("/v1/messages"):
                check(e["type"] == "error" and e["error"]["type"] in ("invalid_request_error", "timeout_error", "request_too_large") and e["error"]["message"], *about)
            else:
                check(isinstance(e["error"]["message"], str) and e["error"]["type"], *about)
    check(ask("/health")[0] == 200, "it works on")


if what.startswith("hostile:"):
    hostile(int(what.split(":")[1]))
else:
    name, *arguments = what.split(":", 4)
    {"same": same, "infill": infill, "fair": fair, "models": models, "load": load, "scored": scored, "harness": harness, "thinking": thinking, "switches": switches, "store": store, "recorded": recorded}[name](*arguments)
end()
