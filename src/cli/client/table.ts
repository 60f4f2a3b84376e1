import { stringify } from 'yaml';
import type { Terminal } from './terminal.ts';

export const FORMATS = ['table', 'wide', 'json', 'yaml'] as const;
export type Format = (typeof FORMATS)[number];

export interface Column<Row> {
  readonly title: string;
  readonly of: (row: Row) => string;
  /** Only with `-o wide`. */
  readonly wide?: true;
}

interface ShowOptions {
  readonly format: Format;
  readonly terminal: Terminal;
}

/** Prints rows as a table, or as JSON or YAML for programs. */
export function show<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { format, terminal }: ShowOptions,
  none: string,
): void {
  if (format === 'json' || format === 'yaml') return showValue(rows, { format, terminal });
  if (rows.length === 0) return terminal.note(none);
  terminal.print(
    formatTable(
      rows,
      columns.filter(({ wide }) => !wide || format === 'wide'),
    ),
  );
}

/** Prints one value as JSON or YAML. */
export function showValue(value: unknown, { format, terminal }: ShowOptions): void {
  terminal.print(format === 'json' ? JSON.stringify(value, null, 2) : asYaml(value));
}

export const asYaml = (value: unknown) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd();

export function formatTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  const lines = [columns.map(({ title }) => title), ...rows.map((row) => columns.map(({ of }) => printable(of(row))))];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Replaces control characters, because names and messages of other users could contain terminal escapes. */
export const printable = (text: string) => text.replace(/\p{Cc}+/gu, ' ');
