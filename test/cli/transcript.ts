import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { VERSION } from '../../src/lib/product-version.ts';
import { environment, MAIN } from './up-process.ts';

/** With this set, transcripts are written anew instead of compared: read what changed before you keep it. */
const REWRITE = process.env['OSCAR_REWRITE_TRANSCRIPTS'] !== undefined;

/** No command takes longer, also on a machine that has much else to do. */
const LONGEST_MS = 120_000;

export interface Transcript {
  readonly expected: string;
  readonly actual: string;
}

/**
 * Runs the commands of a transcript, which are the lines that begin with `$ `, and gives it as it is written and as it went.
 * What is different each time is masked.
 */
export async function replay(file: string, directory: string): Promise<Transcript> {
  const expected = readFileSync(file, 'utf8');
  const [head = '', ...blocks] = expected.split(/^(?=\$ )/m);
  let actual = head;
  for (const block of blocks) {
    const [command = ''] = block.slice('$ '.length).split('\n');
    actual += `$ ${command}\n${masked(await inShell(command, directory), directory)}\n`;
  }
  if (REWRITE) writeFileSync(file, actual);
  return { expected: REWRITE ? actual : expected, actual };
}

/** What it prints, on either stream, and how it ends if that is not well. */
async function inShell(command: string, directory: string): Promise<string> {
  const script = `oscar() { "$NODE" "$MAIN" "$@"; }\n${command}`;
  const env = { ...environment(directory), NODE: process.execPath, MAIN };
  const { promise, resolve } = Promise.withResolvers<string>();
  execFile('/bin/sh', ['-c', `{ ${script}\n} 2>&1`], { cwd: directory, env, timeout: LONGEST_MS }, (error, stdout) =>
    resolve(error ? `${stdout}[exit ${error.code ?? error.signal}]\n` : stdout),
  );
  return promise;
}

const MASKS: readonly (readonly [RegExp, string])[] = [
  [/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT'],
  [/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID'],
  [/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/g, 'TIME'],
  [/\b\d+(\.\d+)? m?s\b/g, 'N s'],
  [/process \d+/g, 'process PID'],
  // What isolates scripts depends on the machine.
  [/isolation +(ok|warning), scripts .*/g, 'isolation  ok, ISOLATION'],
  [new RegExp(VERSION.replaceAll('.', '\\.'), 'g'), 'VERSION'],
  // Said only by what takes long.
  [/^\S.* …\n/gm, ''],
  // Columns are as wide as what was masked in them.
  [/(?<=\S) {2,}/g, '  '],
];

export function masked(text: string, directory: string): string {
  const local = text.replaceAll(directory, 'DIR');
  return MASKS.reduce((so, [pattern, word]) => so.replace(pattern, word), local);
}
