/** Something that is measured, and what it must reach. Without `reach` it is only for information. */
export interface Figure {
  readonly what: string;
  readonly unit: 'ms' | 'kB' | 'MB' | '/s' | '%' | 'jobs';
  readonly reach?: readonly ['<' | '≤' | '≥', number];
  /** What the Go manager was measured to do on the same kind of machine. */
  readonly goManager?: string;
}

export type Measured<Figures> = { readonly [Name in keyof Figures]: number };

/** One program: a file of this folder that exports these. */
export interface Benchmark<Figures extends Readonly<Record<string, Figure>> = Readonly<Record<string, Figure>>> {
  readonly description: string;
  readonly figures: Figures;
  readonly run: () => Promise<Measured<Figures>>;
}

export function isReached({ reach }: Figure, measured: number): boolean {
  if (!reach) return true;
  const [relation, figure] = reach;
  if (relation === '<') return measured < figure;
  return relation === '≤' ? measured <= figure : measured >= figure;
}
