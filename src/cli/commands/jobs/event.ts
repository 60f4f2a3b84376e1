import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import type { Command } from 'commander';
import { ClientError } from '../../client/errors.ts';

export interface EventOptions {
  readonly file?: string;
  readonly text?: string;
}

export function withEventOptions(command: Command): Command {
  return command
    .option('-f, --file <file>', 'the input file, or - for standard input')
    .option('-t, --text <text>', 'the input as text');
}

/**
 * The body of an invocation: base64, as oscar-cli sends it, so that any bytes arrive
 * (docs/go-manager.md#events-and-scripts).
 */
export async function readEventBody({ file, text }: EventOptions): Promise<string> {
  if (file !== undefined && text !== undefined) throw new ClientError('usage', 'use either --file or --text');
  if (file === undefined) return Buffer.from(text ?? '').toString('base64');
  try {
    return (file === '-' ? await buffer(process.stdin) : readFileSync(file)).toString('base64');
  } catch (cause) {
    throw new ClientError('bad-input', `${file} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
