/** When something was printed, as exactly as the engine says: Docker to the nanosecond, Podman to the second. */
export interface LogTime {
  readonly seconds: number;
  readonly nanoseconds: number;
}

export interface LogEntry {
  readonly time: LogTime;
  readonly bytes: Uint8Array;
}

const SPACE = 0x20;
/** Longer than any time is written. */
const LONGEST_TIME = 40;
const TIME = /^(?<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?<fraction>\d{1,9}))?(?<zone>Z|[+-]\d\d:\d\d)$/;

/** Of a frame that begins with its time. */
export function readEntry(frame: Uint8Array): LogEntry | undefined {
  const end = frame.subarray(0, LONGEST_TIME).indexOf(SPACE);
  const time = end < 0 ? undefined : readTime(Buffer.from(frame.subarray(0, end)).toString('latin1'));
  return time && { time, bytes: frame.subarray(end + 1) };
}

export function readTime(text: string): LogTime | undefined {
  const { second, fraction = '', zone } = TIME.exec(text)?.groups ?? {};
  const seconds = Date.parse(`${second}${zone}`) / 1_000;
  return Number.isNaN(seconds) ? undefined : { seconds, nanoseconds: Number(fraction.padEnd(9, '0')) };
}

/** Below 0: the first is the earlier one. */
export function compareTimes(a: LogTime, b: LogTime): number {
  return a.seconds - b.seconds || a.nanoseconds - b.nanoseconds;
}

export function millisecondsOf({ seconds, nanoseconds }: LogTime): number {
  return seconds * 1_000 + Math.floor(nanoseconds / 1_000_000);
}
