# doppler-exec -i at a terminal of its own:   python3 terminal.py EXEC CHAT_PLAN PLAIN_PLAN FOLDER   (tests/errors/talk.sh)
import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import sys
import termios
import time

EXEC, CHAT, PLAIN, FOLDER = sys.argv[1:5]
HISTORY = FOLDER + '/state/doppler/history'
passed = 0


class Terminal:
    """A program at a pseudo-terminal."""

    def __init__(self, plan, *options, mode=('-i',), rows=24, columns=80, **env):
        self.seen, self.raw, self.settled = 0, b'', 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(EXEC, [EXEC, plan, *mode, *options],
                      {**os.environ, 'TERM': 'xterm', 'HOME': FOLDER, 'XDG_STATE_HOME': FOLDER + '/state', **env})
        self.size(rows, columns)

    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self.fd, 65536)
        except OSError:  # the program is gone
            return False
        self.raw += got
        return bool(got)

    def text(self):
        """What came since the last wait, without what moves the cursor; @: a line begins, in which pastes are marked."""
        return re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', self.raw[self.seen:].replace(b'\x1b[?2004h', b'@').decode(errors='replace'))

    def wait(self, pattern, seconds=240):
        """Waits for a pattern; returns what came until then."""
        end, alive = time.time() + seconds, True
        while True:
            found = re.search(pattern, self.text())
            if found:
                text = self.text()
                self.seen = len(self.raw)
                return text
            if not alive or time.time() > end:
                raise AssertionError('%r never came: %r' % (pattern, self.raw[-1500:]))
            alive = self.read(0.1)

    def type(self, text):
        data = text.encode()
        while data:
            self.read(0)
            data = data[os.write(self.fd, data[:512]):]

    def answer(self, text, prompt='@> $'):
        """Types a line; returns its echo and what the program says until it wants another one."""
        self.type(text + '\r')
        return self.wait(prompt)

    def settle(self):
        """What Ctrl-C ends depends on who is faster, and so does the number of prompts that it leaves: waits for the last one."""
        self.settled += 1
        return self.answer('/settle%d' % self.settled, 'unknown command /settle%d;.*\r\n@> $' % self.settled)

    def taken(self):
        """Waits until the program has read what was typed: Ctrl-C throws away what it has not."""
        end, waits = time.time() + 60, b'1'
        with open('/proc/%d/fd/0' % self.pid, 'rb', buffering=0) as keys:
            while any(waits) and time.time() < end:
                waits = fcntl.ioctl(keys, termios.FIONREAD, bytes(4))
                self.read(0.02)

    def end(self, keys='\x04'):
        """Waits for the end; returns the status of waitpid."""
        self.type(keys)
        end = time.time() + 120
        while time.time() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return status
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError('it did not end: %r' % self.raw)


def test(name, good, why=''):
    global passed
    if not good:
        sys.exit('FAILED %s: %r' % (name, why))
    passed += 1


def undone(t):
    """The line that /undo says it undid; empty where there was none."""
    said = re.search(r'forgot "(.*?)" and', t.answer('/undo'))
    return said.group(1) if said else ''


t = Terminal(CHAT, '-n', '6', '--temp', '0')
t.wait('@> $')
test('a paste is announced', b'\x1b[?2004h' in t.raw)
first = t.answer('Speak.')
test('it answers', len(first.split('\n')) >= 3, first)
test('a paste is not, while it answers', b'\x1b[?2004l' in t.raw)
t.answer('Spek\x1b[Da\x05 on.')
test('an edited line', undone(t) == 'Speak on.')
t.answer('\x1b[A\x1b[A\x1b[A')
test('a line of the history', undone(t) == 'Speak.')
t.answer('\x12k on')
test('a line that is searched', undone(t) == 'Speak on.')
test('Tab completes a command', 'the temperature is 0' in t.answer('/ret\t'))
open(FOLDER + '/my talk (1)', 'w').close()
test('Tab completes the name of a file', 'my talk (1): not a saved sequence' in t.answer('/load %s/my\t' % FOLDER))
test('a name in quotation marks', 'my talk (1): not a saved sequence' in t.answer("/load '%s/my talk (1)'" % FOLDER))
test('an unknown command', 'unknown command /what; /help lists them' in t.answer('/what'))
said = t.answer('')
test('an empty line', said.strip('\r\n@> ') == '', said)  # a slow program's terminal may echo the key once more
test('characters of two columns', undone(t) == 'Speak.' and t.answer('漢字とかな😀é\x1b[D\x1b[D\x7f') and undone(t) == '漢字とか😀é')
t.type('one\\\r')
t.wait(r'@\. $')
t.answer('two')
test('a line that goes on', undone(t) == 'one two')
t.type('"""\r')
t.wait(r'@\. $')
t.type('/a\r\r')
t.answer('b"""')
test('several lines', undone(t) == '/a  b')
t.answer('"""/c"""')
test('a text that is no command', undone(t) == '/c')
t.type('x\x1b\ry\r')
t.wait('@> $')
test('Alt+Enter', undone(t) == 'x y')
t.type('\x1b[200~/p1\r\tp2\n\n\x1b[201~!\r')
t.wait('@> $')
said = undone(t)
test('a paste is one text', said == '/p1  p2!', said)
t.type('\x1b[200~p3\r\np4\r\n\x1b[201~')
t.answer('')
said = undone(t)
test('a paste of DOS has its lines once', said == 'p3 p4', said)
t.type('\x1b[200~without an end')
t.taken()
t.type('\x03')
t.wait('without an end(.|\n)*@> $')
test('a paste that does not end is given up', 'nothing to undo' in t.answer('/undo'))
t.type('"""\r')
t.wait(r'@\. $')
t.type('z\r')
t.wait(r'@\. $')
t.type('\x04')
t.wait('input ended before """(.|\n)*@> $')
test('the end of the input within a text', undone(t) == 'z')
t.type('given up')
t.wait('given up')
t.type('\x03')  # alone, because a terminal throws away what it has not passed on
t.wait(r'\^C\r\n@> $')
test('a line that is given up', 'nothing to undo' in t.answer('/undo'))
t.type('\x03')
t.wait('Ctrl-D or /quit ends the conversation(.|\n)*@> $')
t.answer('/help')
words = ''.join('word%d ' % i for i in range(2000))[:10000]
t.type('\x1b[200~' + words + '\x1b[201~')
t.type('\r')
test('a paste of 10,000 characters', 'say it in fewer words' in t.wait('context is 128(.|\n)*@> $'))
t.type('of this width')
t.wait('width')
t.size(10, 30)
t.wait('of this width')
t.answer('.')
test('another width', undone(t) == 'of this width.')
test('it ends well', t.end() == 0)
kept = open(HISTORY).read()
test('lines are kept', 'Speak.\n' in kept and 'x\\012y\n' in kept and '\n/a\\012\\012b\n' in kept and '\n//c\n' in kept and 'given up' not in kept, kept)
test('for their owner', stat.S_IMODE(os.stat(HISTORY).st_mode) == 0o600 and
     stat.S_IMODE(os.stat(os.path.dirname(HISTORY)).st_mode) == 0o700)

with open(HISTORY, 'w') as f:
    f.write('_HiStOrY_V2_\n' + ''.join('line %d\n' % i for i in range(1000)))
t = Terminal(CHAT, '-n', '2', '--temp', '0')
t.wait('@> $')
t.answer('\x1b[A')
test('lines of another run', undone(t) == 'line 999')
t.answer('the newest')
kept = open(HISTORY).read().split('\n')
test('the file is bounded', len(kept) == 1002 and kept[1] == r'line\0402' and kept[-2] == r'the\040newest', kept[:3] + kept[-3:])
os.kill(t.pid, signal.SIGTERM)
test('SIGTERM ends it', os.WTERMSIG(t.end('')) == signal.SIGTERM)

t = Terminal(CHAT, '-n', '16', '--temp', '0', '--ignore-eos')
t.wait('@> $')
turns = 0
while True:
    t.type('Tell me more.\r')
    if 'is full' in t.wait(r'@(> |y/a/new/n\? )$'):
        break
    turns += 1
test('a full context asks', turns >= 2)
t.type('perhaps\r')
t.wait(r'@y/a/new/n\? $')
test('no: the line is left out', '/drop forgets the oldest turn' in t.answer('n'))
t.type('Tell me more.\r')
t.wait(r'@y/a/new/n\? $')
test('yes: the oldest turns go', 'forgotten' in t.answer('y'))
t.answer('/drop auto')
for _ in range(turns):
    said = t.answer('Tell me more.')
test('from now on', 'is forgotten' in said)
test('/drop', 'forgot the oldest 1 of' in t.answer('/drop'))
t.answer('/new')
test('/new', 'nothing to undo' in t.answer('/undo'))
test('/quit', t.end('/quit\r') == 0)

t = Terminal(PLAIN, '--temp', '0', '--ignore-eos', '--chunk', '1')
t.wait('@> $')
t.type('ROMEO:\r')
t.wait('ROMEO:\r\n.*[a-z]')
t.type('\x03')
t.settle()
test('Ctrl-C ends the answer, and its line is kept', undone(t) == 'ROMEO:')
t.type('a ' * 25 + '\r')
t.wait(r'a a ?\r\n')
t.type('\x03')
said = t.settle()
# A slow terminal may still have edited the line, which is then dropped.
test('Ctrl-C while a line is read, or answered', 'the line is left out' in said or undone(t)[:3] in ('a a', ''), said)
said = t.answer('   ')
test('a line of blanks', said.strip('\r\n@> ') == '', said)
t.type('\x03')
t.wait('once more(.|\n)*@> $')
test('Ctrl-C twice ends it', t.end('\x03') == 0)

for kind in ('dumb', 'no-such-terminal', ''):
    t = Terminal(PLAIN, '-n', '2', '--temp', '0', TERM=kind)
    t.wait('> $')
    test('TERM=%s' % kind, 'KING' in t.answer('KING:', r'\n> $') and b'[?2004' not in t.raw, t.raw)
    test('and it ends', t.end() == 0)

t = Terminal(PLAIN, '-p', 'ROMEO:', '-n', '2', mode=())
said = t.wait(r'\nload .*\r\n')
test('a line while a prompt is read', re.search(r'reading \.\.\.\r +\rROMEO:', said), said)
test('and it ends', t.end('') == 0)

os.remove(HISTORY)
os.mkfifo(HISTORY)
t = Terminal(PLAIN, '-n', '2', '--temp', '0')
t.wait('@> $')
test('a history that nobody reads is no reason to wait', 'KING' in t.answer('KING:'))
test('and it ends', t.end() == 0)
os.remove(HISTORY)
os.mkdir(HISTORY)
t = Terminal(PLAIN, '-n', '2', '--temp', '0', '--quiet')
t.type('KING:\r')
t.wait(r'\n.*[a-z]')  # Ctrl-D may well come before the next line is read
test('a history that cannot be kept is no error', t.end() == 0)
print('%d tests of a terminal passed' % passed)
