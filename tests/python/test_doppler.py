"""The Python package over a plan of the demo.

usage: test_doppler.py PLAN MODEL WANT ROOM GOLDEN EYES PICTURE [unittest's]: the plan (ctx 64, 3 sequences, --rows 2,4, --embed, adapters), the model it
was made from, and a file with what doppler-exec writes greedily after "ROMEO:" in 20 tokens; a plan with room for the adapter of a golden folder; a plan
with a vision part, and a picture.
"""
import array
import copy
import dataclasses
import gc
import inspect
import json
import math
import os
import pickle
import subprocess
import sys
import threading
import time
import unittest

import doppler
from doppler import GREEDY, End, Error, Pooling, Sampling, Status, Wants

PLAN, MODEL, WANT, ROOM, GOLDEN, EYES, PICTURE = sys.argv[1:8]
with open(WANT, encoding="utf-8") as file:
    WRITTEN = file.read().rstrip("\n")


def resident():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


LINES = []
SHARED = doppler.Model(PLAN, checkpoints=4, log=LINES.append)


class Opened(unittest.TestCase):
    model = SHARED

    def failing(self, code, says, function, *arguments, **named):
        with self.assertRaises(Error) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.code, code)
        self.assertIn(says, str(caught.exception))


class Plans(unittest.TestCase):
    def test_facts_without_a_device(self):
        facts = doppler.read_plan(PLAN)
        self.assertEqual((facts.family, facts.ctx, facts.n_sequences, facts.n_parts), ("gemma3", 64, 3, 1))
        self.assertEqual(facts.bytes, os.path.getsize(PLAN))
        self.assertEqual([t.name for t in facts.targets], ["lavapipe"])
        self.assertTrue(json.loads(facts.made)["embed"])
        self.assertTrue(doppler.Text(PLAN).decode(doppler.Text(PLAN).encode("To be")).endswith("To be"))

    def test_devices(self):
        found = doppler.devices()
        self.assertEqual([d.number for d in found], list(range(len(found))))
        self.assertTrue(all(d.name and d.line for d in found))

    def test_errors_have_code_and_message(self):
        with self.assertRaises(Error) as caught:
            doppler.Model("/nowhere/at.plan")
        self.assertEqual(caught.exception.code, Status.IO)
        self.assertEqual(caught.exception.path, "/nowhere/at.plan")
        self.assertTrue(str(caught.exception).startswith("/nowhere/at.plan: "))
        with self.assertRaises(Error) as caught:
            doppler.Model(PLAN, device="no such device")
        self.assertEqual(caught.exception.code, Status.USAGE)
        with self.assertRaises(Error) as caught:
            doppler.Model(b"no plan")
        self.assertEqual(caught.exception.code, Status.INPUT)
        with self.assertRaises(Error):
            doppler.read_plan(__file__)
        with self.assertRaises(TypeError):
            doppler.Model(PLAN, no_such_option=1)

    def test_memory_descriptor_progress_refusal(self):
        steps = []
        with open(PLAN, "rb") as plan:
            raw = plan.read()
            with doppler.Model(plan.fileno(), progress=lambda step, done, whole: steps.append((step, done, whole))) as model:
                self.assertEqual(model.facts.vocab, 2048)
        self.assertIn("kernels", {step for step, _, _ in steps})
        self.assertTrue(any(done == whole for _, done, whole in steps))
        with doppler.Model(raw) as model, model.sequence() as sequence:
            self.assertEqual("ROMEO:" + sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY).read(), WRITTEN)
        for refuse in ({"progress": lambda *_: False}, {"accept": lambda device: device.number < 0}):
            with self.assertRaises(Error) as caught:
                doppler.Model(PLAN, **refuse)
            self.assertEqual(caught.exception.code, Status.CANCELLED)
        with self.assertRaises(ZeroDivisionError):  # what a function raises arrives
            doppler.Model(PLAN, progress=lambda *_: 1 // 0)

    def test_log(self):
        self.assertTrue(all(isinstance(line, str) for line in LINES))
        self.assertTrue(LINES)


class Texts(Opened):
    def test_encode_decode(self):
        text = self.model.text
        ids = text.encode("ROMEO: déjà", add_special=False)
        self.assertEqual(text.decode(ids), "ROMEO: déjà")
        self.assertEqual(text.encode("ROMEO: déjà"), [self.model.facts.bos_id] + ids)
        self.assertEqual(text.encode(""), [self.model.facts.bos_id])
        self.assertEqual(text.encode("", add_special=False), [])
        with text.decoder() as decoder:
            pieces = [decoder.push(i) for i in ids] + [decoder.end()]
        self.assertEqual("".join(pieces), "ROMEO: déjà")
        self.failing(Status.INPUT, "", text.decode, [1 << 20])
        self.failing(Status.INPUT, "token id", text.decode, [-1])
        self.failing(Status.INPUT, "UTF-8", text.encode, "\ud800")
        self.assertEqual(text.decode(array.array("I", ids)), "ROMEO: déjà")
        self.assertTrue(text.is_end(self.model.facts.end_ids[0]))

    def test_chats(self):
        chat = doppler.Chat(self.model.text, name="chatml")
        said = chat.render([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
        self.assertEqual(said, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(chat.render("Hi", add_generation_prompt=False), "<|im_start|>user\nHi<|im_end|>\n")
        self.assertEqual(chat.stops, ["<|im_end|>"])
        self.assertIn("X", doppler.Chat(self.model.text, template="{{ messages[0].content }}X").render("A"))
        self.failing(Status.INPUT, "chatml", doppler.Chat, self.model.text, name="nosuch")
        with self.model.sequence() as sequence:
            first = sequence.answer("Hi", chat=chat, max_tokens=3, sampling=GREEDY)
            first.read()
            fed = len(sequence)
            turns = [{"role": "user", "content": "Hi"}]
            self.assertEqual(sequence.tokens[:5], chat.ids(turns)[:5])
            again = sequence.answer(turns, chat=chat, max_tokens=3, sampling=GREEDY)
            self.assertEqual(again.read(), first.text)
            self.assertEqual(len(sequence), fed)

    def test_shapes(self):
        shape = self.model.text.schema({"type": "object", "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}},
                                        "required": ["n"], "additionalProperties": False})
        self.assertEqual(shape.unenforced, "")
        with self.model.sequence() as sequence:
            writing = sequence.write("ROMEO:", shape=shape, max_tokens=40, sampling=GREEDY)
            self.assertIn(json.loads(writing.read())["n"], range(100))
            self.assertIn(writing.end, (End.SHAPE, End.ID))
        grammar = self.model.text.grammar('root ::= "yes" | "no"')
        with self.model.sequence() as sequence:
            self.assertIn(sequence.write("ROMEO:", shape=grammar).read(), ("yes", "no"))
        matcher = grammar.matcher()
        self.assertFalse(matcher.may_end)
        for token in self.model.text.encode("no", add_special=False):
            self.assertTrue(matcher.allows(token))
            matcher.accept(token)
        self.assertTrue(matcher.must_end)
        self.failing(Status.INPUT, "", matcher.accept, 5)
        self.failing(Status.INPUT, "", self.model.text.grammar, "root ::= (")
        self.failing(Status.INPUT, "", self.model.text.schema, False)


class Sequences(Opened):
    def write(self, sequence, **how):
        return "ROMEO:" + sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY, **how).read()

    def test_stream(self):
        with self.model.sequence() as sequence:
            writing = sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY)
            pieces = list(writing)
            self.assertGreater(len(pieces), 5)
            self.assertEqual("ROMEO:" + "".join(pieces), WRITTEN)
            self.assertEqual(writing.text, "".join(pieces))
            self.assertEqual(writing.end, End.LENGTH)
            self.assertEqual(sequence.tokens[-20:], writing.ids)
            self.assertEqual(list(writing), [])

    def test_tokens_logprobs_stops(self):
        with self.model.sequence() as sequence:
            tokens = list(sequence.write("ROMEO:", max_tokens=8, sampling=GREEDY, top_logprobs=3).tokens())
            self.assertEqual(len(tokens), 8)
            for token in tokens:
                self.assertEqual(token.top[0].id, token.id)
                self.assertEqual(token.top[0].logprob, token.logprob)
                self.assertEqual([t.logprob for t in token.top], sorted((t.logprob for t in token.top), reverse=True))
            self.assertEqual([t.end for t in tokens], [End.NOT_YET] * 7 + [End.LENGTH])
        stop = WRITTEN[len("ROMEO:") :].split()[3]
        with self.model.sequence() as sequence:
            writing = sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY, stops=[stop])
            self.assertEqual(WRITTEN.index(stop), len("ROMEO:" + writing.read()))
            self.assertEqual(writing.end, End.STOP_TEXT)
        with self.model.sequence() as sequence:
            writing = sequence.write("ROMEO:", sampling=GREEDY)
            next(writing)
            self.assertTrue(WRITTEN[6:].startswith(writing.text + writing.stop()))
            self.assertEqual(list(writing), [])

    def test_sampling(self):
        with self.model.sequence() as sequence:
            texts = []
            for seed in (1, 1, 2):
                sequence.rewind(0)
                texts.append(sequence.write("ROMEO:", max_tokens=12, sampling=Sampling(temperature=1.5, seed=seed)).read())
            self.assertEqual(texts[0], texts[1])
            self.assertNotEqual(texts[0], texts[2])
            sequence.rewind(0)
            first = self.model.text.encode(WRITTEN)[len(self.model.text.encode("ROMEO:"))]
            banned = Sampling(biases={first: -math.inf})
            self.assertNotEqual(next(sequence.write("ROMEO:", sampling=banned).tokens()).id, first)
            for odd in (Sampling(temperature=math.nan), Sampling(min_p=math.nan), Sampling(repeat_penalty=0, repeat_last_n=8)):
                with self.assertRaisesRegex(Error, "its numbers are finite"):
                    sequence.write("", sampling=odd)
            with self.assertRaises(ValueError):
                sequence.write("", max_tokens=-1)
            with self.assertRaisesRegex(Error, "^1:10: a rule of this name"):
                self.model.text.grammar("root ::= foo")

    def test_feed_next_score(self):
        ids = self.model.text.encode("ROMEO:")
        with self.model.sequence() as sequence, self.model.sequence() as other:
            rows = sequence.score(ids)
            self.assertEqual(rows.shape, (len(ids), 2048))
            last = list(rows[len(ids) - 1, i] for i in range(2048))
            pieces = []
            other.score(ids, lambda first, some: pieces.append((first, some.shape[0], some[some.shape[0] - 1, 7])))
            self.assertEqual(sum(n for _, n, _ in pieces), len(ids))
            self.assertEqual(pieces[-1][2], last[7])
            self.assertEqual(sequence.next(), last.index(max(last)))
            total = math.log(sum(math.exp(v - max(last)) for v in last)) + max(last)
            other.rewind(0)
            other.set_sampling(Sampling(logprobs=True))
            other.feed(array.array("I", ids))
            picked = other.next()
            self.assertAlmostEqual(other.logprobs(2)[0].logprob, last[picked] - total, places=4)

    def test_callbacks(self):
        ids = self.model.text.encode("ROMEO:")
        with self.model.sequence() as sequence:
            told = []
            sequence.feed(ids * 3, progress=lambda step, done, whole: told.append((step, done, whole)))
            self.assertEqual(told[-1], ("tokens", 3 * len(ids), 3 * len(ids)))
            sequence.rewind(0)
            self.failing(Status.CANCELLED, "", sequence.feed, ids * 12, progress=lambda *_: False)
            sequence.rewind(0)
            sequence.feed(ids)
            sequence.set_sampler(lambda logits, tokens: (len(logits) - 2048) + len(tokens))
            self.assertEqual(sequence.next(), len(ids))
            self.assertEqual(sequence.next(), len(ids) + 1)
            sequence.set_sampler(lambda logits, tokens: 1 // 0)
            self.assertRaises(ZeroDivisionError, sequence.next)
            sequence.set_sampler(lambda logits, tokens: self.model.max_rows() and sequence.next())
            self.failing(Status.USAGE, "may not use the model", sequence.next)  # a call from within a call
            sequence.set_sampler(None)
            sequence.set_mask([42, 43])
            self.assertIn(sequence.next(), (42, 43))
            sequence.set_mask(None)
            self.failing(Status.INPUT, "", sequence.set_mask, [])
        with self.model.sequence() as sequence:
            sequence.set_speculation(ngram=2)
            self.assertEqual(self.write(sequence), WRITTEN)
            sequence.rewind(0)
            ids = self.model.text.encode(WRITTEN)
            asked = []

            def draft(tokens, most):
                asked.append(most)
                return ids[len(tokens) : len(tokens) + most]

            sequence.set_speculation(fn=draft)
            self.assertEqual(self.write(sequence), WRITTEN)
            counts = sequence.speculation_counts  # how many depends on the time that steps take
            self.assertTrue(asked)
            self.assertTrue(0 <= counts.accepted <= counts.drafted)
            sequence.set_speculation()

    def test_fork_rewind_save_checkpoint(self):
        path = "kept.bin"
        with self.model.sequence() as sequence:
            sequence.feed(self.model.text.encode("ROMEO:"))
            mark = sequence.checkpoint()
            sequence.save(path, b"a\0note")
            with sequence.fork() as other:
                self.assertEqual(other.tokens, sequence.tokens)
                self.assertEqual("ROMEO:" + other.write([], max_tokens=20, sampling=GREEDY).read(), WRITTEN)
            sequence.rewind(2)
            self.assertEqual(len(sequence), 2)
            self.assertEqual(sequence.load(path), b"a\0note")
            self.assertEqual("ROMEO:" + sequence.write([], max_tokens=20, sampling=GREEDY).read(), WRITTEN)
            sequence.restore(mark)
            self.assertEqual("ROMEO:" + sequence.write([], max_tokens=20, sampling=GREEDY).read(), WRITTEN)
            self.model.drop_checkpoint(mark)
            sequence.cut(0, 1)
            self.failing(Status.INPUT, "", sequence.rewind, 1000)
        self.failing(Status.USAGE, "the Sequence is closed", sequence.next)

    def test_steps(self):
        ids = self.model.text.encode("ROMEO:")
        with self.model.sequence() as a, self.model.sequence() as b:
            a.feed(ids[:-1])
            b.feed(ids[:-1])
            with self.model.step([(a, ids[-1], Wants.PICK), (b, ids[-1], Wants.LOGITS)]) as step:
                logits = list(step.logits(1))
                self.assertEqual(step.pick(0), logits.index(max(logits)))
                self.assertEqual(step.sample(1), step.pick(0))
                self.failing(Status.USAGE, "", step.pick, 1)
                self.failing(Status.USAGE, "", step.logits, 0)
            self.assertEqual(a.tokens, ids)
            with self.assertRaises(KeyError), self.model.step([(a, 5, self.model.wants(GREEDY))]):
                raise KeyError
            self.assertEqual(a.tokens, ids)  # rolled back
            self.failing(Status.USAGE, "ended", step.pick, 0)

    def test_vectors(self):
        vectors = self.model.embed(["ROMEO:", "JULIET:", [1, 2, 3]])
        self.assertEqual([len(v) for v in vectors], [self.model.embedding_size] * 3)
        for v in vectors:
            self.assertAlmostEqual(sum(x * x for x in v), 1.0, places=4)
        with self.model.sequence() as sequence:
            alone = sequence.embed(self.model.text.encode("ROMEO:"), Pooling.LAST)
        self.assertLess(max(abs(x - y) for x, y in zip(alone, self.model.embed(["ROMEO:"], pooling=Pooling.LAST)[0])), 1e-5)
        self.assertAlmostEqual(self.model.relevance("ROMEO:", ["ROMEO:", "to be"])[0], 1.0, places=4)

    def test_too_many(self):
        held = [self.model.sequence() for _ in range(3)]
        self.failing(Status.INPUT, "", self.model.sequence)
        held.pop().close()
        self.model.sequence().close()
        del held
        gc.collect()
        self.assertEqual(len([self.model.sequence() for _ in range(3)]), 3)
        gc.collect()

    def test_no_adapters_no_pictures(self):
        self.assertEqual(self.model.adapter_room, 0)
        self.assertEqual(self.model.adapters, [])
        self.failing(Status.INPUT, "", self.model.load_adapter, "nowhere")
        with self.assertRaises(Error):
            self.model.images  # pylint: disable=pointless-statement


class Wrong(Opened):
    """What a caller may get wrong, in the words of Python."""

    def test_every_option_and_fact_has_a_name_here(self):
        abi = doppler._abi  # pylint: disable=protected-access

        def names(struct):
            return {name for name, *_ in struct._fields_}

        of_open = set(inspect.signature(doppler.Model).parameters) | {"chosen"}  # accept=
        self.assertEqual(names(abi.dop_open_options) - of_open, {"parts", "part", "wire", "chosen_user", "refused_user"})
        of_compile = set(inspect.signature(doppler.compile).parameters)
        self.assertEqual({n for n in names(abi.dop_compile_options) - of_compile if not n.startswith("n_")}, set())
        for struct, kind in ((abi.dop_facts, doppler.Facts), (abi.dop_plan_facts, doppler.PlanFacts), (abi.dop_counters, doppler.Counters),
                             (abi.dop_compile_facts, doppler.CompileFacts), (abi.dop_program_facts, doppler.ProgramFacts),
                             (abi.dop_device_facts, doppler.Device), (abi.dop_sampling, Sampling)):
            here = {f.name for f in dataclasses.fields(kind)}
            self.assertEqual({n for n in names(struct) - here if not n.startswith("n_")}, set())

    def test_numbers_that_do_not_fit(self):
        with self.model.sequence() as sequence:
            sequence.feed([5, 6])
            for call in (lambda: sequence.rewind(1 << 32), lambda: sequence.rewind(-1), lambda: sequence.expect(-1),
                         lambda: sequence.write([7], max_tokens=(1 << 32) + 1), lambda: sequence.write([7], top_logprobs=-1),
                         lambda: sequence.write([7], top_logprobs=1 << 20), lambda: sequence.set_sampling(Sampling(top_k=-1)),
                         lambda: doppler.Model(PLAN, threads=-1), lambda: doppler.compile(MODEL, "never.plan", ctx=-1),
                         lambda: self.model.drop_checkpoint(-1), lambda: doppler.Model(1 << 31)):
                self.assertRaises(ValueError, call)
            self.assertEqual(sequence.tokens, [5, 6])
            sequence.set_sampler(lambda logits, tokens: (1 << 32) + 5)
            self.failing(Status.INPUT, "is not a token id", sequence.next)
            self.failing(Status.INPUT, "is not a token id", self.model.text.is_end, -1)

    def test_types(self):
        text, model = self.model.text, self.model
        image, shape = model, text.grammar('root ::= "a"')
        with model.sequence() as sequence:
            sequence.feed([5, 6])
            calls = {
                "encode": lambda x: text.encode(x), "encode_pair": lambda x: text.encode_pair("a", x),
                "decode": lambda x: text.decode(x), "is_end": lambda x: text.is_end(x), "prompt": lambda x: text.prompt(x or 5),
                "grammar": lambda x: text.grammar(x), "schema": lambda x: text.schema(x),
                "template": lambda x: doppler.Chat(text, template=x or 5), "of": lambda x: doppler.Chat(x, name="chatml"),
                "decoder": doppler.Decoder, "push": lambda x: text.decoder().push(x), "matcher": doppler.Matcher,
                "allows": lambda x: shape.matcher().allows(x), "messages": lambda x: doppler.Chat(text, name="chatml").render(x),
                "write": lambda x: sequence.write(x), "sampling": lambda x: sequence.write("A", sampling=x or 5),
                "shape": lambda x: sequence.write("A", shape=x or 5), "stops": lambda x: sequence.write("A", stops=[x]),
                "images": lambda x: sequence.write("A", images=[x]), "images with ids": lambda x: sequence.write([5], images=[x]),
                "chat": lambda x: sequence.answer("A", chat=x or 5), "max_tokens": lambda x: sequence.write("A", max_tokens=x),
                "feed": lambda x: sequence.feed(x), "rewind": lambda x: sequence.rewind(x), "cut": lambda x: sequence.cut(0, x),
                "restore": lambda x: sequence.restore(x), "copy_from": lambda x: sequence.copy_from(x),
                "set_sampling": lambda x: sequence.set_sampling(x), "set_sampler": lambda x: sequence.set_sampler(x or 5),
                "set_mask": lambda x: sequence.set_mask([x]), "set_adapters": lambda x: sequence.set_adapters({x: 1.0}),
                "no mapping": lambda x: sequence.set_adapters(x), "draft": lambda x: sequence.set_speculation(draft=x or 5),
                "fn": lambda x: sequence.set_speculation(fn=x or 5), "ngram": lambda x: sequence.set_speculation(ngram=x or "a"),
                "embed": lambda x: model.embed([x]), "relevance": lambda x: model.relevance(x, ["a"]),
                "run": lambda x: model.run("encode", x, {}), "load_adapter": lambda x: model.load_adapter(5),
                "unload_adapter": lambda x: model.unload_adapter(x), "step": lambda x: model.step([(x, 5, Wants.PICK)]),
                "wants": lambda x: model.wants(x), "drop_checkpoint": lambda x: model.drop_checkpoint(x),
                "Model": lambda x: doppler.Model(x if x is None else [5]), "threads": lambda x: doppler.Model(PLAN, threads=x),
                "read_plan": lambda x: doppler.read_plan(PLAN, x), "compile": lambda x: doppler.compile(MODEL, "never.plan", ctx=x),
                "quant": lambda x: doppler.compile(MODEL, "never.plan", quant=x or 5),
            }
            for name, call in calls.items():
                for wrong in (None, b"abc", ["a", "b"], ("a",)):
                    fits = {"encode": str, "prompt": bytes, "stops": bytes, "quant": bytes, "run": None}.get(name)
                    if fits is not None and isinstance(wrong, fits):
                        continue
                    if name == "set_adapters" and isinstance(wrong, list):
                        continue  # is no key
                    with self.subTest(f"{name}({wrong!r})"), self.assertRaises(TypeError) as caught:
                        call(wrong)
                    said = str(getattr(caught, "exception", ""))
                    self.assertFalse("dop_" in said or "argument " in said, said)
            self.assertEqual(sequence.tokens, [5, 6])
        self.assertRaises(TypeError, image.sequence, 5)
        self.assertFalse(os.path.exists("never.plan"))
        self.failing(Status.INPUT, "UTF-8", text.encode_pair, "a", "\ud800")
        self.failing(Status.INPUT, "", text.grammar, "\ud800")

    def test_ranges_of_sampling(self):
        for name, wrong in {"temperature": -1, "top_p": 2, "min_p": 1.5, "repeat_penalty": -0.5, "top_k": -1, "repeat_last_n": 1 << 32,
                            "penalty_from": -3}.items():
            with self.assertRaises(ValueError) as caught:
                Sampling(**{name: wrong})
            self.assertIn(str(wrong), str(caught.exception))
            self.assertRaises(ValueError, GREEDY.replace, **{name: wrong})
            self.assertRaises(TypeError, Sampling, **{name: "a"})
        self.assertRaises(ValueError, Sampling, top_p=math.inf)
        self.assertRaises(TypeError, Sampling, biases=[1])
        for name in ("mean", 99):
            self.assertRaises(ValueError, self.model.embed, ["a"], pooling=name)
            self.assertRaises(ValueError, doppler.Model, PLAN, ordering=name)

    def test_messages_name_calls_of_python(self):
        named = doppler._library._named  # pylint: disable=protected-access
        self.assertEqual(named("use `dop_program_run`, or a larger `ctx`"), "use Model.run(), or a larger `ctx`")
        self.failing(Status.USAGE, "see doppler.devices()", doppler.Model, PLAN, device="none such")
        with doppler.Model(ROOM) as model, model.sequence() as sequence:
            sequence.feed([1])
            self.failing(Status.USAGE, "Sampling(logprobs=True)", sequence.logprobs, 1)
        if not self.model.text.has_chat:
            self.failing(Status.INPUT, "doppler.Chat(text, template=...)", self.model.text.chat)

    def test_texts_that_are_none(self):
        with self.model.sequence() as sequence:
            for call in (lambda: sequence.feed(b"ROMEO:"), lambda: sequence.write(b"ROMEO:"), lambda: sequence.save("kept.bin", "a note")):
                self.assertRaises(TypeError, call)
            for call in (lambda: doppler.Model(PLAN + "\0"), lambda: sequence.save("a\0b"), lambda: sequence.write("A", stops=["a\0b"])):
                self.assertRaises(ValueError, call)
            stop = WRITTEN[len("ROMEO:") :].split()[3]
            sequence.rewind(0)
            writing = sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY, stops=stop)  # one text alone
            self.assertEqual((len("ROMEO:" + writing.read()), writing.end), (WRITTEN.index(stop), End.STOP_TEXT))
        one = self.model.embed("ROMEO:")
        self.assertEqual(one, self.model.embed(text for text in ["ROMEO:"]))
        self.assertEqual(len(one), 1)
        self.assertRaises(TypeError, copy.copy, self.model)
        error = pickle.loads(pickle.dumps(Error(Status.IO, "gone", "a.plan", 1, 2)))
        self.assertEqual((str(error), error.code), ("a.plan:1:2: gone", Status.IO))

    def test_what_was_lent_to_a_function(self):
        kept = []
        with self.model.sequence() as sequence:
            sequence.feed([5, 6])
            sequence.set_sampler(lambda logits, tokens: kept.append(logits) or 7)
            sequence.next()
            sequence.score([8], lambda first, rows: kept.append(rows))
        for view in kept:
            self.assertRaises(ValueError, view.tolist)  # it is the library's again

    def test_a_draft_model_that_is_closed_first(self):
        for close in (lambda draft, of: draft.close(), lambda draft, of: of.close()):
            other = doppler.Model(PLAN)
            draft = other.sequence()
            with self.model.sequence() as sequence:
                sequence.set_speculation(draft=draft)
                writing = sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY)
                next(writing)
                close(draft, other)
                self.assertEqual("ROMEO:" + writing.read(), WRITTEN)
            other.close()


