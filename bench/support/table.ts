import { type Figure, isReached } from './benchmark.ts';

export interface Row {
  readonly figure: Figure;
  readonly measured: number;
}

/** The results in Markdown, aligned so that they can be read as they are. */
export function table(rows: readonly Row[]): string {
  const lines = [['what', 'measured', 'to reach', 'verdict', 'the Go manager'], ...rows.map(cellsOf)];
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const written = lines.map((line) => row(line.map((cell, column) => cell.padEnd(widths[column] ?? 0))));
  return [written[0], row(widths.map((width) => '-'.repeat(width))), ...written.slice(1)].join('\n');
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;

function cellsOf({ figure, measured }: Row): string[] {
  const { what, unit, reach, goManager = '–' } = figure;
  const verdict = isReached(figure, measured) ? 'reached' : '**missed**';
  const toReach = reach ? [`${reach[0]} ${quantity(reach[1], unit)}`, verdict] : ['–', 'for information'];
  return [what, quantity(measured, unit), ...toReach, goManager];
}

/** Small numbers with a decimal, large ones with a comma: `6.4 ms`, `12,345/s`. */
function quantity(value: number, unit: Figure['unit']): string {
  const digits = Number.isInteger(value) || value >= 20 ? 0 : 1;
  const number = value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return unit === '/s' ? `${number}/s` : `${number} ${unit}`;
}
