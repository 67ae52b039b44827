// Cohere's client and langchain's reranker over it:   node rerank.mjs URL FOLDER-OF-node_modules   (tests/serve/whole.sh)
import assert from 'node:assert/strict';
import { load } from './testing.mjs';

const [url, modules] = process.argv.slice(2);
const { CohereClient, CohereClientV2 } = await load(modules, 'cohere-ai');
const { CohereRerank } = await load(modules, '@langchain/cohere');
const { Document } = await load(modules, '@langchain/core/documents');
const query = 'the king', texts = ['a ship upon the sea', 'the king', 'my lord'];
const at = { token: 'secret-1', environment: url };

const one = await new CohereClient(at).rerank({ query, documents: texts.map((text) => ({ text })), topN: 2, returnDocuments: true });
assert.equal(one.results.length, 2);
assert.equal(one.results[0].index, 1);
assert.equal(one.results[0].document.text, 'the king');
assert.ok(one.results[0].relevanceScore >= one.results[1].relevanceScore);
const two = await new CohereClientV2(at).rerank({ model: 'any', query, documents: texts });
assert.deepEqual(two.results.map((r) => r.index).sort(), [0, 1, 2]);
assert.equal(two.results[0].index, 1);
const ranker = new CohereRerank({ client: new CohereClient(at), model: 'any', topN: 2 });
const documents = texts.map((pageContent, id) => new Document({ pageContent, metadata: { id } }));
const ranked = await ranker.compressDocuments(documents, query);
assert.deepEqual([ranked.length, ranked[0].pageContent, ranked[0].metadata.id], [2, 'the king', 1]);
assert.ok(ranked[0].metadata.relevanceScore > 0.9);
await assert.rejects(new CohereClient({ ...at, maxRetries: 0 }).rerank({ query, documents: [] }, { maxRetries: 0 }), { statusCode: 400 });
console.log('the rerankers agree');