class Interrupted(unittest.TestCase):
    """Ctrl-C: of work that takes long after a moment, and nothing is lost by it."""

    SCRIPT = """
import os, signal, sys, threading, time
import doppler
plan, source = sys.argv[1:3]

def interrupted(work):
    told = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    told.start()
    try:
        while True:
            work()
    except KeyboardInterrupt:
        told.join()
        return
try:
    interrupted(lambda: doppler.compile(source, "never.plan", target="lavapipe", ctx=64))
    interrupted(lambda: doppler.Model(plan).close())
    model = doppler.Model(plan)
    sequence = model.sequence()
    ids = model.text.encode("ROMEO: " * 12)[:60]
    def again(work):
        sequence.rewind(0)
        work()
    interrupted(lambda: again(lambda: sequence.feed(ids)))
    interrupted(lambda: again(lambda: sequence.score(ids)))
    interrupted(lambda: again(lambda: sequence.write(ids, max_tokens=3).read()))
    sequence.set_sampler(lambda logits, tokens: sum(range(300)) % 7 + 3)
    interrupted(lambda: again(lambda: sequence.write("ROMEO:", ignore_end=True).read()))
    sequence.set_sampler(None)
    sequence.rewind(0)
    print(sequence.write("ROMEO:", max_tokens=20, sampling=doppler.GREEDY).read(), end="")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler and not os.path.exists("never.plan")
except KeyboardInterrupt:
    sys.exit("twice")
"""

    def test_interrupts(self):
        ran = subprocess.run([sys.executable, "-c", self.SCRIPT, PLAN, MODEL], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual("ROMEO:" + ran.stdout, WRITTEN)


class Lives(Opened):
    def test_closing(self):
        model = doppler.Model(PLAN)
        sequence, text = model.sequence(), model.text
        shape, chat = text.grammar('root ::= "a"'), doppler.Chat(text, name="chatml")
        writing = sequence.write("A", max_tokens=5, sampling=GREEDY, shape=shape)
        model.close()
        model.close()
        for closed in (sequence, text, shape, chat, writing, model):
            self.assertTrue(closed.closed)
            closed.close()
        self.failing(Status.USAGE, "closed", lambda: sequence.tokens)
        self.failing(Status.USAGE, "closed", lambda: text.encode("A"))
        self.assertRaises(Error, next, writing)
        self.failing(Status.USAGE, "closed", model.sequence)
        model = doppler.Model(PLAN)  # nobody closes these
        loop = [model, model.sequence(), model.text.chat if model.text.has_chat else None]
        loop.append(loop)
        del model, loop
        gc.collect()

    def test_threads_share_a_model(self):
        written, errors = {}, []

        def work(name):
            try:
                for _ in range(3):
                    with self.model.sequence() as sequence:
                        written[name] = "ROMEO:" + sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY).read()
            except BaseException as error:  # pylint: disable=broad-except
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(set(written.values()), {WRITTEN})

    def test_the_interpreter_goes_on_during_a_call(self):
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        with self.model.sequence() as sequence:
            ids = self.model.text.encode("ROMEO:") * 6
            seen = []
            interval = sys.getswitchinterval()
            sys.setswitchinterval(1000)  # so that the other thread has the interpreter only while a call has let it go
            thread.start()
            try:
                for _ in range(3):
                    sequence.rewind(0)
                    before = counted[0]
                    sequence.score(ids)
                    seen.append(counted[0] - before)
            finally:
                sys.setswitchinterval(interval)
                stop.set()
                thread.join()
        self.assertGreater(max(seen), 0)

    def test_nothing_leaks(self):
        shape = self.model.text.grammar('root ::= [a-z]+')

        def round_of_everything():
            with self.model.sequence() as sequence:
                sequence.write("ROMEO:", max_tokens=2, sampling=Sampling(temperature=1, biases={5: 1.0}), stops=["x"], shape=shape).read()
                sequence.write("A", max_tokens=1)
            self.model.sequence()  # left to the collector
            text = doppler.Text(PLAN)
            text.decode(text.encode("ROMEO: " * 20))
            doppler.Chat(text, name="chatml").render("Hi " * 1000)
            doppler.read_plan(PLAN)
            self.assertRaises(Error, text.grammar, "root ::=" + " x" * 100)

        for _ in range(20):
            round_of_everything()
        before = resident()
        for _ in range(60):
            round_of_everything()
        self.assertLess(resident() - before, 4 << 20)


