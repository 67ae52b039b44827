// Parses Markdown (a subset of CommonMark, and GitHub's tables) into a tree of {tag, kids, text, href, ...}, and builds elements from it.
// Input is never parsed as HTML: texts become text nodes, and only tags named in this file are created.
const marks = { '**': 'strong', '__': 'strong', '*': 'em', '_': 'em', '~~': 'del' };
const deepest = 16; // maximum nesting of blocks; inline marks may nest twice as deep
const word = /[\p{L}\p{N}]/u;

// Returns the address if it is safe to open by a click, otherwise null.
function safeAddress(text) {
  return text.length <= 2048 && !/[\u0000-\u0020\u007f-\u00a0\u2028\u2029\\]/.test(text) && /^(https?:\/\/[^/]|mailto:[^/])/i.test(text) ? text : null;
}

// Returns the position of the next run of exactly n backticks, from `from` on; -1: none. `none` caches the lengths that were not found.
function closingTicks(s, from, n, none) {
  if (none.has(n)) return -1;
  for (let i = s.indexOf('`', from); i >= 0;) {
    let end = i;
    while (s[end] === '`') end++;
    if (end - i === n) return i;
    i = s.indexOf('`', end);
  }
  none.add(n);
  return -1;
}

// A regular expression with + before $ would take quadratic time on malicious input.
function trimEnd(s, letters) {
  let n = s.length;
  while (n > 0 && letters.includes(s[n - 1])) n--;
  return s.slice(0, n);
}

