// Markdown of the chat page without a browser:   node markdown.mjs ASSETS   (tests/errors/markdown.sh)
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import vm from 'node:vm';

// A document that holds what is built, and writes it as a browser would.
const escape = (s) => String(s).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
class Element {
  constructor(tag) { this.tag = tag; this.kids = []; this.attributes = {}; }
  append(...kids) { this.kids.push(...kids); }
  setAttribute(name, value) { this.attributes[name] = value; }
  set className(value) { this.attributes.class = value; }
  set textContent(value) { this.kids = [{ text: value }]; }
  toString() {
    const attributes = Object.entries(this.attributes).filter(([n]) => n !== 'target').map(([n, v]) => ` ${n}="${escape(v)}"`).join('');
    return `<${this.tag}${attributes}>${this.kids.map((k) => (k instanceof Element ? String(k) : escape(k.text))).join('')}` +
      (this.tag === 'br' || this.tag === 'hr' ? '' : `</${this.tag}>`);
  }
}
const made = [];
const doc = {
  createElement: (tag) => { const e = new Element(tag); made.push(e); return e; },
  createTextNode: (text) => ({ text }),
};
const page = vm.createContext({ doc });
vm.runInContext(readFileSync(process.argv[2] + '/chat_markdown.js', 'utf8') + `
  this.html = (text) => markdown(text).map((n) => String(build(n, doc))).join('\\n'); this.markdown = markdown;`, page);
const rel = ' rel="noopener noreferrer nofollow"';
let count = 0;
const is = (text, html) => { assert.equal(page.html(text), html); count++; };

is('a *b* **c** ***d*** ~~e~~ `f*g*`', '<p>a <em>b</em> <strong>c</strong> <strong><em>d</em></strong> <del>e</del> <code>f*g*</code></p>');
is('snake_case_word and 2 * 3 * 4 **open', '<p>snake_case_word and 2 * 3 * 4 **open</p>');
is('``a`b`` ` c', '<p><code>a`b</code> ` c</p>');
is('\\*no\\* \\<b>', '<p>*no* &lt;b&gt;</p>');
is('# One #\n### Three\n#no', '<h1>One</h1>\n<h3>Three</h3>\n<p>#no</p>');
is('one\ntwo\n\nthree', '<p>one<br>two</p>\n<p>three</p>');
is('- a\n- b\n  - c\n\n3. d\n4. e', '<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>\n<ol start="3"><li>d</li><li>e</li></ol>');
is('1. a\n\n   b\n2. c', '<ol><li>a<p>b</p></li><li>c</li></ol>');
is('- ```\n  x\n  ```\n- y', '<ul><li><pre><code>x</code></pre></li><li>y</li></ul>');
is('> a\n> - b\n\nc', '<blockquote><p>a</p><ul><li>b</li></ul></blockquote>\n<p>c</p>');
is('```c\nint a = 1 < 2;\n\n**b**\n```\nd', '<pre><code>int a = 1 &lt; 2;\n\n**b**</code></pre>\n<p>d</p>');
is('~~~\nunclosed\n```', '<pre><code>unclosed\n```</code></pre>');
is('---\n***\n- - -', '<hr>\n<hr>\n<hr>');
is('|a|b|\n|:-:|--:|\n|`x|y`|1|\n|z|\n\nend', '<table><thead><tr><th class="center">a</th><th class="right">b</th></tr></thead><tbody>' +
  '<tr><td class="center"><code>x|y</code></td><td class="right">1</td></tr><tr><td class="center">z</td><td class="right"></td></tr></tbody></table>\n<p>end</p>');
is('a | b\nno table', '<p>a | b<br>no table</p>');
is('[a *b*](https://c.d/e_(f) "t") <https://g.h> https://i.j/k?l=1&m=2.', `<p><a href="https://c.d/e_(f)"${rel}>a <em>b</em></a> ` +
  `<a href="https://g.h"${rel}>https://g.h</a> <a href="https://i.j/k?l=1&amp;m=2"${rel}>https://i.j/k?l=1&amp;m=2</a>.</p>`);
