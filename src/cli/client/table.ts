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

interface Showing {
  readonly format: Format;
  readonly terminal: Terminal;
}

/** The same rows for people, or as they came for programs. */
export function show<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { format, terminal }: Showing,
  none: string,
): void {
  if (format === 'json' || format === 'yaml') return showValue(rows, { format, terminal });
  if (rows.length === 0) return terminal.note(none);
  terminal.print(
    tableOf(
      rows,
      columns.filter(({ wide }) => !wide || format === 'wide'),
    ),
  );
}

/** One thing, as a document. */
export function showValue(value: unknown, { format, terminal }: Showing): void {
  terminal.print(format === 'json' ? JSON.stringify(value, null, 2) : asYaml(value));
}

export const asYaml = (value: unknown) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd();

export function tableOf<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
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

/** Names and messages come from other people: what steers a terminal is not passed on to it. */
export const printable = (text: string) => text.replace(/\p{Cc}+/gu, ' ');
