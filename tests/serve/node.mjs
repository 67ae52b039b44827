// The package for Node: node node.mjs PACKAGE DOPPLER-EXEC PLAN TEMPLATE   (tests/check_node.sh)
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { passed, test } from './testing.mjs';

const [folder, program, plan, template] = process.argv.slice(2);
const { Model, DopplerError } = await import(pathToFileURL(folder + '/index.js'));

let said = '';
const model = await Model.open(plan, { program, args: ['--chat-template', template], log: (text) => (said += text) });
const plain = { maxTokens: 12, temperature: 0 };
await test('a text, whole and in pieces', async () => {
  const whole = await model.read('ROMEO:', plain);
  let text = '';
  for await (const piece of model.write('ROMEO:', plain)) text += piece;
  assert.equal(text, whole.text);
  assert.deepEqual([whole.end, whole.tokens], ['length', 12]);
  const cli = execFileSync(program, [plan, '-p', 'ROMEO:', '-n', '12', '--temp', '0', '--quiet', '--no-display-prompt'], { encoding: 'utf8' });
  assert.equal(cli.trimEnd(), text.trimEnd());
});
await test('a conversation', async () => {
  const whole = await model.reply('Speak.', plain);
  let text = '';
  for await (const piece of model.answer([{ role: 'user', content: 'Speak.' }], plain)) text += piece;
  assert.equal(text, whole.message.content);
});
await test('a schema and tools', async () => {
  const schema = { type: 'object', properties: { who: { enum: ['Romeo', 'Juliet'] } }, required: ['who'], additionalProperties: false };
  const r = await model.reply('Who?', { schema, temperature: 1 });
  assert.ok(['Romeo', 'Juliet'].includes(JSON.parse(r.message.content).who));
  const tools = [{ type: 'function', function: { name: 'find', parameters: schema } }];
  const t = await model.reply('Who?', { tools, toolChoice: 'required' });
  assert.equal(t.message.tool_calls[0].function.name, 'find');
  assert.equal(t.end, 'tool_calls');
});
await test('vectors and ranks', async () => {
  const [a, b] = await model.embed(['a king', 'the sea']);
  assert.ok(a instanceof Float32Array && a.length === b.length && Math.abs(a.reduce((s, x) => s + x * x, 0) - 1) < 1e-3);
  const ranks = await model.rank('a king', ['the sea', 'a king'], { topN: 1 });
  assert.equal(ranks.length, 1);
  assert.equal(ranks[0].index, 1);
});
await test('ids and templates', async () => {
  assert.equal(await model.detokenize(await model.tokenize('What say you?')), 'What say you?');
  assert.match(await model.render('Speak.'), /Speak\./);
});
await test('a loop that is left, and a signal', async () => {
  for await (const piece of model.write('KING', { maxTokens: 400, ignoreEos: true })) if (piece) break;
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 50);
  await assert.rejects(model.read('KING', { maxTokens: 400, ignoreEos: true, signal: stop.signal }), { name: 'AbortError' });
});
await test('signals with reasons, before and meanwhile; one that lives long', async () => {
  const early = AbortSignal.abort(new Error('mine')), late = new AbortController();
  for (const asked of [model.read('a', { signal: early }), model.write('a', { signal: early }).next(), Model.open(plan, { program, signal: early })])
    await assert.rejects(asked, /^Error: mine$/);
  await assert.rejects(async () => {
    const pieces = model.write('KING', { maxTokens: 400, ignoreEos: true, signal: late.signal });
    for await (const piece of pieces) if (piece) late.abort(new Error('mine'));
  }, /^Error: mine$/);
  const other = await Model.open(plan, { program, signal: new AbortController().signal });
  await other[Symbol.asyncDispose ?? 'close']?.();
  await other.close();
});
await test('for require', async () => {
  const required = createRequire(import.meta.url)(folder);
  assert.equal(required.Model, Model);
  assert.equal(required.DopplerError, DopplerError);
});
await test('at once', async () => {
  const all = await Promise.all([1, 2, 3, 4, 5, 6].map((seed) => model.read('KING', { ...plain, temperature: 1, seed })));
  const again = await model.read('KING', { ...plain, temperature: 1, seed: 3 });
  assert.equal(again.text, all[2].text);
});
await test('what is wrong', async () => {
  await assert.rejects(model.read('a '.repeat(5000), plain), (e) => e instanceof DopplerError && e.status === 400 && e.code === 'context_length_exceeded');
  for (const odd of [{ heat: 1 }, { constructor: 1 }, { seed: 5n }]) await assert.rejects(model.read('a', odd), TypeError);
  await assert.rejects(Model.open('none.plan', { program }), (e) => e instanceof DopplerError && /none\.plan.*cannot open/.test(e.message));
  await assert.rejects(Model.open(plan, { program: './no-such-program' }), /cannot be started/);
  const r = await fetch(model.url + '/v1/models');
  assert.equal(r.status, 401); // others on this machine have no key
  assert.equal((await fetch(model.url + '/v1/models', { headers: model.headers })).status, 200);
});
await test('its end', async () => {
  await model.close();
  await model.close();
  await assert.rejects(model.read('a'), /closed/);
});
passed();
