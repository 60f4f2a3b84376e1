import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TarEntry, tar } from './tar.ts';

function unpacked(t: { after: (end: () => void) => void }, entries: readonly TarEntry[]): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-tar-'));
  t.after(() => rmSync(directory, { recursive: true }));
  execFileSync('tar', ['-xp', '-C', directory], { input: tar(entries) });
  return directory;
}

test('what is archived comes out again: files of any length, directories, links and modes', (t) => {
  const files = [0, 1, 511, 512, 513, 100_000].map((length) => ({
    name: `${length}`,
    bytes: Buffer.alloc(length, 'x'),
  }));
  const directory = unpacked(t, [
    { name: 'below/' },
    { name: 'below/run', bytes: Buffer.from('#!'), mode: 0o755 },
    { name: 'link', linkTo: 'below/run' },
    ...files,
  ]);
  for (const { name, bytes } of files) assert.deepEqual(readFileSync(join(directory, name)), bytes);
  assert.equal(statSync(join(directory, 'below/run')).mode & 0o777, 0o755);
  assert.equal(readlinkSync(join(directory, 'link')), 'below/run');
});

test('names of more than 100 bytes are split where a directory ends, also those with other letters', (t) => {
  const names = [
    `${'a'.repeat(60)}/${'b'.repeat(60)}`,
    `${'a/'.repeat(70)}${'b'.repeat(99)}`,
    `${'ä'.repeat(40)}/${'ö'.repeat(45)}`,
    `${'d'.repeat(90)}/${'e'.repeat(80)}/`,
  ];
  const entries = names.map((name) => ({ name, bytes: Buffer.from(name.endsWith('/') ? '' : name) }));
  const listed = execFileSync('tar', ['-t', '--quoting-style=literal'], { input: tar(entries), encoding: 'utf8' });
  assert.deepEqual(listed.trim().split('\n'), names);
  const directory = unpacked(t, entries);
  for (const name of names) {
    if (name.endsWith('/')) assert.ok(statSync(join(directory, name)).isDirectory());
    else assert.equal(readFileSync(join(directory, name), 'utf8'), name);
  }
});

test('a name that fits nowhere is refused, not cut', () => {
  assert.throws(() => tar([{ name: 'a'.repeat(101) }]), /too long/);
  assert.throws(() => tar([{ name: `${'a'.repeat(156)}/b` }]), /too long/);
});
