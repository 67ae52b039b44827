#!/usr/bin/python3
"""Chat templates rendered twice: by the runtime's interpreter and by Jinja2 as transformers sets it up.

    compare.py RENDER [--list] TEMPLATE|FOLDER...     (RENDER: the program made from tests/tools/render.c)

Every template is rendered with the 22 conversations of conversations.json.  What must agree: the text; and where a
template refuses a conversation (raise_exception), the refusal and its words.  Where Jinja2 itself fails, as it does for
a name that is not there, the runtime may fail too or write something: that is counted, and is no difference.

Folders are searched for *.jinja, for *.lines, which have a template in each line, and for tokenizer_config.json and chat_template.json with templates in them.  The last
line has the counts; the exit status is 1 where there is a difference.  --list: one line for each difference, with both
texts around the first character that differs."""
import datetime
import json
import os
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
from jinja2.nodes import CallBlock
from jinja2.sandbox import ImmutableSandboxedEnvironment

DAY = datetime.datetime(2024, 7, 26, 13, 5, 9)
HERE = os.path.dirname(os.path.abspath(__file__))


class Refused(Exception):
    """What raise_exception was told."""


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks for training what the model is to write; the text is as without it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    def refuse(message):
        raise Refused(str(message))

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: DAY.strftime(form)
    return env


def compiled(env, text):
    """The template, or the error that it is."""
    try:
        return env.from_string(text)
    except jinja2.TemplateError as e:
        return e


def expected(template, conversation):
    """('text', TEXT), ('refused', WORDS) or ('failed', MESSAGE)"""
    if isinstance(template, Exception):
        return "failed", f"{type(template).__name__}: {template}"
    c = json.loads(json.dumps(conversation))  # a template may change what it is given
    try:
        given = {
            "messages": c["messages"],
            "tools": c.get("tools"),
            "documents": None,
            "add_generation_prompt": c["add_generation_prompt"],
            "bos_token": "<s>",
            "eos_token": "</s>",
            **c.get("extra", {}),
        }
        return "text", template.render(**given)
    except Refused as e:
        return "refused", str(e)
    except Exception as e:
        return "failed", f"{type(e).__name__}: {e}"


def templates_of(path):
    """(NAME, TEXT) of every template in a file or a folder."""
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".jinja", ".lines")) or name in ("tokenizer_config.json", "chat_template.json"):
                    yield from templates_of(os.path.join(folder, name))
        return
    with open(path, encoding="utf-8", newline="") as f:
        text = f.read()
    if path.endswith(".lines"):
        for i, line in enumerate(text.splitlines()):
            if line and not line.startswith("#"):
                yield f"{path}:{i + 1}", line
        return
    if not path.endswith(".json"):
        yield path, text
        return
    found = json.loads(text).get("chat_template")
    if isinstance(found, str):
        yield path, found
    for one in found if isinstance(found, list) else []:
        yield f"{path}:{one['name']}", one["template"]


def agrees(want, got):
    kind, text = want
    if kind == "text":
        return got.get("text") == text
    if kind == "refused":
        return "error" in got and text.strip().split("\n")[0][:60] in got["error"]
    return True


def around(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return repr(a[max(0, at - 40) : at + 60]), repr(b[max(0, at - 40) : at + 60])


def show(name, conversation, want, got):
    kind, text = want
    if kind == "text" and "text" in got:
        a, b = around(text, got["text"])
    else:
        a, b = f"{kind} {text[:200]!r}", repr(str(got.get("error", got.get("text")))[:200])
    print(f"{name} | {conversation['name']}\n  want {a}\n  got  {b}")


def main(args):
    listed = "--list" in args
    args = [x for x in args if x != "--list"]
    if len(args) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(os.path.join(HERE, "conversations.json"), encoding="utf-8") as f:
        conversations = json.load(f)
    found = [t for path in args[1:] for t in templates_of(path)]
    env = environment()
    count = {"text": 0, "refused": 0, "failed": 0}
    different, bad_templates = 0, set()
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, (_, text) in enumerate(found):
            files.append(os.path.join(folder, f"{i}.jinja"))
            with open(files[-1], "w", encoding="utf-8", newline="") as f:
                f.write(text)
        made = subprocess.run(
            [args[0], os.path.join(HERE, "conversations.json"), *files], stdout=subprocess.PIPE, check=True
        ).stdout.splitlines()
    if len(made) != len(found) * len(conversations):
        print(f"{args[0]} wrote {len(made)} lines for {len(found)} templates", file=sys.stderr)
        return 1
    lines = iter(made)
    for name, text in found:
        template = compiled(env, text)
        for conversation in conversations:
            got = json.loads(next(lines))
            want = expected(template, conversation)
            count[want[0]] += 1
            if not agrees(want, got):
                different += 1
                bad_templates.add(name)
                if listed:
                    show(name, conversation, want, got)
    print(
        f"{len(found)} templates, {len(conversations)} conversations each: {different} differences in "
        f"{len(bad_templates)} templates ({count['text']} texts, {count['refused']} refusals, "
        f"{count['failed']} where Jinja2 fails)"
    )
    return 1 if different or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
