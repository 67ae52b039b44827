"""Places of the product's sources that tests/mutants.sh changes, and the changed texts."""
import hashlib
import os
import re

TOKEN = re.compile(r'''(?P<space>\s+)|(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>'(?:\\.|[^'\\\n])+')
    |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.?\d*(?:[eE][+-]?\d+)?[uUlLfF]*)|(?P<word>[A-Za-z_]\w*)
    |(?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!&|^~?:;,.(){}\[\]\#\\])|(?P<other>.)''',
                   re.S | re.X)
PRECEDENCE = {'||': 1, '&&': 2, '|': 3, '^': 4, '&': 5, '==': 6, '!=': 6, '<': 7, '<=': 7, '>': 7, '>=': 7, '<<': 8, '>>': 8,
              '+': 9, '-': 9, '*': 10, '/': 10, '%': 10}
SWAP = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==', '&&': '||', '||': '&&', '+': '-', '-': '+',
        '*': '+', '/': '*', '%': '/', '|': '&', '&': '|', '<<': '>>', '>>': '<<'}
ENDS = {'(', '[', '{', ',', ';', '?', ':', '=', '+=', '-=', '*=', '/=', '|=', '&=', '^=', '%=', '<<=', '>>=', 'return', 'case',
        'else', 'do', ')', ']', '}'}
HEAD = '#include "tests/mutants/mutant.h"\n#line 1\n'
MODULES = ['base', 'ir', 'passes', 'kernels', 'compiler', 'runtime']


class Token:
    __slots__ = ('kind', 'text', 'at', 'end')

    def __init__(self, kind, text, at):
        self.kind, self.text, self.at, self.end = kind, text, at, at + len(text)


def tokens_of(text):
    return [Token(m.lastgroup, m.group(), m.start()) for m in TOKEN.finditer(text) if m.lastgroup not in ('space', 'comment')]


def bodies(text):
    """Spans of function bodies: from a line `{` to a line `}`."""
    for m in re.finditer(r'^\{\n.*?^\}', text, re.S | re.M):
        yield m.span()


def match(tokens, i, step):
    """The index of the bracket that belongs to tokens[i]."""
    opens, closes = ('([{', ')]}') if step > 0 else (')]}', '([{')
    depth = 0
    while 0 <= i < len(tokens):
        if tokens[i].kind == 'op' and tokens[i].text in opens:
            depth += 1
        elif tokens[i].kind == 'op' and tokens[i].text in closes:
            depth -= 1
            if depth == 0:
                return i
        i += step
    return None


def operand(tokens, i, step, own):
    """The index of the last token of the operand that begins next to the operator tokens[i]."""
    last = None
    i += step
    while 0 <= i < len(tokens):
        t = tokens[i]
        if t.kind == 'op' and t.text in ('([{' if step > 0 else ')]}'):
            i = match(tokens, i, step)
            if i is None:
                return None
        elif t.text in ENDS:
            return last
        elif is_binary(tokens, i) and (PRECEDENCE[t.text] <= own if step > 0 else PRECEDENCE[t.text] < own):
            return last
        last = i
        i += step
    return None


def is_binary(tokens, i):
    """clang-format puts blanks around binary operators and none after unary ones."""
    t = tokens[i]
    return (t.kind == 'op' and t.text in PRECEDENCE and 0 < i < len(tokens) - 1 and tokens[i - 1].end < t.at and
            t.end < tokens[i + 1].at and tokens[i - 1].text not in ENDS - {')', ']', '}'})


def skipped(text, at, end):
    """Spans of static data, case labels and preprocessor lines, which must stay constant."""
    out = []
    for m in re.finditer(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$|\bcase\b[^:\n]*:|^\s*static const\b[^;]*;|\benum\b[^;]*;|_Static_assert[^;]*;|'
                         r'\bsizeof\b[^;]*?\)', text[at:end], re.M):
        out.append((at + m.start(), at + m.end()))
    return out


def one_line(text):
    return re.sub(r'\s*\n\s*', ' ', text)


