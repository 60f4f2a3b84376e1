/** Millicores as cores: `1.5`. */
export const formatCores = (millicores: number | undefined) =>
  millicores === undefined ? '' : String(Math.round(millicores / 10) / 100);

export const formatGibibytes = (bytes: number | undefined) =>
  bytes === undefined ? '' : `${(bytes / 1024 ** 3).toFixed(1)} GiB`;

const STEPS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `1.5 MiB`. */
export function formatSize(bytes: number): string {
  const step = Math.min(STEPS.length - 1, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${step === 0 ? bytes : (bytes / 1024 ** step).toFixed(1)} ${STEPS[step]}`;
}

/** A duration with one unit: `42 s`, `5 min`, `3 h`, `2 d`. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 2 * 60 * 60) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 60 * 60) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** A duration that may be short: `53 ms`, `1.6 s`, `42 s`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : formatSpan(ms);
}
