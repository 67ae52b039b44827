// The official client against a server:   node openai.mjs URL FOLDER-OF-node_modules   (tests/golden/serve.sh whole)
import assert from 'node:assert/strict';
import { load, passed, test } from './testing.mjs';

const [url, modules] = process.argv.slice(2);
const { default: OpenAI } = await load(modules, 'openai');
const { default: Ajv } = await load(modules, 'ajv');
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'secret-1', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Speak.' }];

const models = await client.models.list();
const model = models.data[0].id;

await test('chat', async () => {
  const r = await client.chat.completions.create({ model, messages, max_tokens: 8 });
  assert.equal(r.object, 'chat.completion');
  assert.equal(r.choices[0].message.role, 'assistant');
  assert.equal(r.choices[0].finish_reason, 'length');
  assert.equal(r.usage.completion_tokens, 8);
  assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + 8);
});
await test('streaming is the same text', async () => {
  const ask = { model, messages, max_tokens: 24, seed: 5, temperature: 1 };
  const whole = await client.chat.completions.create(ask);
  const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
  let text = '', usage = null, reason = null, role = null;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    const choice = chunk.choices[0];
    role = choice?.delta.role ?? role;
    text += choice?.delta.content ?? '';
    reason = choice?.finish_reason ?? reason;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(role, 'assistant');
  assert.equal(reason, 'length');
  assert.equal(usage.completion_tokens, 24);
});
await test('a stream that is left', async () => {
  // The limit is more than the context has, as clients send it.
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 1e6, stream: true, ignore_eos: true });
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) break;
  }
});
await test('n, stop, seed', async () => {
  const r = await client.chat.completions.create({ model, messages, max_tokens: 40, n: 3, stop: [' '], seed: 1, temperature: 1 });
  assert.equal(r.choices.length, 3);
  for (const c of r.choices) assert.ok(!c.message.content.includes(' '));
  const again = await client.chat.completions.create({ model, messages, max_tokens: 40, n: 3, stop: [' '], seed: 1, temperature: 1 });
  assert.deepEqual(again.choices.map((c) => c.message.content), r.choices.map((c) => c.message.content));
});
await test('logprobs', async () => {
  const r = await client.chat.completions.create({ model, messages, max_tokens: 5, logprobs: true, top_logprobs: 4, temperature: 0 });
  const list = r.choices[0].logprobs.content;
  assert.equal(list.length, 5);
  for (const t of list) {
    assert.ok(t.logprob <= 0 && t.top_logprobs.length === 4 && t.top_logprobs[0].logprob >= t.logprob);
    assert.equal(t.top_logprobs[0].token, t.token); // greedy
    assert.equal(new TextDecoder().decode(new Uint8Array(t.bytes)), t.token);
  }
  assert.equal(list.map((t) => t.token).join(''), r.choices[0].message.content);
});
await test('completions', async () => {
  const r = await client.completions.create({ model, prompt: ['ROMEO:', 'KING:'], max_tokens: 6, logprobs: 2 });
  assert.equal(r.choices.length, 2);
  assert.equal(r.choices[1].index, 1);
  assert.equal(r.choices[0].logprobs.tokens.length, 6);
  assert.equal(Object.keys(r.choices[0].logprobs.top_logprobs[0]).length, 2);
});
await test('JSON schema', async () => {
  const schema = {
    type: 'object',
    properties: {
      who: { type: 'string', maxLength: 12 }, years: { type: 'integer', minimum: 1, maximum: 120 },
      tags: { type: 'array', items: { enum: ['king', 'queen', 'fool'] }, maxItems: 3 },
    },
    required: ['who', 'years', 'tags'], additionalProperties: false,
  };
  const valid = new Ajv().compile(schema);
  for (let seed = 0; seed < 20; seed++) {
    const r = await client.chat.completions.create({
      model, messages, seed, temperature: 1, response_format: { type: 'json_schema', json_schema: { name: 'p', strict: true, schema } },
    });
    assert.equal(r.choices[0].finish_reason, 'stop');
    assert.ok(valid(JSON.parse(r.choices[0].message.content)), r.choices[0].message.content);
  }
});
const tools = [{
  type: 'function',
  function: {
    name: 'weather', description: 'of a town',
    parameters: { type: 'object', properties: { town: { enum: ['Verona', 'Elsinore'] }, days: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['town'] },
  },
}];
await test('tools', async () => {
  const r = await client.chat.completions.create({ model, messages, tools, tool_choice: 'required', temperature: 1 });
  const call = r.choices[0].message.tool_calls[0];
  assert.equal(r.choices[0].finish_reason, 'tool_calls');
  assert.equal(call.function.name, 'weather');
  assert.ok(['Verona', 'Elsinore'].includes(JSON.parse(call.function.arguments).town));
  const next = await client.chat.completions.create({
    model, tools, max_tokens: 4, tool_choice: 'none',
    messages: [...messages, r.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'rain' }],
  });
  assert.equal(typeof next.choices[0].message.content, 'string');
});
await test('tools in a stream', async () => {
  const stream = client.chat.completions.stream({ model, messages, tools, tool_choice: { type: 'function', function: { name: 'weather' } } });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.name, 'weather');
});
await test('embeddings', async () => {
  const r = await client.embeddings.create({ model, input: ['a king', 'a king', 'the sea'] });
  const dot = (a, b) => a.reduce((s, x, i) => s + x * b[i], 0);
  const [a, b, c] = r.data.map((d) => d.embedding);
  assert.ok(Math.abs(dot(a, a) - 1) < 1e-3 && Math.abs(dot(a, b) - 1) < 1e-3 && dot(a, c) < 0.9999);
  const floats = await client.embeddings.create({ model, input: 'a king', encoding_format: 'float' });
  assert.ok(Math.abs(dot(floats.data[0].embedding, a) - 1) < 1e-3);
});
await test('errors', async () => {
  const wrong = new OpenAI({ baseURL: url + '/v1', apiKey: 'no', maxRetries: 0 });
  await assert.rejects(wrong.models.list(), (e) => e instanceof OpenAI.AuthenticationError && e.code === 'invalid_api_key');
  await assert.rejects(client.models.retrieve('gpt'), (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found');
  await assert.rejects(client.chat.completions.create({ model, messages: [] }), (e) => e instanceof OpenAI.BadRequestError && e.param === 'messages');
  await assert.rejects(client.completions.create({ model, prompt: 'a '.repeat(5000), max_tokens: 4 }),
    (e) => e instanceof OpenAI.BadRequestError && e.code === 'context_length_exceeded');
});
passed();