class Forked(Opened):
    """A child that multiprocessing forked, or os.fork: it is refused at once, also where a thread of its parent is at work."""

    def child(self, work):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = "nothing was refused"
            try:
                work()
            except Error as error:
                said = f"{error.code.name} {error}"
            except BaseException as error:  # pylint: disable=broad-except
                said = repr(error)
            os.write(write, said.encode())
            os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as pipe:
            said = pipe.read()
        os.waitpid(pid, 0)
        return said

    def test_a_forked_child(self):
        model = self.model
        with model.sequence() as sequence:
            sequence.feed([5, 6])
            writing = sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY)
            want = f"USAGE the model was opened by process {os.getpid()}, from which this one was forked: open it here, or start " \
                "processes by multiprocessing's \"spawn\""
            calls = [sequence.next, model.sequence, lambda: next(writing), lambda: model.embed(["a"]), lambda: model.counters,
                     lambda: sequence.tokens, lambda: sequence.answer("A"), sequence.fork]
            for call in calls:
                self.assertEqual(self.child(call), want)
            inside, go_on = threading.Event(), threading.Event()
            sequence.set_sampler(lambda logits, tokens: inside.set() or go_on.wait() and 7)
            thread = threading.Thread(target=sequence.next)
            thread.start()
            inside.wait()
            self.assertEqual(self.child(model.sequence), want)
            go_on.set()
            thread.join()

        def close_all():
            for thing in (writing, sequence, model):
                thing.close()
            gc.collect()
            assert model.closed

        with model.sequence() as sequence:
            self.assertEqual(self.child(close_all), "nothing was refused")
            self.assertEqual("ROMEO:" + sequence.write("ROMEO:", max_tokens=20, sampling=GREEDY).read(), WRITTEN)