function inline(s) {
  const root = { kids: [] };
  const stack = [root]; // open marks, innermost last
  const none = new Set();
  let plain = '';
  const top = () => stack[stack.length - 1];
  const flush = () => { if (plain) top().kids.push({ text: plain }); plain = ''; };
  const give = () => { // turns an unmatched mark and its content into plain content
    flush();
    const frame = stack.pop();
    top().kids.push({ text: frame.mark }, ...frame.kids);
  };
  const opened = (mark) => {
    for (let i = stack.length - 1; i > 0; i--) if (stack[i].name === mark) return i;
    return 0;
  };
  for (let i = 0; i < s.length;) {
    const c = s[i];
    if (c === '\\' && /[!-/:-@[-`{-~]/.test(s[i + 1] || '')) {
      plain += s[i + 1];
      i += 2;
    } else if (c === '\n') {
      plain = trimEnd(plain, ' \\');
      flush();
      top().kids.push({ tag: 'br' });
      i++;
      while (s[i] === ' ') i++;
    } else if (c === '`') {
      let n = 1;
      while (s[i + n] === '`') n++;
      const end = closingTicks(s, i + n, n, none);
      if (end < 0) {
        plain += '`'.repeat(n);
        i += n;
      } else {
        flush();
        const code = s.slice(i + n, end).replace(/\n/g, ' ');
        top().kids.push({ tag: 'code', kids: [{ text: code[0] === ' ' && code.endsWith(' ') && code.trim() ? code.slice(1, -1) : code }] });
        i = end + n;
      }
    } else if (c === '<' || (c === 'h' && !word.test(s[i - 1] || ''))) {
      const found = (c === '<' ? /^<([a-z]{4,6}:[^\s<>]{1,2048})>/i : /^(https?:\/\/[^\s<>"'`*|]{1,2048})/i).exec(s.slice(i, i + 2060));
      let address = found ? found[1] : '';
      if (c === 'h') address = trimEnd(address, '.,:;!?])}_~');
      if (found && safeAddress(address)) {
        flush();
        top().kids.push({ tag: 'a', href: address, kids: [{ text: address }] });
        i += c === '<' ? found[0].length : address.length;
      } else {
        plain += c;
        i++;
      }
    } else if (c === '[' || (c === '!' && s[i + 1] === '[')) {
      flush();
      const mark = c === '!' ? '![' : '[';
      if (stack.length < 2 * deepest) stack.push({ mark, name: mark, kids: [] });
      else plain += mark;
      i += mark.length;
    } else if (c === ']') {
      const at = Math.max(opened('['), opened('!['));
      const target = at ? /^\]\(\s{0,9}<?([^\s<>()]{1,1024}(?:\([^\s<>()]{0,256}\)[^\s<>()]{0,256})?)>?(?:\s{1,9}(?:"[^"]{0,256}"|'[^']{0,256}'))?\s{0,9}\)/.exec(s.slice(i, i + 2400)) : null;
      const address = target && safeAddress(target[1]);
      if (at) while (stack.length - 1 > at) give();
      if (at && address) {
        flush();
        const frame = stack.pop();
        top().kids.push({ tag: 'a', href: address, kids: frame.kids.length ? frame.kids : [{ text: address }] });
        for (let k = 1; k < stack.length; k++) if (stack[k].name === '[') stack[k].name = ''; // links must not contain links
        i += target[0].length;
      } else {
        if (at) give();
        plain += ']';
        i++;
      }
    } else if (c === '*' || c === '_' || (c === '~' && s[i + 1] === '~')) {
      const single = s[i + 1] !== c || (c !== '~' && top().name === c && s[i + 2] === c); // three marks in a row: the inner one first
      const mark = single ? c : c + c;
      const before = s[i - 1] || ' ', after = s[i + mark.length] || ' ';
      const at = opened(mark);
      if (at && /\S/.test(before) && (c !== '_' || !word.test(after))) {
        while (stack.length - 1 > at) give();
        flush();
        const frame = stack.pop();
        top().kids.push({ tag: marks[mark], kids: frame.kids });
      } else if (!at && /\S/.test(after) && (c !== '_' || !word.test(before)) && stack.length < 2 * deepest) {
        flush();
        stack.push({ mark, name: mark, kids: [] });
      } else {
        plain += mark;
      }
      i += mark.length;
    } else {
      let end = i + 1;
      while (end < s.length && !/[\\\n`<h[\]!*_~]/.test(s[end])) end++;
      plain += s.slice(i, end);
      i = end;
    }
  }
  while (stack.length > 1) give();
  flush();
  return root.kids;
}

const item = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const fence = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const rule = /^ {0,3}([-*_])( *\1){2,} *$/;

function cells(line) {
  const out = [''];
  let code = false;
  const s = line.trim().replace(/^\|/, '').replace(/([^\\])\|$/, '$1');
  for (let i = 0; i < s.length; i++) {
    if (s[i] === '\\' && s[i + 1] === '|') { out[out.length - 1] += '|'; i++; continue; }
    if (s[i] === '`') code = !code;
    if (s[i] === '|' && !code) out.push('');
    else out[out.length - 1] += s[i];
  }
  return out.map((x) => x.trim()).slice(0, 64);
}
function isRuler(line) {
  return line !== undefined && line.length < 2000 && line.includes('-') && line.includes('|') &&
    line.trim().replace(/^\||\|$/g, '').split('|').every((x) => /^ *:?-+:? *$/.test(x));
}
function startsBlock(line) {
  return /^ {0,3}(#{1,6}( |$)|>)/.test(line) || fence.test(line) || rule.test(line) || item.test(line);
}

function blocks(lines, depth) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    let m;
    if (!line.trim()) {
      i++;
    } else if ((m = fence.exec(line))) {
      const [, indent, ticks, info] = m;
      const code = [];
      const close = new RegExp('^ {0,3}' + ticks[0] + '{' + ticks.length + ',} *$');
      for (i++; i < lines.length && !close.test(lines[i]); i++) code.push(lines[i].replace(new RegExp('^ {0,' + indent.length + '}'), ''));
      i++;
      out.push({ tag: 'pre', language: info.trim().split(/\s/)[0].slice(0, 40), text: code.join('\n') });
    } else if ((m = /^ {0,3}(#{1,6})(?= |$)(.*)$/.exec(line))) {
      out.push({ tag: 'h' + m[1].length, kids: inline(trimEnd(m[2].trim(), '#').trim()) });
      i++;
    } else if (rule.test(line)) {
      out.push({ tag: 'hr' });
      i++;
    } else if (/^ {0,3}>/.test(line) && depth < deepest) {
      const inner = [];
      for (; i < lines.length && lines[i].trim() && (/^ {0,3}>/.test(lines[i]) || !startsBlock(lines[i])); i++) inner.push(lines[i].replace(/^ {0,3}> ?/, ''));
      out.push({ tag: 'blockquote', kids: blocks(inner, depth + 1) });
    } else if ((m = item.exec(line)) && depth < deepest) {
      const kind = m[2].slice(-1), ordered = m[2].length > 1;
      const list = { tag: ordered ? 'ol' : 'ul', kids: [] };
      if (ordered && parseInt(m[2], 10) !== 1) list.start = parseInt(m[2], 10);
      while (i < lines.length && (m = item.exec(lines[i])) && m[2].slice(-1) === kind && !rule.test(lines[i])) {
        const width = m[1].length + m[2].length + Math.min(Math.max(m[3].length, 1), 4);
        const inner = [lines[i].slice(width)];
        for (i++; i < lines.length; i++) {
          const indent = lines[i].search(/\S/);
          if (indent < 0) inner.push('');
          else if (indent >= width || (indent >= 2 && indent > m[1].length)) inner.push(lines[i].slice(Math.min(indent, width)));
          else if (inner[inner.length - 1].trim() && !startsBlock(lines[i])) inner.push(lines[i]);
          else break;
        }
        const kids = blocks(inner, depth + 1);
        list.kids.push({ tag: 'li', kids: kids.length === 1 && kids[0].tag === 'p' ? kids[0].kids
          : kids.length && kids[0].tag === 'p' ? [...kids[0].kids, ...kids.slice(1)] : kids });
      }
      out.push(list);
    } else if (line.includes('|') && isRuler(lines[i + 1]) && cells(line).length === cells(lines[i + 1]).length) {
      const align = cells(lines[i + 1]).map((x) => (/^:-+:$/.test(x) ? 'center' : /-:$/.test(x) ? 'right' : ''));
      const row = (text, tag) => {
        const c = cells(text);
        return { tag: 'tr', kids: align.map((a, k) => ({ tag, align: a, kids: inline(c[k] || '') })) };
      };
      const table = { tag: 'table', kids: [{ tag: 'thead', kids: [row(line, 'th')] }, { tag: 'tbody', kids: [] }] };
      for (i += 2; i < lines.length && lines[i].includes('|'); i++) table.kids[1].kids.push(row(lines[i], 'td'));
      out.push(table);
    } else {
      const text = [line.trim()];
      for (i++; i < lines.length && lines[i].trim() && !startsBlock(lines[i]) && !(lines[i].includes('|') && isRuler(lines[i + 1])); i++) text.push(lines[i].replace(/^ +/, ''));
      out.push({ tag: 'p', kids: inline(text.join('\n')) });
    }
  }
  return out;
}

function markdown(text) {
  return blocks(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n'), 0);
}

// Builds the element of a node. decorate(element, node), if given, wraps code blocks.
function build(node, doc, decorate) {
  if (node.tag === undefined) return doc.createTextNode(node.text);
  const element = doc.createElement(node.tag);
  if (node.tag === 'pre') {
    const code = doc.createElement('code');
    code.textContent = node.text;
    element.append(code);
    return decorate ? decorate(element, node) : element;
  }
  if (node.tag === 'a' && safeAddress(node.href)) {
    element.setAttribute('href', node.href);
    element.setAttribute('rel', 'noopener noreferrer nofollow');
    element.setAttribute('target', '_blank');
  }
  if (node.start !== undefined) element.setAttribute('start', String(node.start));
  if (node.align) element.className = node.align;
  for (const kid of node.kids || []) element.append(build(kid, doc, decorate));
  return element;
}