def c_places(text):
    for at, end in bodies(text):
        tokens = [t for t in tokens_of(text[at:end])]
        for t in tokens:
            t.at += at
            t.end += at
        skip = skipped(text, at, end)
        for i, t in enumerate(tokens):
            if any(a <= t.at < b for a, b in skip):
                continue
            if is_binary(tokens, i) and t.text in SWAP:
                left, right = operand(tokens, i, -1, PRECEDENCE[t.text]), operand(tokens, i, 1, PRECEDENCE[t.text])
                if left is None or right is None:
                    continue
                a, b = tokens[left].at, tokens[right].end
                old, new = text[a:t.at], text[t.end:b]
                yield {'kind': 'operator', 'at': a, 'end': b, 'mark': t.at, 'what': f'{t.text} -> {SWAP[t.text]}',
                       'old': f'({old}) {t.text} ({new})', 'new': one_line(f'({old}) {SWAP[t.text]} ({new})')}
            elif t.kind == 'number' and re.fullmatch(r'\d+u?', t.text) and i and tokens[i - 1].text not in ('[', '{'):
                yield {'kind': 'number', 'at': t.at, 'end': t.end, 'mark': t.at, 'what': f'{t.text} -> {t.text} + 1',
                       'old': t.text, 'new': f'{t.text} + 1'}
        for m in re.finditer(r'^( +)((?:\w|->|\.|\[\w+\]|\*)+ (?:[-+|&*]?=) [^\n]*;|(?:[a-z]\w*)\([^\n]*\);)$', text[at:end], re.M):
            a, b, s = at + m.start(2), at + m.end(2), m.group(2)
            if (re.match(r'\w*(?:free|finish|destroy|close|closedir|decref|lock|unlock|release)\(|(?:else|if|for|while|switch|return)\b', s) or
                    any(x <= a < y for x, y in skip) or s.count('(') != s.count(')') or
                    not re.search(r'[;{})]\s*$|\belse\s*$|\*/\s*$', text[:a])):
                continue
            yield {'kind': 'statement', 'at': a, 'end': b, 'mark': a, 'what': f'left out: {s}', 'old': s, 'new': ''}


def text_places(text):
    """GLSL in C strings of the code generator."""
    for at, end in bodies(text):
        for m in re.finditer(r'"(?:\\.|[^"\\\n])*"(?:\s*\n\s*"(?:\\.|[^"\\\n])*")*', text[at:end]):
            s = m.group()
            around = text[max(0, at + m.start() - 30):at + m.start()] + text[at + m.end():at + m.end() + 8]
            if ';' not in s or re.search(r'PRI\w+|return|DOP_FAIL', around):
                continue
            for o in re.finditer(r' (<=|>=|<|>|\+|-|\*|/|&&|\|\|) ', s):
                new = s[:o.start(1)] + SWAP[o.group(1)] + s[o.end(1):]
                yield {'kind': 'glsl in C', 'at': at + m.start(), 'end': at + m.end(), 'mark': at + m.start() + o.start(1),
                       'what': f'{o.group(1)} -> {SWAP[o.group(1)]}', 'old': s, 'new': one_line(new)}


def glsl_places(text):
    for line in re.finditer(r'^.*$', text, re.M):
        s = line.group()
        code = re.sub(r'//.*', '', s)
        if s.lstrip().startswith(('#', '//', '*', '/*')) or ';' not in code and '{' not in code:
            continue
        for o in re.finditer(r' (<=|>=|<|>|==|!=|\+|-|\*|/|&&|\|\|) ', code):
            a = line.start() + o.start(1)
            yield {'kind': 'glsl', 'at': a, 'end': line.start() + o.end(1), 'mark': a, 'what': f'{o.group(1)} -> {SWAP[o.group(1)]}',
                   'old': o.group(1), 'new': SWAP[o.group(1)]}


def table_places(text, is_def):
    spans = [m.span() for m in (re.finditer(r'^[A-Z_]+\(.*$', text, re.M) if is_def else
                                re.finditer(r'static const [^;(]*= \{.*?\};', text, re.S))]
    for a, b in spans:
        clean = re.sub(r'"(?:\\.|[^"\\])*"|/\*.*?\*/', lambda m: ' ' * len(m.group()), text[a:b], flags=re.S)
        for o in re.finditer(r'(?<![\w.\[])(\d+|true|false)(?![\w.\]])', clean):
            s = o.group()
            new = {'true': 'false', 'false': 'true'}.get(s) or str(int(s) + 1)
            yield {'kind': 'table', 'at': a + o.start(), 'end': a + o.end(), 'mark': a + o.start(), 'what': f'{s} -> {new}',
                   'old': s, 'new': new}