class Adapters(unittest.TestCase):
    def test_adapters(self):
        with open(os.path.join(GOLDEN, "expected.json"), encoding="utf-8") as file:
            prompt = json.load(file)["prompt"]

        def furthest(rows, name):
            want = array.array("f")
            with open(os.path.join(GOLDEN, name), "rb") as file:
                want.frombytes(file.read())
            return max(abs(a - b) for a, b in zip(rows.cast("B").cast("f"), want))

        with doppler.Model(ROOM) as model, model.sequence() as sequence:
            self.assertEqual(model.adapter_room, 1)
            adapter = model.load_adapter(os.path.join(GOLDEN, "adapter"))
            self.assertEqual(model.adapters, [adapter])
            self.assertLess(furthest(sequence.score(prompt), "logits.f32"), 5e-4)
            sequence.rewind(0)
            sequence.set_adapters({adapter: 1.0})
            self.assertLess(furthest(sequence.score(prompt), "logits_adapter.f32"), 5e-4)
            with self.assertRaises(Error) as caught:
                model.unload_adapter(adapter)
            self.assertEqual(caught.exception.code, Status.USAGE)
            sequence.set_adapters({})
            model.unload_adapter(adapter)
            self.assertEqual(model.adapters, [])


class Pictures(unittest.TestCase):
    def test_pictures(self):
        with open(PICTURE, "rb") as file:
            raw = file.read()
        with doppler.Model(EYES) as model, model.sequence() as sequence:
            image = model.images.read(raw)
            width, rows = image.rows()
            self.assertEqual(rows.shape, (image.features, width))
            self.assertIn("image", model.programs)
            one = sequence.answer("What is this?", images=[image], max_tokens=4, sampling=GREEDY)
            self.assertGreater(len(one.read().strip()) + len(one.ids), 0)
            self.assertGreater(len(sequence), image.features)
            self.assertGreater(max(sequence.tokens), model.facts.vocab)  # rows of features
            sequence.rewind(0)
            again = sequence.answer([{"role": "user", "content": "What is this?"}], images=[model.images.read(raw)], max_tokens=4,
                                    sampling=GREEDY)
            again.read()
            self.assertEqual(again.ids, one.ids)
            with self.assertRaises(Error):
                model.images.read(raw[:100])
            images = model.images
        self.assertTrue(images.closed and image.closed)


class Compiling(unittest.TestCase):
    def test_compile(self):
        steps, notes = set(), []
        facts = doppler.compile(MODEL, "own.plan", ctx=64, chunks="8", target="lavapipe", quant="q8_0",
                                progress=lambda step, done, whole: steps.add(step), notes=notes.append)
        self.assertEqual((facts.target, facts.bytes, facts.n_parts), ("lavapipe", os.path.getsize("own.plan"), 1))
        self.assertEqual(steps, {"kernels", "weights"})
        self.assertEqual(doppler.read_plan("own.plan").ctx, 64)
        with self.assertRaises(Error) as caught:
            doppler.compile(MODEL, "own.plan", quant="q99")
        self.assertEqual(caught.exception.code, Status.USAGE)
        self.assertIn("q99", caught.exception.message)
        with self.assertRaises(Error) as caught:
            doppler.compile(MODEL, "none.plan", target="lavapipe", ctx=32, progress=lambda *_: False)
        self.assertEqual(caught.exception.code, Status.CANCELLED)
        self.assertFalse(os.path.exists("none.plan"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[8:])
