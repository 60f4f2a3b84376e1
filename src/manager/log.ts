import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import type { Config } from '../config/index.ts';

/** The log of the manager on standard output, as JSON or as readable lines. */
export function createLog(
  { logLevel, logFormat }: Pick<Config, 'logLevel' | 'logFormat'>,
  output = process.stdout,
): Logger {
  const pretty = logFormat === 'pretty' || (logFormat === 'auto' && output.isTTY);
  const options = { level: logLevel, base: null, timestamp: stdTimeFunctions.isoTime };
  return pretty ? pino(options, readable(output)) : pino(options);
}

const LEVELS: Record<number, string> = { 10: 'trace', 20: 'debug', 30: 'info', 40: 'WARN', 50: 'ERROR', 60: 'FATAL' };

/** `12:00:00 info  request method=GET path=/health status=200`, with the stack of an error below. */
function readable(output: NodeJS.WritableStream): DestinationStream {
  return { write: (line) => void output.write(`${readableLine(line)}\n`) };
}

export function readableLine(line: string): string {
  const { level, time, msg, err, ...fields } = JSON.parse(line) as Record<string, unknown> & {
    err?: { stack?: string };
  };
  const shown = Object.entries(fields).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const clock = String(time).slice(11, 19);
  const head = [clock, (LEVELS[Number(level)] ?? String(level)).padEnd(5), msg, ...shown].filter(Boolean).join(' ');
  return err?.stack ? `${head}\n${err.stack}` : head;
}