is('![p](https://a.b/c.png) [m](mailto:x@y.z)', `<p><a href="https://a.b/c.png"${rel}>p</a> <a href="mailto:x@y.z"${rel}>m</a></p>`);
is('[a [b](https://c.d) e](https://f.g)', `<p>[a <a href="https://c.d"${rel}>b</a> e](<a href="https://f.g"${rel}>https://f.g</a>)</p>`);
is('', '');

// Hostile: addresses that run something, tags, attributes.
for (const address of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', ' javascript:alert(1)', 'java\tscript:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd',
  '//evil.example', '/local', 'https:evil', 'http:\\\\evil', 'https://\u0000x', 'blob:https://x/y', 'javascript&colon;alert(1)', 'mailto:/x', 'https://a\u2028b']) {
  for (const text of [`[a](${address})`, `[a](<${address}>)`, `<${address}>`, `![a](${address})`]) {
    made.length = 0;
    page.html(text);
    for (const e of made.filter((x) => x.tag === 'a')) assert.ok(/^(https?:\/\/[a-z]|mailto:x)/.test(e.attributes.href) && !/[\u0000- \u2028]/.test(e.attributes.href), text);
    count++;
  }
}
is('<script>alert(1)</script><img src=x onerror=alert(1)>', '<p>&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</p>');
is('[x](https://a.b/"onclick="alert(1))', `<p><a href="https://a.b/&quot;onclick=&quot;alert(1)"${rel}>x</a></p>`);
is('```"><script>\nx\n```', '<pre><code>x</code></pre>');

// Any text: only these tags, only these attributes, and time that grows as the text does.
const tags = new Set(['p', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'pre', 'code', 'hr', 'br', 'a', 'strong', 'em', 'del', 'table', 'thead', 'tbody', 'tr', 'th', 'td']);
const pieces = ['*', '**', '_', '`', '```', '\n', '\n\n', '[', ']', '](', ')', '(https://a.b)', '<', '>', '> ', '- ', '1. ', '  ', '    ', '|', '|-|-|', '#', '# ', '~~', '\\', '!', 'a', 'b c', 'javascript:', 'https://', '\t', '\u00e9', '\ud83d', '\0', 'Z'];
let seed = 1;
const random = (n) => { seed = (Math.imul(seed, 1103515245) + 12345) >>> 0; return (seed >>> 8) % n; };
for (let i = 0; i < 4000; i++) {
  const text = Array.from({ length: 1 + random(40) }, () => pieces[random(pieces.length)]).join('');
  made.length = 0;
  page.html(text);
  for (const e of made) {
    assert.ok(tags.has(e.tag), e.tag);
    for (const n of Object.keys(e.attributes)) assert.ok(['href', 'rel', 'target', 'start', 'class'].includes(n), n);
  }
}
count += 4000;
const long = {
  stars: '*a'.repeat(50000), brackets: '['.repeat(100000), targets: '[]('.repeat(33000), ticks: Array.from({ length: 400 }, (_, i) => '`'.repeat(i)).join(' '),
  heading: '#' + ' '.repeat(100000) + 'x', blanks: 'a' + ' '.repeat(100000) + 'x\ny', quotes: '>'.repeat(100000), items: '- '.repeat(50000), addresses: ('http://' + '.'.repeat(2000) + 'x ').repeat(50),
  bars: '|'.repeat(100000) + '\n' + '|-'.repeat(900), list: '- a\n'.repeat(20000), code: '` ' + 'x'.repeat(100000) + '`', rule: '-' + ' '.repeat(100000) + 'x', mixed: '**[`_~~'.repeat(14000),
  nested: Array.from({ length: 2000 }, (_, i) => ' '.repeat((2 * i) % 400) + '- x').join('\n'),
};
for (const [name, text] of Object.entries(long)) {
  const begin = process.cpuUsage();
  page.markdown(text);
  const used = process.cpuUsage(begin);
  assert.ok((used.user + used.system) / 1e6 < 3, `${name}: ${(used.user + used.system) / 1e6} s`);
  count++;
}
console.log(count + ' texts passed');
