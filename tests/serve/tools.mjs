// Other people's clients call tools over three rounds:   node tools.mjs forms FOLDER   writes templates of many forms of calls;
// node tools.mjs URL FOLDER-OF-node_modules   uses a server that has one of them (tests/serve/whole.sh).
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { load, passed, test } from './testing.mjs';

const each = (pair, between = '') => `{% for k, v in f.arguments | items %}${pair}{% if not loop.last %}${between}{% endif %}{% endfor %}`;
const text = '{{ v if v is string else v | tojson }}';
const object = (args) => `{{ {'name': f.name, '${args}': f.arguments} | tojson }}`;
// [open, call, between, close]
const forms = {
  hermes: ['', `<tool_call>\n${object('arguments')}\n</tool_call>`, '\n', ''],
  llama3: ['', object('parameters'), '; ', ''],
  mistral: ['[TOOL_CALLS][', `{{ {'name': f.name, 'arguments': f.arguments, 'id': c.id} | tojson }}`, ', ', ']'],
  mistral_args: ['', '[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}', '', ''],
  mistral_ids: ['', '[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}', '', ''],
  nemotron: ['<TOOLCALL>[', object('arguments'), ', ', ']</TOOLCALL>'],
  command: ['<|START_ACTION|>[\n', `{"tool_call_id": "{{ loop.index0 }}", "tool_name": {{ f.name | tojson }}, "parameters": {{ f.arguments | tojson }}}`,
    ',\n', '\n]<|END_ACTION|>'],
  apertus: ['<|tools_prefix|>[', '{{ {f.name: f.arguments} | tojson }}', ', ', ']<|tools_suffix|>'],
  deepseek: ['<calls>', '<call>function<sep>{{ f.name }}\n```json\n{{ f.arguments | tojson }}\n```</call>', '\n', '</calls>'],
  kimi: ['<|calls|>', '<|call|>functions.{{ f.name }}:{{ loop.index0 }}<|args|>{{ f.arguments | tojson }}<|end|>', '', '<|/calls|>'],
  functionary: ['', '<function={{ f.name }}>{{ f.arguments | tojson }}</function>', '', ''],
  qwen_coder: ['', `<tool_call>\n<function={{ f.name }}>\n${each(`<parameter={{ k }}>\n${text}\n</parameter>\n`)}</function>\n</tool_call>`, '\n', ''],
  minimax: ['<m:tool_call>\n', `<invoke name="{{ f.name }}">\n${each(`<parameter name="{{ k }}">${text}</parameter>\n`)}</invoke>\n`, '', '</m:tool_call>'],
  dsml: ['<|calls>\n', `<|invoke name="{{ f.name }}">\n${each(`<|parameter name="{{ k }}" string="{{ 'true' if v is string else 'false' }}">${text}</|parameter>\n`)}</|invoke>`,
    '\n', '\n</|calls>'],
  glm: ['', `<tool_call>{{ f.name }}\n${each(`<arg_key>{{ k }}</arg_key>\n<arg_value>${text}</arg_value>\n`)}</tool_call>`, '\n', ''],
  pythonic: ['[', `{{ f.name }}(${each('{{ k }}={{ v | tojson }}', ', ')})`, ', ', ']'],
  gemma4: ['', `<|tool_call>call:{{ f.name }}{{ '{' }}${each(`{{ k }}:{% if v is string %}<|"|>{{ v }}<|"|>{% else %}{{ v | tojson }}{% endif %}`, ',')}}<tool_call|>`, '', ''],
};
const template = ([open, call, between, close]) =>
  `{% for t in tools or [] %}{{ t.function.name }}\n{% endfor %}{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content or '' }}` +
  `{% for c in m.tool_calls or [] %}{% if loop.first %}${open}{% else %}${between}{% endif %}{% set f = c.function %}${call}` +
  `{% if loop.last %}${close}{% endif %}{% endfor %}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;

const [what, folder] = process.argv.slice(2);
if (what === 'forms') {
  for (const [name, form] of Object.entries(forms)) fs.writeFileSync(path.join(folder, name + '.jinja'), template(form));
  process.exit(0);
}

const url = what;
const { default: OpenAI } = await load(folder, 'openai');
const { generateText, streamText, tool, stepCountIs } = await load(folder, 'ai');
const { createOpenAICompatible } = await load(folder, '@ai-sdk/openai-compatible');
const { ChatOpenAI } = await load(folder, '@langchain/openai');
const { tool: chainTool } = await load(folder, '@langchain/core/tools');
const { HumanMessage, ToolMessage } = await load(folder, '@langchain/core/messages');
const { z } = await load(folder, 'zod');

const schema = z.object({ town: z.enum(['Verona', 'Elsinore']), days: z.int().min(1).max(9), note: z.enum(['5', 'true']).optional() });
const check = (args) => schema.parse(args); // "5" and "true" stay strings
const apiKey = 'secret-1', rounds = 3;

const parameters = z.toJSONSchema(schema);
const tools = [{ type: 'function', function: { name: 'weather', description: 'of a town', parameters } }];

for (const stream of [false, true])
  await test(`openai, stream ${stream}`, async () => {
    const client = new OpenAI({ baseURL: url + '/v1', apiKey, maxRetries: 0 });
    const messages = [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: 'Speak.' }];
    const ids = new Set();
    for (let i = 0; i < rounds; i++) {
      const ask = { model: 'x', messages, tools, tool_choice: 'required', temperature: 1, seed: i };
      const answer = stream ? await client.chat.completions.stream(ask).finalChatCompletion() : await client.chat.completions.create(ask);
      const { message, finish_reason } = answer.choices[0];
      assert.equal(finish_reason, 'tool_calls');
      assert.equal(message.tool_calls.length, 1);
      assert.equal(message.tool_calls[0].function.name, 'weather');
      check(JSON.parse(message.tool_calls[0].function.arguments));
      ids.add(message.tool_calls[0].id);
      messages.push(message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: [{ type: 'text', text: 'rain' }] });
    }
    assert.equal(ids.size, rounds);
    const last = await client.chat.completions.create({ model: 'x', messages, tools, max_tokens: 4 });
    assert.equal(last.choices.length, 1);
  });

const provider = createOpenAICompatible({ name: 'x', baseURL: url + '/v1', apiKey });
for (const stream of [false, true])
  await test(`ai, stream ${stream}`, async () => {
    let called = 0;
    const ask = {
      model: provider('x'), prompt: 'Speak.', temperature: 1, maxRetries: 0, toolChoice: 'required', stopWhen: stepCountIs(rounds),
      tools: { weather: tool({ description: 'of a town', inputSchema: schema, execute: async (args) => (check(args), called++, 'rain') }) },
    };
    const steps = stream ? await streamText(ask).steps : (await generateText(ask)).steps;
    assert.equal(steps.length, rounds);
    assert.equal(called, rounds);
    for (const step of steps) assert.equal(step.finishReason, 'tool-calls');
  });

await test('langchain', async () => {
  const weather = chainTool(async (args) => (check(args), 'rain'), { name: 'weather', description: 'of a town', schema });
  const model = new ChatOpenAI({ model: 'x', apiKey, temperature: 1, maxRetries: 0, configuration: { baseURL: url + '/v1' } })
    .bindTools([weather], { tool_choice: 'any' });
  const messages = [new HumanMessage('Speak.')];
  for (let i = 0; i < rounds; i++) {
    const answer = await model.invoke(messages);
    assert.equal(answer.tool_calls.length, 1);
    check(answer.tool_calls[0].args);
    const result = await weather.invoke(answer.tool_calls[0]);
    messages.push(answer, result instanceof ToolMessage ? result : new ToolMessage({ content: 'rain', tool_call_id: answer.tool_calls[0].id }));
  }
});
passed();
