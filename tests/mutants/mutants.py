"""The work of tests/mutants.sh, which says what it does."""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import mutate

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def arguments():
    p = argparse.ArgumentParser(prog='tests/mutants.sh', description='Which changes of the sources do the default tests notice?')
    p.add_argument('--seed', type=int, default=1, help='of the places (default: 1)')
    p.add_argument('--number', type=int, default=60, help='of mutants (default: 60)')
    p.add_argument('--module', action='append', metavar='FOLDER', help='only places below this folder; may be repeated')
    p.add_argument('--tests', default='.', metavar='REGEX', help='only tests whose name matches (default: all default tests)')
    p.add_argument('--seconds', type=float, default=1e9, help='limit of test time per mutant, shortest tests first')
    p.add_argument('--jobs', type=int, default=os.cpu_count(), help='parallel jobs (default: number of processors)')
    p.add_argument('--build-dir', default=os.path.join(ROOT, 'build-mutants'), help='where to build (default: build-mutants)')
    p.add_argument('--at-least', type=float, default=0, metavar='PERCENT', help='fail if fewer are killed (default: 0)')
    p.add_argument('--again', action='store_true', help='forget what an earlier run found with these tests')
    p.add_argument('--list', action='store_true', help='print the places and exit')
    return p.parse_args()


def place(p):
    return f"{p['file']}:{p['line']}: {p['what']}"


