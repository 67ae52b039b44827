// Anthropic's client against a server (tests/serve/whole.sh): node anthropic.mjs URL FOLDER-OF-node_modules [KEY]
import assert from 'node:assert/strict';
import { load, passed, test } from './testing.mjs';

const [url, folder, key] = process.argv.slice(2);
const { default: Anthropic } = await load(folder, '@anthropic-ai/sdk');
const { default: OpenAI } = await load(folder, 'openai');
const a = new Anthropic({ baseURL: url, apiKey: key ?? 'none', maxRetries: 0 });
const o = new OpenAI({ baseURL: url + '/v1', apiKey: key ?? 'none', maxRetries: 0 });
const model = 'any', messages = [{ role: 'user', content: 'Speak.' }];
const schema = { type: 'object', properties: { town: { enum: ['Verona', 'Elsinore'] } }, required: ['town'], additionalProperties: false };

await test('a message', async () => {
  const m = await a.messages.create({ model, max_tokens: 8, messages, temperature: 0 });
  assert.equal(m.type, 'message');
  assert.equal(m.stop_reason, 'max_tokens');
  assert.ok(m.content[0].text.length > 0 && m._request_id);
  const n = await a.messages.countTokens({ model, messages });
  assert.equal(n.input_tokens, m.usage.input_tokens + m.usage.cache_read_input_tokens);
  const s = a.messages.stream({ model, max_tokens: 8, messages, temperature: 0 });
  let text = '';
  s.on('text', (t) => (text += t));
  const whole = await s.finalMessage();
  assert.equal(text, m.content[0].text);
  assert.deepEqual(whole.content, m.content);
  assert.equal(whole.usage.output_tokens, 8);
});
await test('tools', async () => {
  const tools = [{ name: 'weather', description: 'of a town', input_schema: schema }];
  const talk = [...messages];
  for (let i = 0; i < 3; i++) {
    const s = a.messages.stream({ model, max_tokens: 300, messages: talk, tools, tool_choice: { type: 'any' }, temperature: 1 });
    const m = await s.finalMessage();
    assert.equal(m.stop_reason, 'tool_use');
    const call = m.content.find((b) => b.type === 'tool_use');
    assert.ok(['Verona', 'Elsinore'].includes(call.input.town), JSON.stringify(m));
    talk.push({ role: 'assistant', content: m.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'Rain.' }] });
  }
});
await test('errors have their classes', async () => {
  await assert.rejects(a.messages.create({ model, messages }), Anthropic.BadRequestError);
  await assert.rejects(a.messages.create({ model, max_tokens: 8, messages: [{ role: 'nobody', content: '' }] }), Anthropic.BadRequestError);
  if (key) await assert.rejects(new Anthropic({ baseURL: url, apiKey: 'wrong', maxRetries: 0 }).messages.create({ model, max_tokens: 8, messages }), Anthropic.AuthenticationError);
});
await test('models', async () => {
  const list = await a.models.list();
  assert.equal(list.data[0].type, 'model');
  assert.ok(list.data[0].display_name);
});
await test('a response', async () => {
  const r = await o.responses.create({ model, input: 'Speak.', max_output_tokens: 8, temperature: 0 });
  assert.ok(r.output_text.length > 0);
  assert.equal(r.incomplete_details.reason, 'max_output_tokens');
  let text = '', last = -1;
  for await (const e of await o.responses.create({ model, input: 'Speak.', max_output_tokens: 8, temperature: 0, stream: true })) {
    assert.equal(e.sequence_number, ++last);
    if (e.type === 'response.output_text.delta') text += e.delta;
  }
  assert.equal(text, r.output_text);
  const s = o.responses.stream({ model, input: 'Speak.', max_output_tokens: 8, temperature: 0 });
  assert.equal((await s.finalResponse()).output_text, r.output_text);
});
await test('functions and structured output', async () => {
  const tools = [{ type: 'function', name: 'weather', parameters: schema, strict: true }];
  const input = [{ role: 'user', content: 'Speak.' }];
  for (let i = 0; i < 3; i++) {
    const r = await o.responses.stream({ model, input, tools, tool_choice: 'required', temperature: 1 }).finalResponse();
    const call = r.output.find((item) => item.type === 'function_call');
    assert.ok(['Verona', 'Elsinore'].includes(JSON.parse(call.arguments).town), JSON.stringify(r));
    input.push(...r.output, { type: 'function_call_output', call_id: call.call_id, output: 'Rain.' });
  }
  const r = await o.responses.parse({ model, input: 'Speak.', text: { format: { type: 'json_schema', name: 'town', schema, strict: true } }, temperature: 1 });
  assert.ok(['Verona', 'Elsinore'].includes(r.output_parsed.town));
  await assert.rejects(o.responses.create({ model, input: [] }), OpenAI.BadRequestError);
});
passed();
