/** Amounts of a cluster, for sentences. */
export const inCores = (millicores: number) => String(millicores / 1000);
export const cores = (millicores: number) => `${inCores(millicores)} ${millicores === 1000 ? 'core' : 'cores'}`;
export const gpus = (count: number) => `${count} ${count === 1 ? 'GPU' : 'GPUs'}`;

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** Round up what is needed and down what is there: then the larger one never reads like the other. */
export function size(bytes: number, round: (value: number) => number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${round((bytes / 1024 ** power) * 100) / 100} ${UNITS[power]}`;
}