def end_session(session):
    """Ends all processes of a session, also those that have lost their parent: tests start programs that may loop."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
                if int(f.read().rsplit(')', 1)[1].split()[3]) == session:
                    os.kill(int(pid), signal.SIGKILL)
        except (OSError, IndexError):
            pass


class Mutants:
    # They look at the sources, or build and install them again: nothing that a mutant changes but they are slow or fail.
    EXCEPT = re.compile(r'^(check\.(install|layout|memory|templates|node|reproducible)|errors\.(readme|hostile)|mutants$|golden\.ranks)')

    def __init__(self, o):
        self.o = o
        self.tree = os.path.join(o.build_dir, 'source')
        self.build = os.path.join(self.tree, 'build-test', 'release')
        self.state = os.path.join(o.build_dir, 'state.json')
        listed = subprocess.run(['git', '-C', ROOT, 'ls-files', '-co', '--exclude-standard'], check=True, capture_output=True, text=True)
        self.files = [f for f in sorted(listed.stdout.split('\n')) if f and os.path.isfile(os.path.join(ROOT, f))]
        product = [f for f in self.files if f.split('/')[0] in mutate.MODULES and
                   (not o.module or any(f == m or f.startswith(m.rstrip('/') + '/') for m in o.module))]
        self.places = mutate.pick(ROOT, product, o.seed, o.number)
        self.lock = threading.Lock()
        self.tested = {}
        self.dropped = set()

    def sync(self):
        """Brings the copy to the sources with their mutants; files that stay as they are keep their time."""
        places = [p for p in self.places if p['k'] not in self.dropped]
        texts = mutate.edited(ROOT, self.files, places)
        for f in self.files:
            old, new = os.path.join(ROOT, f), os.path.join(self.tree, f)
            with open(old, 'rb') as file:
                data = texts[f].encode() if f in texts else file.read()
            try:
                with open(new, 'rb') as file:
                    if file.read() == data:
                        continue
            except FileNotFoundError:
                os.makedirs(os.path.dirname(new), exist_ok=True)
            with open(new, 'wb') as file:
                file.write(data)
            shutil.copymode(old, new)
        shared = os.path.join(self.o.build_dir, 'shared')
        if os.path.isdir(os.path.join(ROOT, '..', 'shared')) and not os.path.exists(shared):
            os.symlink(os.path.realpath(os.path.join(ROOT, '..', 'shared')), shared)

    def ninja(self):
        out = subprocess.run(['ninja', '-C', self.build, '-k', '0', '-j', str(self.o.jobs)], capture_output=True, text=True)
        return out.returncode, out.stdout + out.stderr

    def make(self):
        """Builds the copy; a mutant that does not compile is dropped, and a spare takes its place."""
        for _ in range(6):
            self.sync()
            if not os.path.exists(os.path.join(self.build, 'build.ninja')):
                subprocess.run(['cmake', '-S', self.tree, '-B', self.build, '-G', 'Ninja', '-DCMAKE_C_COMPILER=gcc',
                                '-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG -Wno-format-truncation -Wno-maybe-uninitialized',
                                *(['-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld'] if shutil.which('ld.lld') else [])],
                               check=True, stdout=subprocess.DEVNULL)
            status, log = self.ninja()
            if status == 0:
                return
            bad = set()
            for m in re.finditer(r'^(\S+?):(\d+):\d+: (?:fatal )?error', log, re.M):
                path = os.path.relpath(os.path.realpath(os.path.join(self.build, m.group(1))), self.tree)
                bad |= {p['k'] for p in self.places if p['file'] == path and -8 <= int(m.group(2)) - p['line'] <= 8}
            if not bad - self.dropped:
                sys.exit('error: the build failed:\n' + log[-3000:])
            self.dropped |= bad
        sys.exit('error: too many mutants that do not compile')

    def chosen(self):
        """The mutants that are counted: as many of each group as were asked for."""
        out = []
        for group in ('c', 'glsl', 'table'):
            live = [p for p in self.places if p['group'] == group and p['k'] not in self.dropped]
            out += live[:sum(1 for p in self.places if p['group'] == group and not p['spare'])]
        return out

    def ctest(self, name, seconds, **variables):
        """True if the test passes.  Tests of one name share a folder, so that only one of them runs at a time."""
        with self.lock:
            lock = self.tested.setdefault(name, threading.Lock())
        with lock:
            begun = time.monotonic()
            log = os.path.join(self.o.build_dir, 'logs', name)
            os.makedirs(os.path.dirname(log), exist_ok=True)
            with open(log, 'w', encoding='utf-8') as out:
                p = subprocess.Popen(['ctest', '--test-dir', self.build, '-R', '^' + re.escape(name) + '$'], stdout=out,
                                     stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **variables}, start_new_session=True)
                try:
                    p.wait(seconds)
                except subprocess.TimeoutExpired:
                    pass
                end_session(p.pid)
                p.wait()
            with open(log, encoding='utf-8', errors='replace') as out:
                return p.returncode == 0 and '100% tests passed' in out.read(), time.monotonic() - begun

    def each(self, work, items):
        """Calls `work` with every item, by as many threads as there are jobs."""
        items = list(items)
        failure = []

        def run():
            while not failure:
                with self.lock:
                    if not items:
                        return
                    item = items.pop(0)
                try:
                    work(item)
                except Exception as e:  # the first one ends the run
                    failure.append(e)
        threads = [threading.Thread(target=run) for _ in range(self.o.jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failure:
            raise failure[0]

    def save(self):
        with open(self.state + '.new', 'w', encoding='utf-8') as f:
            json.dump(self.saved, f)
        os.replace(self.state + '.new', self.state)

    def load(self):
        """What an earlier run of the same mutants found is not done again."""
        key = json.dumps([(p['k'], p['file'], p['at'], p['new']) for p in self.places])
        self.saved = {'key': key, 'reach': {}, 'killed': {}, 'passed': {}}
        if os.path.exists(self.state):
            with open(self.state, encoding='utf-8') as f:
                old = json.load(f)
            if old['key'] == key:
                self.saved = old
        self.dropped = set(self.saved.get('dropped', []))
        for name in [n for n in self.saved['reach'] if self.o.again and re.search(self.o.tests, n)]:
            del self.saved['reach'][name]
            for k, names in self.saved['passed'].items():
                self.saved['passed'][k] = [n for n in names if n != name]

    def map_test(self, name):
        """Runs a test without a mutant, and notes its time and the mutants it reaches."""
        folder = os.path.join(self.o.build_dir, 'reached', name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        passed, seconds = self.ctest(name, 1800, DOP_MUTANT_LOG=folder)
        with self.lock:
            self.saved['reach'][name] = {'seconds': seconds, 'passed': passed, 'reached': sorted(int(k) for k in os.listdir(folder))}
            self.save()
        if not passed:
            print(f'left out: {name} fails without a mutant', flush=True)

    def reaching(self, p):
        """Tests that reach the mutant, the shortest first.  Of templates: those that name it, then all that make kernels; of .def
        files, which many files include, all tests."""
        kernels = {q['k'] for q in self.places if q['file'].startswith('kernels/')}
        tests = []
        for name, t in self.saved['reach'].items():
            own = p['k'] in t['reached']
            other = p['file'].endswith('.def') or (p['file'].endswith('.glsl') and not kernels.isdisjoint(t['reached']))
            if t['passed'] and re.search(self.o.tests, name) and (own or other):
                tests.append((not own, t['seconds'], name))
        return [(seconds, name) for _, seconds, name in sorted(tests)]

    def try_one(self, p):
        k, spent = str(p['k']), 0
        for seconds, name in self.reaching(p):
            if name in self.saved['passed'].get(k, []):
                continue
            if spent + seconds > self.o.seconds:
                break
            spent += seconds
            passed, _ = self.ctest(name, 60 + 10 * seconds, DOP_MUTANT=k if p['selected'] else '')
            with self.lock:
                if passed:
                    self.saved['passed'].setdefault(k, []).append(name)
                else:
                    self.saved['killed'][k] = name
                self.save()
            if not passed:
                print(f'killed    {k}: {place(p)} by {name}', flush=True)
                return
        print(f"survived  {k}: {place(p)} ({len(self.saved['passed'].get(k, []))} tests reach it)", flush=True)

    def try_in_place(self, p):
        path = os.path.join(self.tree, p['file'])
        with open(path, encoding='utf-8') as f:
            text = f.read()
        lines = text.split('\n')
        i = p['line'] - 1 + (mutate.HEAD.count('\n') if text.startswith(mutate.HEAD) else 0)
        assert lines[i][p['column']:].startswith(p['old']), place(p)
        lines[i] = lines[i][:p['column']] + p['new'] + lines[i][p['column'] + len(p['old']):]
        try:
            with open(path, 'w', encoding='utf-8') as f:
                f.write('\n'.join(lines))
            status, _ = (0, '') if path.endswith('.glsl') else self.ninja()
            if status:
                print(f'does not compile: {place(p)}')
                self.dropped.add(p['k'])
            else:
                self.try_one(p)
        finally:
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text)

    def run(self):
        os.makedirs(self.o.build_dir, exist_ok=True)
        self.load()
        self.make()
        self.saved['dropped'] = sorted(self.dropped)
        listed = subprocess.run(['ctest', '--test-dir', self.build, '-N', '-LE', '^long$'], capture_output=True, text=True).stdout
        names = [n for n in re.findall(r'Test +#\d+: (\S+)', listed) if re.search(self.o.tests, n) and not self.EXCEPT.search(n)]
        self.each(self.map_test, [n for n in names if n not in self.saved['reach']])
        todo = [p for p in self.chosen() if str(p['k']) not in self.saved['killed']]
        self.each(self.try_one, [p for p in todo if p['selected']])
        for p in [p for p in todo if not p['selected']]:
            self.try_in_place(p)
        chosen = self.chosen()
        alive = [p for p in chosen if str(p['k']) not in self.saved['killed']]
        print(f'\nseed {self.o.seed}: {len(chosen)} mutants, {len(chosen) - len(alive)} killed, {len(alive)} survived:')
        for p in alive:
            print(f"    {place(p)}\n        tests: {' '.join(self.saved['passed'].get(str(p['k']), [])) or 'none'}")
        return 0 if len(chosen) - len(alive) >= self.o.at_least / 100 * len(chosen) else 1


def main():
    o = arguments()
    m = Mutants(o)
    if o.list:
        for p in m.places:
            print(f"{p['k']:4} {'spare' if p['spare'] else '     '} {place(p)}")
        return 0
    return m.run()


sys.exit(main())