def candidates(source, files):
    """Groups of places, by kind of place: C, GLSL, tables."""
    groups = {'c': [], 'glsl': [], 'table': []}
    for path in files:
        if not path.endswith(('.c', '.glsl', '.def')) or '/windows/' in path:
            continue
        text = read_text(source, path)
        found = []
        if path.endswith('.c'):
            found += [('c', p) for p in c_places(text)]
            found += [('table', p) for p in table_places(text, False)]
            if path.startswith('kernels/'):
                found += [('glsl', p) for p in text_places(text)]
        elif path.endswith('.glsl'):
            found += [('glsl', p) for p in glsl_places(text)]
        else:
            found += [('table', p) for p in table_places(text, True)]
        for group, p in found:
            p['file'], p['line'] = path, text.count('\n', 0, p['mark']) + 1
            p['column'] = p['mark'] - (text.rfind('\n', 0, p['mark']) + 1)
            p['line_text'] = text[p['mark'] - p['column']:].split('\n', 1)[0]
            p['group'] = group
            groups[group].append(p)
    return groups


def shuffled(places, seed):
    """By a hash of what is changed and where: most places of a seed stay when other code changes."""
    seen = {}
    for p in places:
        text = f"{seed} {p['file']} {p['what']} {p['line_text']}"
        seen[text] = seen.get(text, 0) + 1
        p['order'] = hashlib.sha256(f'{text} {seen[text]}'.encode()).hexdigest()
    return sorted(places, key=lambda p: p['order'])


def pick(source, files, seed, number):
    """Seven in ten are of C, two of GLSL, one of tables; a fourth more than asked for are spares.  No two lie within five lines."""
    groups = candidates(source, files)
    share = {'glsl': number * 2 // 10 if groups['glsl'] else 0, 'table': number // 10 if groups['table'] else 0}
    share['c'] = number - share['glsl'] - share['table']
    out = []
    for group in ('c', 'glsl', 'table'):
        n = 0
        for p in shuffled(groups[group], seed):
            if n == share[group] + share[group] // 4 + 1 or share[group] == 0:
                break
            if any(q['file'] == p['file'] and abs(q['line'] - p['line']) < 6 for q in out):
                continue
            p['spare'] = n >= share[group]
            p['selected'] = p['kind'] in ('operator', 'number', 'statement', 'glsl in C')
            out.append(p)
            n += 1
    for k, p in enumerate(out):
        p['k'] = k + 1
    return out


def probe_names(source, p):
    """The string or table by which code uses the place of a mutant that DOP_MUTANT cannot select, and the folder or file of that code."""
    if p['file'].endswith('.glsl'):
        return '"' + re.sub(r'^kernels/glsl/', '', p['file']) + '"', 'kernels/'
    if p['file'].endswith('.c'):
        text = read_text(source, p['file'])
        for m in re.finditer(r'static const [^;(]*?(\w+)(?:\[\w*\])* = \{.*?\};', text, re.S):
            if m.start() <= p['at'] < m.end():
                return m.group(1), p['file']
    return None, None


def read_text(source, path):
    with open(os.path.join(source, path), encoding='utf-8') as f:
        return f.read()


def edited(source, files, places):
    """The texts of the files with all mutants that DOP_MUTANT selects, and with marks where the others are at work."""
    edits = {}
    for p in places:
        if not p['selected']:
            continue
        k = p['k']
        if p['kind'] == 'number':
            new = f"({p['old']} + dop_mutant({k}))"
        elif p['kind'] == 'statement':
            new = f"{{ if (!dop_mutant({k})) {p['old']} }}"
        else:
            new = f"(dop_mutant({k}) ? ({p['new']}) : ({p['old']}))"
        edits.setdefault(p['file'], []).append((p['at'], p['end'], new))
    marks = [(p['k'], *probe_names(source, p)) for p in places if not p['selected']]
    for path in files:
        if not path.endswith('.c') or path.split('/')[0] not in MODULES:
            continue
        text = None
        for k, name, where in marks:
            if name is None or not path.startswith(where):
                continue
            text = text or read_text(source, path)
            for at, end in bodies(text):
                if name in text[at:end]:
                    edits.setdefault(path, []).append((at + 1, at + 1, f' (void)dop_mutant({k});'))
    out = {}
    for path, list_ in edits.items():
        text = read_text(source, path)
        for at, end, new in sorted(list_, reverse=True):
            text = text[:at] + new + text[end:]
        out[path] = HEAD + text
    return out
